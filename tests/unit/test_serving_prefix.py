"""The two prefix caches by hand: what is found, what replaces what, and what is evicted first."""

import pytest

from course_lib.errors import OutOfPages, PageError, ServingError
from course_lib.kv import PageAllocator
from course_lib.serving import Request, Scheduler, ServingConfig
from course_lib.serving.prefix import HashPrefixCache
from course_lib.serving.radix import RadixPrefixCache

BOTH = pytest.mark.parametrize("kind", [HashPrefixCache, RadixPrefixCache])
PAGE = 4


def cache_of(kind, num_pages=8):
    return kind(PageAllocator(num_pages), PAGE)


def serve(cache, tokens, salt=""):
    """Compute a prompt as a scheduler would, and leave its table to the caller. -> pages, how many were found"""
    pages = cache.match(tokens, salt)
    found = len(pages)
    pages += cache.allocate(-(-len(tokens) // PAGE) - found)
    full = len(tokens) // PAGE
    pages[:full] = cache.insert(tokens, pages[:full], salt)
    cache.audit()
    return pages, found


def found(cache, tokens, salt=""):
    """How many pages a prompt would find, nothing changed but the order of use."""
    pages = cache.match(tokens, salt)
    cache.release(pages)
    cache.audit()
    return len(pages)


@BOTH
@pytest.mark.parametrize(
    "length, pages", [(1, 0), (PAGE, 0), (PAGE + 1, 1), (2 * PAGE, 1), (2 * PAGE + 1, 2), (3 * PAGE - 1, 2)]
)
def test_a_prompt_finds_its_full_pages_but_never_its_last_token(kind, length, pages):
    cache = cache_of(kind)
    tokens = list(range(length))
    table, before = serve(cache, tokens)
    assert before == 0 and found(cache, tokens) == pages
    cache.release(table)
    assert found(cache, tokens) == pages and cache.num_available == 8  # findable with no reference left


@BOTH
def test_equal_pages_after_another_prefix_or_under_another_salt_are_not_found(kind):
    cache = cache_of(kind)
    serve(cache, [1, 1, 1, 1, 2, 2, 2, 2, 3])
    assert found(cache, [1, 1, 1, 1, 2, 2, 2, 2, 9]) == 2
    assert found(cache, [5, 5, 5, 5, 2, 2, 2, 2, 9]) == 0
    assert found(cache, [2, 2, 2, 2, 9]) == 0
    assert found(cache, [1, 1, 1, 1, 2, 2, 2, 2, 9], salt="other tenant") == 0


@BOTH
def test_a_page_that_is_not_full_is_not_found(kind):
    cache = cache_of(kind)
    serve(cache, [1, 1, 1, 1, 2, 2, 2])
    assert found(cache, [1, 1, 1, 1, 2, 2, 2, 2, 3]) == 1


@BOTH
def test_a_duplicate_is_replaced_and_its_page_is_free(kind):
    cache, tokens = cache_of(kind), list(range(2 * PAGE))
    first = cache.insert(tokens, cache.allocate(2))
    second = cache.allocate(2)  # computed beside the first, so that nothing was found
    assert cache.insert(tokens, second) == first
    cache.audit()
    assert cache.allocator.num_free == 6 and [cache.allocator.references(page) for page in second] == [0, 0]
    assert [cache.allocator.references(page) for page in first] == [3, 3]  # two tables and the cache
    cache.release(first)
    assert cache.num_evictable == 0
    cache.release(first)
    assert cache.num_evictable == 2


@BOTH
def test_the_last_pages_of_the_oldest_prefix_go_first(kind):
    cache = cache_of(kind)
    old, new = [1] * 12 + [0], [1] * 4 + [2] * 4 + [0]
    for tokens in (old, new):
        cache.release(serve(cache, tokens)[0])
    assert cache.allocator.num_free == 4 and cache.num_evictable == 4
    left = []
    for _ in range(5):
        cache.evict(1)
        cache.audit()
        left.append(cache.num_evictable)
    assert left == [3, 2, 1, 0, 0] and cache.allocator.num_free == 8
    for tokens in (old, new):
        cache.release(serve(cache, tokens)[0])
    cache.evict(2)  # of the old prompt, its second and third page: the first is a prefix of the new one
    assert (found(cache, new), found(cache, old)) == (2, 1)


@BOTH
def test_a_match_makes_a_prefix_young(kind):
    cache = cache_of(kind)
    first, second = [1] * 5, [2] * 5
    for tokens in (first, second, first):
        cache.release(serve(cache, tokens)[0])
    cache.evict(1)
    assert (found(cache, first), found(cache, second)) == (1, 0)


@BOTH
def test_pages_of_a_table_are_not_evicted(kind):
    cache = cache_of(kind, 4)
    table, _ = serve(cache, [1] * 8)
    cache.release(serve(cache, [2] * 8)[0])
    with pytest.raises(OutOfPages):
        cache.allocate(3)
    assert cache.num_evictable == 0 and cache.allocator.num_free == 2 and found(cache, [1] * 9) == 2
    cache.release(table)
    assert len(cache.allocate(4)) == 4 and found(cache, [1] * 9) == 0


def test_a_match_in_the_middle_of_an_edge_splits_it_and_the_locks_come_back():
    cache = cache_of(RadixPrefixCache)
    table, _ = serve(cache, [1] * 12)
    (edge,) = cache._root.children.values()
    assert len(edge.pages) == 3 and edge.locks == 1
    other = cache.match([1] * 8 + [2] * 4)
    (upper,) = cache._root.children.values()
    (lower,) = upper.children.values()
    assert (upper.pages, upper.locks, lower.pages, lower.locks) == (table[:2], 2, table[2:], 1)
    cache.audit()
    cache.release(other)
    cache.release(table)
    assert (upper.locks, lower.locks) == (0, 0) and cache.num_evictable == 3
    cache.evict(3)
    assert not cache._root.children


def test_a_leaf_of_one_table_grows_and_a_shared_one_gets_a_child():
    cache = cache_of(RadixPrefixCache)
    first = cache.insert([1] * 4, cache.allocate(1))
    first = cache.insert([1] * 8, first + cache.allocate(1))
    (node,) = cache._root.children.values()
    assert node.pages == first and not node.children
    second = cache.match([1] * 8 + [2] * 5)
    cache.insert([1] * 8 + [2] * 4, second + cache.allocate(1))
    assert node.pages == first and len(node.children) == 1
    cache.audit()


@BOTH
def test_a_prefix_that_forks_keeps_both_ways(kind):
    cache = cache_of(kind)
    for tokens in ([1] * 12, [1] * 4 + [2] * 4):  # the second finds a page that has another behind it
        cache.release(serve(cache, [*tokens, 0])[0])
    assert found(cache, [1] * 12 + [0]) == 3 and found(cache, [1] * 4 + [2] * 4 + [0]) == 2
    assert found(cache, [1] * 4 + [2] * 4 + [1] * 4 + [0]) == 2


def test_a_hash_depends_on_every_token_before_it():
    cache = cache_of(HashPrefixCache)
    serve(cache, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    for place in range(8):
        tokens = [1, 2, 3, 4, 5, 6, 7, 8, 9]
        tokens[place] = 0
        assert found(cache, tokens) == place // PAGE


@BOTH
def test_an_audit_finds_what_was_broken(kind):
    cache = cache_of(kind)
    table, _ = serve(cache, [1] * 9)
    cache.allocator.release(table[:1])  # past the cache
    with pytest.raises((ServingError, PageError)):
        cache.audit()


@pytest.mark.parametrize("prefix, hits", [("hash", 8), ("radix", 8), (None, 0)])
def test_the_scheduler_counts_hits_in_tokens(prefix, hits):
    serving = Scheduler(ServingConfig(8, page_size=PAGE, max_num_tokens=16, max_num_seqs=2, prefix=prefix))
    for name in "ab":  # 12 tokens are 3 pages, and the second request computes the last of them again
        sequence = serving.add(Request(name, range(12), 1))
        step = serving.schedule()
        (output,) = serving.commit(step, {name: 7})
        serving.audit()
    assert sequence.num_cached == output.num_cached_tokens == hits and step.num_tokens == 12 - hits
    assert (serving.cache.queries, serving.cache.hits) == (24, hits)
