"""Right answers to 01.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

COUNTED = """def touched(addresses, size):
    return len({(address + byte) // 32 for address in addresses for byte in range(size)})


def sectors_per_request():
    lanes = range(32)
    return (
        touched([4 * (lane + 1) for lane in lanes], 4),
        touched([12 * lane for lane in lanes], 4),
        touched([4 * (31 - lane) for lane in lanes], 4),
        touched([16 * lane for lane in lanes], 16),
        touched([4 * (lane // 8) for lane in lanes], 4),
    )
"""
TENSOR = """import torch


def sectors_per_request():
    return list(torch.tensor([5.0, 12.0, 4.0, 16.0, 1.0]))
"""
NUMPY = """import numpy as np


def sectors_per_request():
    lane, byte = np.arange(32)[:, None], np.arange(16)[None, :]
    counts = [np.unique((4 * place + byte[:, :4]) // 32).size for place in (lane + 1, 3 * lane, 31 - lane, lane // 8)]
    return *np.insert(counts, 3, np.unique((16 * lane + byte) // 32).size),
"""

SCALARS = """import torch


def sectors_per_request():
    return list(torch.tensor([5, 12, 4, 16, 1]))
"""

ANSWERS = [
    Right("counted from the addresses", text=COUNTED),
    Right(
        "a list",
        (
            (
                "return one_further, every_third, backwards, vectors, repeated",
                "return [one_further, every_third, backwards, vectors, repeated]",
            ),
        ),
    ),
    Right("tensors", text=TENSOR),
    Right("tensors of no dimension", text=SCALARS),
    Right("numbers of numpy", text=NUMPY),
]
