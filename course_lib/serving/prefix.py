"""Pages of the KV pool with and without a memory of what they hold.

May import: errors, kv.
"""


class PrefixCache:
    """Pages for tables, and no memory of what they held: the interface of the prefix caches, and the one that is off.

    All pages of tables come from `allocate` and `match` and go back by `release`, so that a cache knows which of its
    pages no table holds.

    Attributes
    ----------
    queries, hits : int, tokens of the admitted prompts, and those of them that were found
    """

    def __init__(self, allocator, page_size):
        self.allocator, self.page_size = allocator, page_size
        self.queries = self.hits = 0

    @property
    def num_evictable(self):
        """Pages that the cache keeps and no table holds."""
        return 0

    @property
    def num_available(self):
        """Pages that `allocate` can give."""
        return self.allocator.num_free + self.num_evictable

    def allocate(self, count):
        """Pages of their own, each with one reference; evicts when too few are free, OutOfPages when that is too few."""
        if count > self.allocator.num_free:
            self.evict(count - self.allocator.num_free)
        return self.allocator.allocate(count)

    def match(self, tokens, salt=""):
        """Pages that hold the longest known prefix of `tokens`, a reference taken to each.

        Full pages only, and never all tokens: the last one must be computed, because its logits are needed.
        """
        return []

    def insert(self, tokens, pages, salt=""):
        """Make full pages findable: page i holds tokens i * page_size to (i + 1) * page_size.

        Returns
        -------
        pages : list of int, for the table: where a page of the same content is known, that one in place of the
            caller's, whose reference is dropped
        """
        return pages

    def release(self, pages):
        """Drop a table's references."""
        self.allocator.release(pages)

    def evict(self, count):
        """Free up to `count` pages that no table holds, least recently used first. -> how many were freed"""
        return 0

    def cached_pages(self):
        """All pages that the cache has a reference to."""
        return ()

    def count(self, queried, hit):
        """Add the tokens of an admitted prompt to the counters."""
        self.queries, self.hits = self.queries + queried, self.hits + hit

    def audit(self):
        """Check the invariants of the cache itself; ServingError when one is broken."""
