"""Right answers to 14.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

SORTED = """from bisect import insort
from typing import NamedTuple

import torch


class PagedRequest(NamedTuple):
    id: int
    priority: int
    arrival: int
    prompt: tuple
    output: tuple
    num_computed: int
    pages: tuple


def make_room(running, waiting, refs, page_size):
    counts = dict(enumerate(refs))
    free = [page for page, count in counts.items() if not count]
    pages = {request.id: list(request.pages) for request in running}
    rank = sorted(running, key=lambda one: (one.priority, one.arrival))
    left, refused = [], []

    def give_back(request):
        rank.remove(request)
        for page in pages.pop(request.id):
            counts[page] -= 1
            if not counts[page]:
                insort(free, page)

    for request in running:
        num_pages = (len(request.prompt) + len(request.output) + page_size - 1) // page_size
        if request in rank and num_pages > max(len(refs), len(request.pages)):
            give_back(request)
            refused.append([request.id, f"{num_pages:,} pages do not fit into a pool of {len(refs):,}."])
        while request in rank and len(pages[request.id]) < num_pages:
            if not free:
                left.append(rank[-1])
                give_back(rank[-1])
                continue
            pages[request.id].append(free.pop(0))
            counts[pages[request.id][-1]] = 1
    kept = tuple(one._replace(pages=tuple(pages[one.id])) for one in running if one in rank)
    back = tuple(one._replace(num_computed=0, pages=()) for one in left[::-1])
    return kept, back + waiting, tuple(counts.values()), refused


def rooms(calls):
    found = []
    for running, waiting, refs, page_size in calls:
        queues = []
        for queue in (running, waiting):
            fields = ((*one[:3], *map(tuple, one[3:5]), one[5], tuple(one[6])) for one in queue)
            queues.append(tuple(PagedRequest(*one) for one in fields))
        running, waiting, refs, refused = make_room(*queues, tuple(refs), page_size)
        found.append((list(map(tuple, running)), list(map(tuple, waiting)), refs, refused))
    return torch.tensor(list(repr(found).encode()), dtype=torch.uint8)
"""

ANSWERS = [
    Right("ranked once, free pages in a sorted list", text=SORTED),
    Right(
        "another sentence, victims found by sorting",
        (
            (
                'f"{number} needs {num_pages} pages, and the pool has {len(refs)}."',
                'f"The pool\'s {len(refs)} pages are fewer than the {num_pages} that request {number} takes"',
            ),
            (
                "max(live.values(), key=lambda one: (one.priority, one.arrival))",
                "sorted(live.values(), key=lambda one: (-one.priority, -one.arrival))[0]",
            ),
        ),
    ),
]
