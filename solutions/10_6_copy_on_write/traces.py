"""Traces for a page pool, and the judge's own pool, which gives the expected result of every step.

May import: torch.
"""

import torch

ADD, APPEND, FORK, FREE = range(4)
WORDS = ("add({name})", "append({name}, {value})", "fork({name}, {value})", "free({name})")


class Model:
    """Pages as objects that count their holders: the number of free pages does not depend on which ones are taken."""

    def __init__(self, num_pages, page_size):
        self.num_pages, self.page_size = num_pages, page_size
        self.pages, self.tokens = {}, {}  # name -> list of pages, each a list of one number; list of token numbers
        self.num_free, self.made = num_pages, 0

    def needed(self, name, count):
        """(new pages, whether the last one must be copied) of an append."""
        start, pages = len(self.tokens[name]), self.pages[name]
        shared = bool(count) and start % self.page_size > 0 and pages[-1][0] > 1
        return -(-(start + count) // self.page_size) - len(pages), shared

    def step(self, kind, name, value):
        """Whether the step is refused; otherwise it is done."""
        if kind == ADD:
            self.pages[name], self.tokens[name] = [], []
        elif kind == APPEND:
            return self._append(name, value)
        elif kind == FORK:
            self.pages[value], self.tokens[value] = list(self.pages[name]), list(self.tokens[name])
            for page in self.pages[value]:
                page[0] += 1
        else:
            for page in self.pages.pop(name):
                page[0] -= 1
                self.num_free += page[0] == 0
            del self.tokens[name]
        return False

    def _append(self, name, count):
        new, shared = self.needed(name, count)
        if new + shared > self.num_free:
            return True
        self.num_free -= new + shared
        if shared:
            self.pages[name][-1][0] -= 1
            self.pages[name][-1] = [1]
        self.pages[name] += [[1] for _ in range(new)]
        self.tokens[name] += range(self.made, self.made + count)
        self.made += count
        return False


# short traces, each for one question; names are numbers
FIXED = {
    "one sequence": [(ADD, 0, 0), (APPEND, 0, 3), (APPEND, 0, 1), (APPEND, 0, 1), (APPEND, 0, 6), (FREE, 0, 0)],
    "two sequences": [
        (ADD, 0, 0), (ADD, 1, 0), (APPEND, 0, 5), (APPEND, 1, 4), (APPEND, 0, 2), (FREE, 0, 0), (APPEND, 1, 7),
        (FREE, 1, 0),
    ],
    "a fork, then both write": [
        (ADD, 0, 0), (APPEND, 0, 6), (FORK, 0, 1), (APPEND, 1, 1), (APPEND, 0, 1), (APPEND, 1, 3), (FREE, 0, 0),
        (APPEND, 1, 1), (FREE, 1, 0),
    ],
    "a fork at the end of a page": [
        (ADD, 0, 0), (APPEND, 0, 8), (FORK, 0, 1), (APPEND, 1, 1), (APPEND, 0, 1), (FREE, 1, 0), (FREE, 0, 0),
    ],
    "three forks": [
        (ADD, 0, 0), (APPEND, 0, 5), (FORK, 0, 1), (FORK, 0, 2), (FORK, 1, 3), (APPEND, 2, 2), (APPEND, 0, 1),
        (FREE, 1, 0), (APPEND, 3, 1), (FREE, 0, 0), (FREE, 2, 0), (FREE, 3, 0),
    ],
    "out of pages": [
        (ADD, 0, 0), (APPEND, 0, 20), (ADD, 1, 0), (APPEND, 1, 10), (APPEND, 0, 9), (APPEND, 1, 4), (APPEND, 1, 1),
        (FREE, 0, 0), (APPEND, 1, 9),
    ],
    "out of pages, three free": [
        (ADD, 0, 0), (ADD, 1, 0), (APPEND, 0, 9), (APPEND, 1, 14), (APPEND, 1, 12), (FREE, 0, 0), (APPEND, 1, 1),
    ],
    "out of pages for a copy": [
        (ADD, 0, 0), (APPEND, 0, 22), (FORK, 0, 1), (APPEND, 1, 1), (APPEND, 1, 6), (FREE, 0, 0), (APPEND, 1, 1),
    ],
    "out of pages, free ones in no order": [  # given back: the first, third, second page
        *((ADD, name, 0) for name in range(4)), (APPEND, 0, 1), (APPEND, 1, 1), (APPEND, 2, 1), (APPEND, 3, 12),
        (FREE, 0, 0), (FREE, 2, 0), (FREE, 1, 0), (APPEND, 3, 13), (APPEND, 3, 1), (APPEND, 3, 9),
    ],
    "a fork of no token": [(ADD, 0, 0), (FORK, 0, 1), (APPEND, 1, 4), (APPEND, 0, 5), (FREE, 1, 0), (FREE, 0, 0)],
    "a copy and a new page, one free": [
        (ADD, 0, 0), (APPEND, 0, 18), (FORK, 0, 1), (APPEND, 1, 4), (APPEND, 1, 1), (FREE, 0, 0), (APPEND, 1, 6),
    ],
}  # fmt: skip
FIXED_PAGE_SIZES = {"a fork of no token": 3}  # 4 in the other fixed traces
RANDOM = {  # (num_pages, page_size, num_steps) of traces that are drawn
    "random, pages of 4": (12, 4, 80),
    "random, pages of 1": (10, 1, 60),
    "random, a small pool": (5, 3, 80),
    "random, pages of 16": (40, 16, 150),
}


def random_trace(num_pages, page_size, num_steps, gen):
    """(num_steps, 3) steps: appends of up to two pages, forks, ends; some appends need more pages than are free."""
    model, steps, next_name = Model(num_pages, page_size), [], 0

    def draw(high):
        return int(torch.randint(high, (1,), generator=gen))

    while len(steps) < num_steps:
        names = sorted(model.pages)
        choice = draw(10)
        if not names or (choice == 0 and len(names) < 6):
            step = (ADD, next_name, 0)
        elif choice <= 6:
            step = (APPEND, names[draw(len(names))], 1 + draw(2 * page_size))
        elif choice == 7 and len(names) < 6:
            step = (FORK, names[draw(len(names))], next_name)
        elif choice >= 8 and (model.num_free * 4 < num_pages or choice == 9):
            step = (FREE, names[draw(len(names))], 0)
        else:
            continue
        next_name += step[0] in (ADD, FORK)
        model.step(*step)
        steps.append(step)
    return steps


def say(step):
    """ "append(0, 3)" """
    kind, name, value = step
    return WORDS[kind].format(name=name, value=value)
