"""Right answers to 08.7 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

COUNTED = """import torch


def read_listings():
    registers = {"consumer": int("a0", 16), "producer": int("20", 16)}
    with_k, with_v, rows = 64 // 16, 32 // 16, 2
    weights = 64 * 32 // 128  # of a thread of 128
    step = with_k + with_v
    numbers = [32, 64, step, 495, weights + rows, 0, *registers.values(), 956, step, "abc".index("b")]
    return [torch.tensor(number) for number in (*numbers, 2 * with_k)]
"""
AS_LIST = """def read_listings():
    return [32, 64, 6, 495, 18, 0, 160, 32, 956, 6, 1, 8]
"""
BY_NAME = """READINGS = dict(
    keys=32, head_dim=64, products=4 + 2, wait=495, exponentials=16 + 2, hidden=0,
    consumer=10 * 16, producer=2 * 16, q_load=956, arrives=4 + 2, serialised=True, moves=4 * 2,
)


def read_listings():
    return tuple(int(value) for value in READINGS.values())
"""

ANSWERS = [Right("reckoned", text=COUNTED), Right("a list of numbers", text=AS_LIST), Right("by name", text=BY_NAME)]
