import operator
import traceback

import torch


class OutOfPages(Exception):
    """Fewer pages are free than a call needs; it has changed nothing."""


class PagePool:
    """Sequences on the pages of one pool. Forks share pages until one of them writes."""

    def __init__(self, num_pages, page_size):
        self.page_size = page_size
        self.free_pages = list(range(num_pages))  # pages that no sequence holds
        self.holders = [0] * num_pages  # how many sequences hold each page
        self.pages, self.num_tokens = {}, {}  # of each sequence: its pages, in the order of its tokens; its tokens

    def add(self, name):
        """Begin a sequence without tokens."""
        self.pages[name], self.num_tokens[name] = [], 0

    def append(self, name, count):
        """Slots for `count` >= 1 new tokens: (slots, copies). copies: [(from page, to page)] to be done first."""
        ### BEGIN SOLUTION
        pages, start = self.pages[name], self.num_tokens[name]
        end = start + count
        shared = start % self.page_size > 0 and self.holders[pages[-1]] > 1
        needed = -(-end // self.page_size) - len(pages) + shared
        if needed > len(self.free_pages):
            raise OutOfPages(f"{needed} pages are needed, {len(self.free_pages)} are free")
        fresh = [self.free_pages.pop() for _ in range(needed)]
        for page in fresh:
            self.holders[page] = 1
        copies = []
        if shared:
            copies.append((pages[-1], fresh[0]))
            self.holders[pages[-1]] -= 1
            pages[-1] = fresh.pop(0)
        pages += fresh
        self.num_tokens[name] = end
        slots = [pages[t // self.page_size] * self.page_size + t % self.page_size for t in range(start, end)]
        ### END SOLUTION
        return slots, copies

    def fork(self, name, child):
        """Begin `child` with all tokens of `name`, on the same pages."""
        ### BEGIN SOLUTION unmarked
        self.pages[child], self.num_tokens[child] = list(self.pages[name]), self.num_tokens[name]
        for page in self.pages[child]:
            self.holders[page] += 1
        ### END SOLUTION

    def free(self, name):
        """End a sequence: its name is removed, and a page that no sequence holds any more is free."""
        ### BEGIN SOLUTION unmarked
        for page in self.pages.pop(name):
            self.holders[page] -= 1
            if self.holders[page] == 0:
                self.free_pages.append(page)
        del self.num_tokens[name]
        ### END SOLUTION


def replay(trace, num_pages, page_size):
    """What a new pool says after every step of a trace, as one row of numbers. Given: the judge reads it."""
    pool, log = PagePool(num_pages, page_size), []
    for kind, name, value in trace.tolist():
        slots, copies, refused = [], [], 0
        try:
            if kind == 0:
                pool.add(name)
            elif kind == 1:
                slots, copies = pool.append(name, value)
            elif kind == 2:
                pool.fork(name, value)
            else:
                pool.free(name)
        except OutOfPages:
            refused = 1
        except Exception:  # the judge reads the steps before this one
            traceback.print_exc(limit=-1)
            break
        slots = [operator.index(slot) for slot in slots]  # whole numbers
        tables = [[other, pool.num_tokens[other], *pool.pages[other]] for other in sorted(pool.pages)]
        flat = [page for source, target in copies for page in (source, target)]
        for part in ([refused, len(tables), len(pool.num_tokens)], slots, flat, pool.free_pages, pool.holders, *tables):
            log += [len(part), *part]
    return torch.tensor(log, dtype=torch.int64)
