"""Right answers to 06.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# The two quadratic and linear cases solved for block_n, in whole numbers.
CLOSED = """from math import isqrt


def block_sizes(sram_bytes, head_dim):
    floats = sram_bytes // 4
    square = isqrt(4 * head_dim * head_dim + floats) - 2 * head_dim
    if square < head_dim:
        return square, square
    block_n = (floats - 2 * head_dim * head_dim) // (3 * head_dim)
    return head_dim, block_n
"""

ANSWERS = [
    Right("the formula solved for block_n", text=CLOSED),
    Right(
        "by halves",
        (
            (
                "    while needed_bytes(block_n + 1) <= sram_bytes:\n        block_n += 1\n",
                "    too_many = sram_bytes\n    while too_many - block_n > 1:\n"
                "        middle = (block_n + too_many) // 2\n"
                "        if needed_bytes(middle) <= sram_bytes:\n            block_n = middle\n"
                "        else:\n            too_many = middle\n",
            ),
        ),
    ),
]
