"""The page pool under random sequences of calls: no page is lost, and no token of another sequence is overwritten.

A list of plain numbers is the cache: every token is written to the slot that the pool gave, copies are done
when the pool asks for them, and each sequence must read back what it wrote.
"""

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from course_lib.errors import ArgumentError, CourseError, OutOfPages, PageError
from course_lib.kv import PageAllocator, PagePool

PAGES = st.integers(1, 9)
PICK = st.integers(0, 1 << 20)  # an index, modulo the number of choices


class Traffic(RuleBasedStateMachine):
    """Begins, grows, forks and ends sequences of a small pool."""

    def __init__(self):
        super().__init__()
        self.pool, self.cache, self.written, self.next_token = None, [], {}, 0

    @precondition(lambda self: self.pool is None)
    @rule(num_pages=PAGES, page_size=st.sampled_from((1, 2, 3, 4, 7)))
    def start(self, num_pages, page_size):
        self.pool = PagePool(num_pages, page_size)
        self.cache = [None] * (num_pages * page_size)

    @precondition(lambda self: self.pool is not None and len(self.written) < 6)
    @rule()
    def add(self):
        name = f"s{self.next_token}"
        self.next_token += 1
        self.pool.add(name)
        self.written[name] = []

    @precondition(lambda self: self.written)
    @rule(pick=PICK, count=st.integers(0, 11))
    def append(self, pick, count):
        name = self._one(pick)
        before, free = self._books(), self.pool.allocator.num_free
        needed = self.pool.pages_needed(name, count)
        assert self.pool.can_append(name, count) == (needed <= free)
        if needed > free:
            with pytest.raises(OutOfPages, match=f"{needed} pages are needed and {free} are free") as raised:
                self.pool.append(name, count)
            assert (raised.value.needed, raised.value.free) == (needed, free)
            assert self._books() == before  # nothing was changed
            return
        placement = self.pool.append(name, count)
        assert free - self.pool.allocator.num_free == needed
        size = self.pool.page_size
        for source, target in placement.copies:
            self.cache[target * size : (target + 1) * size] = self.cache[source * size : (source + 1) * size]
        for slot in placement.slots:
            assert self.pool.allocator.references(slot // size) == 1  # nothing shared is written
            self.cache[slot] = self.next_token
            self.written[name].append(self.next_token)
            self.next_token += 1

    @precondition(lambda self: self.written and len(self.written) < 6)
    @rule(pick=PICK, part=st.floats(0, 1), whole=st.booleans())
    def fork(self, pick, part, whole):
        name, child = self._one(pick), f"s{self.next_token}"
        self.next_token += 1
        length = None if whole else round(part * len(self.written[name]))
        free = self.pool.allocator.num_free
        self.pool.fork(name, child, length)
        assert self.pool.allocator.num_free == free
        self.written[child] = self.written[name][:length]

    @precondition(lambda self: self.written)
    @rule(pick=PICK)
    def free(self, pick):
        name = self._one(pick)
        self.pool.free(name)
        del self.written[name]

    @invariant()
    def books_are_right(self):
        if self.pool is None:
            return
        self.pool.audit()
        allocator = self.pool.allocator
        assert allocator.num_free + allocator.num_used == allocator.num_pages
        assert set(self.pool.names) == set(self.written)

    @invariant()
    def everybody_reads_what_they_wrote(self):
        for name, tokens in self.written.items():
            assert [self.cache[slot] for slot in self.pool.slots(name).tolist()] == tokens

    def teardown(self):
        for name in tuple(self.written):
            self.pool.free(name)
        if self.pool is not None:
            assert self.pool.allocator.num_free == self.pool.allocator.num_pages

    def _one(self, pick):
        return sorted(self.written)[pick % len(self.written)]

    def _books(self):
        tables = {name: (self.pool.pages(name), self.pool.num_tokens(name)) for name in self.pool.names}
        return tables, [self.pool.allocator.references(page) for page in range(self.pool.allocator.num_pages)]


Traffic.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,  # the same requests in every run of the tests
    suppress_health_check=list(HealthCheck),
)
TestTraffic = Traffic.TestCase


def grown(pool, name, num_tokens):
    pool.add(name)
    return pool.append(name, num_tokens)


def test_a_sequence_lies_on_the_pages_that_it_needs():
    pool = PagePool(8, 4)
    assert grown(pool, "a", 6).slots == (0, 1, 2, 3, 4, 5)
    grown(pool, "b", 1)
    assert pool.append("a", 3).slots == (6, 7, 12)  # its second page is full, its third is page 3
    table, lengths = pool.block_table(["a", "b"])
    assert table.tolist() == [[0, 1, 3], [2, -1, -1]] and lengths.tolist() == [9, 1]
    assert table.dtype == lengths.dtype == torch.int32
    assert pool.slots("a", 4, 9).tolist() == [4, 5, 6, 7, 12] and pool.slots("a").dtype == torch.int64


def test_a_fork_costs_a_copy_only_where_it_is_written():
    pool = PagePool(6, 4)
    grown(pool, "parent", 6)
    pool.fork("parent", "child")
    assert pool.allocator.num_used == 2 and pool.pages("parent") == pool.pages("child")
    child = pool.append("child")
    assert child.copies == ((1, 2),) and child.slots == (10,)
    parent = pool.append("parent")  # alone on its page again: no copy
    assert parent.copies == () and parent.slots == (6,)
    assert pool.allocator.references(0) == 2 and pool.allocator.num_used == 3


def test_a_fork_at_a_full_page_is_never_copied():
    pool = PagePool(6, 4)
    grown(pool, "prompt", 8)
    for name in ("first", "second"):
        pool.fork("prompt", name)
        assert pool.append(name).copies == ()
    assert pool.allocator.num_used == 4  # two for the prompt, one for each answer


def test_a_shared_beginning_may_end_inside_a_page():
    pool = PagePool(6, 4)
    grown(pool, "long", 11)
    pool.fork("long", "short", 6)
    assert pool.pages("short") == pool.pages("long")[:2]
    placement = pool.append("short", 3)
    assert placement.copies == ((1, 3),) and placement.slots == (14, 15, 16)
    pool.free("long")
    assert pool.allocator.num_free == 3 and pool.allocator.references(0) == 1


def test_out_of_pages_says_how_many_and_changes_nothing():
    pool = PagePool(2, 4)
    grown(pool, "a", 5)
    pool.fork("a", "b")
    with pytest.raises(OutOfPages, match="1 pages are needed and 0 are free; nothing was changed"):
        pool.append("b")  # the copy alone is too much
    pool.audit()
    assert pool.num_tokens("b") == 5 and pool.pages("b") == pool.pages("a")
    pool.free("a")
    assert pool.append("b").copies == ()


def test_the_last_page_released_is_given_out_first():
    allocator = PageAllocator(4)
    first = allocator.allocate(3)
    allocator.release([first[1]])
    assert allocator.allocate(2) == [first[1], 3]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda pool: pool.append("unknown"), PageError, "no sequence 'unknown'"),
        (lambda pool: pool.add("a"), PageError, "'a' in this pool already"),
        (lambda pool: pool.fork("a", "a"), PageError, "already"),
        (lambda pool: pool.fork("a", "b", 7), ArgumentError, "has 6 tokens to share"),
        (lambda pool: pool.append("a", -1), ArgumentError, "grows by 0 or more"),
        (lambda pool: pool.slots("a", 3, 7), ArgumentError, "3 to 7"),
        (lambda pool: pool.block_table(["a"], max_pages=1), ArgumentError, "longest of these sequences has 2"),
        (lambda pool: pool.allocator.release([0, 0]), PageError, "held 1 times, fewer than the 2"),
        (lambda pool: pool.allocator.release([0, 3]), PageError, "held 0 times"),
        (lambda pool: pool.allocator.share([3]), PageError, "held 0 times"),
        (lambda pool: pool.allocator.references(9), PageError, "no page 9"),
        (lambda pool: PagePool(0, 4), ArgumentError, "at least 1 page"),
        (lambda pool: PagePool(4, 0), ArgumentError, "at least 1 token"),
    ],
)
def test_what_is_refused_is_said_and_changes_nothing(call, error, words):
    pool = PagePool(4, 4)
    grown(pool, "a", 6)
    with pytest.raises(error, match=words):
        call(pool)
    pool.audit()
    assert pool.names == ("a",) and pool.num_tokens("a") == 6 and pool.allocator.num_used == 2


def test_errors_are_of_the_family():
    assert issubclass(OutOfPages, CourseError) and issubclass(PageError, CourseError)


def test_the_audit_sees_a_lost_page_and_a_wrong_count():
    pool = PagePool(4, 4)
    grown(pool, "a", 6)
    pool.allocator.share([0])
    with pytest.raises(PageError, match="is in 1 tables and is counted 2 times"):
        pool.audit()
    pool = PagePool(4, 4)
    grown(pool, "a", 6)
    pool.allocator._free.pop()
    with pytest.raises(PageError, match="a page is lost"):
        pool.audit()
