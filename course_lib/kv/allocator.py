"""Pages by number: the free ones, and how many sequences hold each of the others.

May import: errors.
"""

from collections import Counter

from ..errors import ArgumentError, OutOfPages, PageError


class PageAllocator:
    """Pages 0 to num_pages - 1, each free or held by one or more sequences.

    The page released last is allocated first: it is the most likely one to be in a cache. Invariant:
    ``num_free + num_used == num_pages``.

    Parameters
    ----------
    num_pages : int, at least 1
    """

    def __init__(self, num_pages):
        if num_pages < 1:
            raise ArgumentError(f"num_pages is {num_pages}; a pool has at least 1 page.")
        self._references = [0] * num_pages
        self._free = list(range(num_pages - 1, -1, -1))  # a stack: page 0 is allocated first

    @property
    def num_pages(self):
        return len(self._references)

    @property
    def num_free(self):
        return len(self._free)

    @property
    def num_used(self):
        """Pages that are held; a shared one counts once."""
        return sum(count > 0 for count in self._references)

    def references(self, page):
        """The reference count of `page`; 0 when it is free."""
        return self._references[self._known(page)]

    def allocate(self, count):
        """Take `count` free pages, each with one reference.

        Returns
        -------
        pages : list of int

        Raises
        ------
        OutOfPages  fewer are free; none was taken
        """
        # region: allocate
        if count > self.num_free:
            raise OutOfPages(count, self.num_free)
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            self._references[page] = 1
        return pages
        # endregion

    def share(self, pages):
        """Add a reference to each of `pages`. PageError, with nothing changed, when one of them is free."""
        self._need_used(pages, 1)
        for page in pages:
            self._references[page] += 1

    def release(self, pages):
        """Drop a reference to each of `pages`; the last one frees the page. PageError when a page is free already."""
        for page, count in Counter(pages).items():
            self._need_used([page], count)
        for page in pages:
            self._references[page] -= 1
            if self._references[page] == 0:
                self._free.append(page)

    def audit(self):
        """Check the invariants: PageError when a page is free twice, free and held, or lost."""
        if len(set(self._free)) != len(self._free):
            raise PageError("A page is in the free list twice.")
        for page in self._free:
            if self._references[page]:
                raise PageError(f"Page {page} is free and held {self._references[page]} times.")
        if min(self._references) < 0 or self.num_free + self.num_used != self.num_pages:
            raise PageError(
                f"{self.num_free} free and {self.num_used} used pages do not make {self.num_pages}: a page is lost."
            )

    def _need_used(self, pages, count):
        for page in pages:
            if self.references(page) < count:
                raise PageError(
                    f"Page {page} is held {self.references(page)} times, fewer than the {count} asked for; was it "
                    "released before?"
                )

    def _known(self, page):
        if not 0 <= page < self.num_pages:
            raise PageError(f"There is no page {page}; this pool has the pages 0 to {self.num_pages - 1}.")
        return page
