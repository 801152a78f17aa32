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
]
