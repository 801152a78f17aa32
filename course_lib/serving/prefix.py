"""Pages of the KV pool, with a memory of the tokens that they hold: the prefix cache by chained hashes.

Notation: a page is held while a table has it, cached while only the cache has it, free otherwise. The cache has one
reference of its own to each page that it can find, so that a page whose last table is gone stays findable until it
is evicted.

Source: vLLM, design document "Automatic Prefix Caching", https://docs.vllm.ai/en/latest/design/prefix_caching.html

May import: errors, kv.
"""

from array import array
from hashlib import sha256
from itertools import islice

from ..errors import ServingError


class PrefixCache:
    """Pages without a memory: the interface of the prefix caches, and what runs where they are switched off.

    Tables get pages by `allocate` and `match` only and give them back by `release`.

    Attributes
    ----------
    queries, hits : int, tokens of the prompts that were admitted, and those of them that were found
    """

    def __init__(self, allocator, page_size):
        self.allocator, self.page_size = allocator, page_size
        self.queries = self.hits = 0

    @property
    def num_available(self):
        """Pages that `allocate` can give: free or evictable."""
        return self.allocator.num_free + self.num_evictable

    def allocate(self, count):
        """Pages with one reference each; evicts where too few are free. OutOfPages when that is not enough."""
        self.evict(count - self.allocator.num_free)
        return self.allocator.allocate(count)

    def match(self, tokens, salt=""):
        """Pages that hold the longest known prefix of `tokens`, a reference taken to each.

        Full pages only, and never all tokens: the last one must be computed, because its logits are needed.
        """
        return []

    def insert(self, tokens, pages, salt=""):
        """Make full pages findable; pages[i] holds tokens[i * page_size : (i + 1) * page_size].

        Returns
        -------
        pages : list of int, for the table: where another page is known to hold the same prefix, that one replaces the
            caller's, whose reference is dropped
        """
        return pages

    def release(self, pages):
        """Drop a table's references to its pages, or to its last ones."""
        self.allocator.release(pages)

    def evict(self, count):
        """Free up to `count` pages that no table holds, least recently used first and never a prefix of another."""

    @property
    def num_evictable(self):
        return 0

    def cached_pages(self):
        """The pages that can be found, held or not."""
        return ()

    def count(self, queried, hit):
        """Add the tokens of an admitted prompt to the counters."""
        self.queries, self.hits = self.queries + queried, self.hits + hit

    def audit(self):
        """ServingError when an invariant of the cache is broken."""

    def _num_known(self, pages, known):
        """How many of a table's pages are in `known`; they are always its first ones."""
        count = len(pages)
        while count and pages[count - 1] not in known:
            count -= 1
        return count


class HashPrefixCache(PrefixCache):
    """A page is found by the hash of its tokens and of the page before it, so equal hashes mean equal prefixes.

    A page is evicted before the pages of its prefix: a table drops its references last page first, and a page that is
    held has a held prefix. No tree is needed for that, only the order of `_idle`.
    """

    def __init__(self, allocator, page_size):
        super().__init__(allocator, page_size)
        self._page_of = {}  # hash -> page
        self._hash_of = {}  # page -> (hash, hash of the page before it or None)
        self._idle = {}  # pages that no table holds, least recently used first

    @property
    def num_evictable(self):
        return len(self._idle)

    def cached_pages(self):
        return self._hash_of.keys()

    # region: match
    def match(self, tokens, salt=""):
        pages, digest = [], _root(salt)
        for index in range((len(tokens) - 1) // self.page_size):
            digest = self._chain(digest, tokens, index)
            if digest not in self._page_of:
                break
            pages.append(self._page_of[digest])
        self._hold(pages)
        return pages

    # endregion
    def insert(self, tokens, pages, salt=""):
        known, pages = self._num_known(pages, self._hash_of), list(pages)
        digest = self._hash_of[pages[known - 1]][0] if known else _root(salt)
        for index in range(known, len(pages)):
            parent, digest = digest, self._chain(digest, tokens, index)
            if digest in self._page_of:
                self.release([pages[index]])
                pages[index] = self._page_of[digest]
                self._hold([pages[index]])
            else:
                self._page_of[digest] = pages[index]
                self._hash_of[pages[index]] = digest, parent if index else None
                self.allocator.share([pages[index]])
        return pages

    def release(self, pages):
        self.allocator.release(pages)
        for page in reversed(pages):
            if page in self._hash_of and self.allocator.references(page) == 1:
                self._idle[page] = None

    def evict(self, count):
        for page in list(islice(self._idle, max(0, count))):
            del self._idle[page], self._page_of[self._hash_of.pop(page)[0]]
            self.allocator.release([page])

    def audit(self):
        places = {page: place for place, page in enumerate(self._idle)}
        for page, (digest, parent) in self._hash_of.items():
            if self._page_of.get(digest) != page or len(self._page_of) != len(self._hash_of):
                raise ServingError(f"Page {page} is not found under its own hash.")
            if (page in places) != (self.allocator.references(page) == 1):
                raise ServingError(f"Page {page} is held {self.allocator.references(page)} times and idle or neither.")
            if parent is not None and parent not in self._page_of:
                raise ServingError(f"Page {page} can be found and its prefix cannot: it was evicted first.")
            place = places.get(self._page_of.get(parent), len(places))
            if place < places.get(page, len(places)):
                raise ServingError(f"Page {page} would be evicted after the page before it.")

    def _chain(self, parent, tokens, index):
        page_tokens = tokens[index * self.page_size : (index + 1) * self.page_size]
        return sha256(parent + array("q", page_tokens).tobytes()).digest()

    def _hold(self, pages):
        self.allocator.share(pages)
        for page in pages:
            self._idle.pop(page, None)


def _root(salt):
    """What the first page is chained to: pages of one salt are never found from another."""
    return sha256(salt.encode()).digest()
