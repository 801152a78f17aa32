"""Right answers to 14.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

IN_TORCH = """import torch
from typing import NamedTuple


class StepRequest(NamedTuple):
    tokens: tuple
    num_prompt: int
    num_computed: int
    num_new: int
    pages: tuple


def assemble(requests, page_size):
    none = torch.empty(0, dtype=torch.int64)
    ends = torch.tensor([r.num_computed + r.num_new for r in requests], dtype=torch.int64)
    starts = torch.tensor([0] + [r.num_new for r in requests]).cumsum(0)
    positions = [torch.arange(r.num_computed, r.num_computed + r.num_new) for r in requests]
    token_ids = [torch.tensor(r.tokens)[p] for r, p in zip(requests, positions)]
    slots = [torch.tensor(r.pages)[p // page_size] * page_size + p % page_size for r, p in zip(requests, positions)]
    complete = ends == torch.tensor([len(r.tokens) for r in requests], dtype=torch.int64)
    flat = [torch.cat([none, *rows]).tolist() for rows in (token_ids, positions, slots)]
    return *flat, starts.tolist(), ends.tolist(), (starts[1:] - 1)[complete].tolist()


def assembled(calls):
    steps = []
    for requests, page_size in calls:
        fields = ((tuple(tokens), *numbers, tuple(pages)) for tokens, *numbers, pages in requests)
        steps.append(assemble(tuple(StepRequest(*one) for one in fields), page_size))
    return torch.tensor(list(repr(steps).encode()), dtype=torch.uint8)
"""

ANSWERS = [
    Right("tensors, then tolist", text=IN_TORCH),
    Right(
        "a table of all slots, then cut",
        (
            (
                "        for position in range(request.num_computed, end):\n"
                "            page, offset = divmod(position, page_size)\n"
                "            token_ids.append(request.tokens[position])\n"
                "            positions.append(position)\n"
                "            slots.append(request.pages[page] * page_size + offset)\n",
                "        part = slice(request.num_computed, end)\n"
                "        table = [page * page_size + offset for page in request.pages for offset in range(page_size)]\n"
                "        token_ids += request.tokens[part]\n"
                "        positions += range(end)[part]\n"
                "        slots += table[part]\n",
            ),
            (
                "        if end == len(request.tokens):\n            sample_rows.append(len(positions) - 1)\n",
                "        if not request.tokens[end:]:\n            sample_rows.append(query_starts[-1] - 1)\n",
            ),
        ),
    ),
    Right(
        "a list of lists",
        (
            (
                "    return token_ids, positions, slots, query_starts, seq_lens, sample_rows\n",
                "    return [token_ids, positions, tuple(slots), query_starts, seq_lens, sample_rows]\n",
            ),
        ),
    ),
]
