"""Right answers to 11.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

DEALT = """

def dealt(seq_lens, num_blocks, step):
    numbers = []
    for items in deal(seq_lens.tolist(), num_blocks, step):
        numbers.append(len(items))
        for request, first, end in items:
            numbers += [request, first, end]
    return torch.tensor(numbers, dtype=torch.int64)
"""

WALK = """import torch


def deal(seq_lens, num_blocks, step):
    blocks, block, done, total = [[] for _ in range(num_blocks)], 0, 0, sum(seq_lens)
    for request, seq_len in enumerate(seq_lens):
        first = 0
        while first < seq_len:
            room = -(-(block + 1) * total // num_blocks) - done
            end = min(seq_len, first + -(-room // step) * step)
            if room > 0:
                blocks[block].append((request, first, end))
                done, first = done + end - first, end
            if room <= 0 or end < seq_len:
                block += 1
    return blocks
"""

FROM_THE_END = """import torch
from bisect import bisect_right
from itertools import accumulate


def deal(seq_lens, num_blocks, step):
    starts = [0, *accumulate(seq_lens)]
    blocks = []
    for block in range(num_blocks):
        begin, stop = (round_down(b * starts[-1] / num_blocks, starts, step) for b in (block, block + 1))
        items, at = [], begin
        while at < stop:
            request = bisect_right(starts, at) - 1
            end = min(starts[request + 1], stop)
            items.insert(0, (request, at - starts[request], end - starts[request]))
            at = end
        blocks.append(items)
    return blocks[::-1]


def round_down(key, starts, step):
    key = int(key)
    if key >= starts[-1]:
        return starts[-1]
    start = starts[bisect_right(starts, key) - 1]
    return start + (key - start) // step * step
"""

ANSWERS = [
    Right("one walk over the keys, cuts rounded up", text=WALK + DEALT),
    Right("block by block, found by bisection, in reverse order", text=FROM_THE_END + DEALT),
    Right(
        "cuts rounded up",
        (
            ("block * total // num_blocks - start", "-(-block * total // num_blocks) - start"),
            (
                "seq_len if cut >= seq_len else max(cut, 0) // step * step",
                "min(-(-max(cut, 0) // step) * step, seq_len)",
            ),
        ),
    ),
    Right("items as lists", (("append((request, first, end))", "append([request, first, end])"),)),
]
