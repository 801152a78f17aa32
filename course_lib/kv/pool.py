"""Sequences on pages: tables, slots, forks, and a copy before a shared page is written.

May import: errors, allocator; torch only inside functions.
"""

from dataclasses import dataclass

from ..errors import ArgumentError, PageError
from .allocator import PageAllocator


@dataclass(frozen=True)
class Placement:
    """The slots of new tokens, and the copies that must precede them.

    Attributes
    ----------
    slots : tuple of int, ``page * page_size + offset`` of each new token, in order
    copies : tuple of (from page, to page), whole pages, to be copied before the slots are written
    """

    slots: tuple
    copies: tuple = ()


@dataclass
class _Sequence:
    pages: list  # physical pages in the order of the tokens; the last may be partly filled
    num_tokens: int = 0


class PagePool:
    """Key-value slots for many sequences in `num_pages` pages of `page_size` tokens.

    A sequence holds ``ceil(num_tokens / page_size)`` pages, anywhere in the pool. A fork holds the same pages as its
    parent, so a shared prompt is stored once. A sequence that writes into a page with other holders gets a copy of it
    first (copy on write). A call that raises has changed nothing.

    Parameters
    ----------
    num_pages : int
    page_size : int, tokens

    Notes
    -----
    Names     our page = vLLM's block (block_size); block_table is vLLM's name too
    Source    W. Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
              section 4, https://arxiv.org/abs/2309.06180
    """

    def __init__(self, num_pages, page_size):
        if page_size < 1:
            raise ArgumentError(f"page_size is {page_size}; a page holds at least 1 token.")
        self.page_size, self.allocator, self._sequences = page_size, PageAllocator(num_pages), {}

    def __contains__(self, name):
        return name in self._sequences

    @property
    def names(self):
        """Names of the sequences, oldest first."""
        return tuple(self._sequences)

    def num_tokens(self, name):
        """Tokens of a sequence."""
        return self._get(name).num_tokens

    def pages(self, name):
        """Physical pages of a sequence, in the order of its tokens."""
        return tuple(self._get(name).pages)

    def add(self, name):
        """Begin a sequence without tokens. PageError when the name is taken."""
        self._need_new(name)
        self._sequences[name] = _Sequence([])

    def pages_needed(self, name, num_tokens=1):
        """How many free pages ``append(name, num_tokens)`` would take: new ones, and one for a copy."""
        own = self._get(name)
        total = -(-(own.num_tokens + num_tokens) // self.page_size)
        return total - len(own.pages) + (num_tokens > 0 and self._must_copy(own))

    def can_append(self, name, num_tokens=1):
        """Whether enough pages are free for ``append(name, num_tokens)``."""
        return self.pages_needed(name, num_tokens) <= self.allocator.num_free

    def append(self, name, num_tokens=1):
        """Give `num_tokens` more tokens of a sequence their slots.

        Returns
        -------
        placement : Placement, `num_tokens` slots, and the copy that must come first, if any

        Raises
        ------
        OutOfPages  nothing was changed
        """
        if num_tokens < 0:
            raise ArgumentError(f"num_tokens is {num_tokens}; a sequence grows by 0 or more tokens.")
        # region: append
        own, copies = self._get(name), ()
        fresh = self.allocator.allocate(self.pages_needed(name, num_tokens))
        if num_tokens and self._must_copy(own):
            copies = ((own.pages[-1], fresh[0]),)
            self.allocator.release([own.pages[-1]])
            own.pages[-1] = fresh.pop(0)
        own.pages += fresh
        own.num_tokens += num_tokens
        return Placement(self._slots(own, own.num_tokens - num_tokens, own.num_tokens), copies)
        # endregion

    def fork(self, name, child, num_tokens=None):
        """Begin `child` with the first `num_tokens` tokens of `name` (default: all), on the same pages.

        For parallel sampling and for prompts with a common prefix. It takes no free page; the first append to a shared
        page that is not full makes the copy.
        """
        parent = self._get(name)
        self._need_new(child)
        num_tokens = parent.num_tokens if num_tokens is None else num_tokens
        if not 0 <= num_tokens <= parent.num_tokens:
            raise ArgumentError(f"num_tokens is {num_tokens}; {name!r} has {parent.num_tokens} tokens to share.")
        # region: fork
        shared = parent.pages[: -(-num_tokens // self.page_size)]
        self.allocator.share(shared)
        self._sequences[child] = _Sequence(list(shared), num_tokens)
        # endregion

    def free(self, name):
        """End a sequence; pages without another holder become free."""
        own = self._get(name)
        self.allocator.release(own.pages)
        del self._sequences[name]

    def slots(self, name, start=0, stop=None):
        """Slots of the tokens start to stop of a sequence.

        Returns
        -------
        slots : tensor (stop - start,) int64, because a slot times the numbers of a token can exceed 2**31
        """
        import torch

        own = self._get(name)
        stop = own.num_tokens if stop is None else stop
        if not 0 <= start <= stop <= own.num_tokens:
            raise ArgumentError(f"Tokens {start} to {stop} of {name!r} were asked for; it has {own.num_tokens}.")
        return torch.tensor(self._slots(own, start, stop), dtype=torch.int64)

    def block_table(self, names, *, max_pages=None, fill=-1):
        """The pages of some sequences in the layout that kernels take.

        Parameters
        ----------
        names : sequence of names
        max_pages : int, columns; default: the pages of the longest of them
        fill : int, the entries past a sequence's pages; kernels must not read them

        Returns
        -------
        block_table : tensor (len(names), max_pages) int32
        seq_lens_kv : tensor (len(names),) int32, tokens
        """
        import torch

        rows = [self._get(name) for name in names]
        longest = max((len(row.pages) for row in rows), default=0)
        max_pages = longest if max_pages is None else max_pages
        if max_pages < longest:
            raise ArgumentError(f"max_pages is {max_pages}; the longest of these sequences has {longest} pages.")
        table = torch.full((len(rows), max_pages), fill, dtype=torch.int32)
        for number, row in enumerate(rows):
            table[number, : len(row.pages)] = torch.tensor(row.pages, dtype=torch.int32)
        return table, torch.tensor([row.num_tokens for row in rows], dtype=torch.int32)

    def audit(self):
        """Check the invariants: PageError when the tables and the allocator disagree."""
        self.allocator.audit()
        held = [0] * self.allocator.num_pages
        for name, own in self._sequences.items():
            if len(own.pages) != -(-own.num_tokens // self.page_size):
                raise PageError(f"{name!r} has {own.num_tokens} tokens on {len(own.pages)} pages of {self.page_size}.")
            for page in own.pages:
                held[page] += 1
        for page, count in enumerate(held):
            if count != self.allocator.references(page):
                raise PageError(
                    f"Page {page} is in {count} tables and is counted {self.allocator.references(page)} times."
                )

    def _must_copy(self, own):
        """Whether the next token goes into a page that another sequence holds as well."""
        return bool(own.num_tokens % self.page_size) and self.allocator.references(own.pages[-1]) > 1

    def _slots(self, own, start, stop):
        return tuple(own.pages[i // self.page_size] * self.page_size + i % self.page_size for i in range(start, stop))

    def _get(self, name):
        if name not in self._sequences:
            raise PageError(f"There is no sequence {name!r} in this pool.")
        return self._sequences[name]

    def _need_new(self, name):
        if name in self._sequences:
            raise PageError(f"There is a sequence {name!r} in this pool already.")
