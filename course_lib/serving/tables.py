"""The page tables of the sequences: every page that a sequence gets, keeps, lends or gives back passes through here.

May import: kv, prefix, radix.
"""

from ..kv import PageAllocator
from .prefix import HashPrefixCache, PrefixCache
from .radix import RadixPrefixCache

CACHES = {None: PrefixCache, "hash": HashPrefixCache, "radix": RadixPrefixCache}


class PageTables:
    """Pages for sequences, found in the prefix cache or new; on the host while a sequence is swapped out.

    Attributes
    ----------
    cache : PrefixCache
    host : PageAllocator of the host's pages, or None
    """

    def __init__(self, config):
        self.config = config
        self.cache = CACHES[config.prefix](PageAllocator(config.num_pages), config.page_size)
        self.host = PageAllocator(config.num_swap_pages) if config.num_swap_pages else None

    def needed(self, sequence, count):
        """Pages beyond its own for `count` more tokens."""
        return self.config.pages_for(sequence.num_computed + count) - len(sequence.pages)

    def grow(self, sequence, count):
        """Pages for `count` more tokens."""
        if needed := self.needed(sequence, count):
            sequence.pages += self.cache.allocate(needed)

    def preempt(self, sequence):
        """Take all pages of a running sequence. -> pairs (page, host page) to copy; none: it is computed again"""
        num_pages, copies = len(sequence.pages), ()
        if self.config.preempt == "swap" and num_pages <= self.host.num_free:
            host_pages = self.host.allocate(num_pages)
            copies = tuple(zip(sequence.pages, host_pages, strict=True))
            pages = sequence.swap_out(host_pages)
        else:
            pages = sequence.preempt()
        self.cache.release(pages)
        return copies

    def swap_in(self, sequence):
        """Pages for a swapped sequence. -> pairs (page, host page) to copy"""
        pages = self.cache.allocate(len(sequence.host_pages))
        host_pages = sequence.swap_in(pages)
        self.host.release(host_pages)
        return tuple(zip(pages, host_pages, strict=True))

    def remember(self, sequence, start, stop):
        """Make the pages findable that were filled by computing tokens start .. stop."""
        full = stop // self.config.page_size
        if full > start // self.config.page_size:
            pages = self.cache.insert(sequence.tokens, sequence.pages[:full], sequence.request.salt)
            sequence.pages[:full] = pages

    def roll_back(self, sequence, num_computed):
        """Forget the keys and values of rejected drafts, and give their pages back."""
        keep = self.config.pages_for(num_computed)
        sequence.num_computed = num_computed
        sequence.pages, extra = sequence.pages[:keep], sequence.pages[keep:]
        self.cache.release(extra)

    def leave(self, sequence):
        """Take all pages of a finished sequence."""
        pages, host_pages = sequence.leave()
        self.cache.release(pages)
        if host_pages:
            self.host.release(host_pages)
