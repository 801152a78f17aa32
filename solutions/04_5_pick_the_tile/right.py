"""Right answers to 04.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

LOOP = """def pick_tile(tflops, gbps, itemsize, block_k, num_stages, smem_bytes, acc_bytes):
    best, best_key = None, None
    for m in (256, 128, 64, 32, 16):
        for n in (16, 32, 64, 128, 256):
            if n > m or 4 * m * n > acc_bytes or num_stages * (m + n) * block_k * itemsize > smem_bytes:
                continue
            flop, moved = 2 * m * n, (m + n) * itemsize
            reaches = flop * gbps >= moved * tflops * 1000
            key = (0, m * n, -flop / moved) if reaches else (1, -flop / moved, 0)
            if best is None or key < best_key:
                best, best_key = (m, n), key
    return best
"""

ANSWERS = [
    Right(
        "the first that reaches it: the list begins with the small sides",
        (("return min(enough, key=lambda tile: (tile[0] * tile[1], -intensity(tile)))", "return enough[0]"),),
    ),
    Right("one loop and a key", text=LOOP),
    Right(
        "fractions",
        (
            (
                "return 2 * block_m * block_n / ((block_m + block_n) * itemsize)",
                "from fractions import Fraction\n\n"
                "        return Fraction(2 * block_m * block_n, (block_m + block_n) * itemsize)",
            ),
        ),
    ),
    Right(
        "the largest area when none reaches it",
        (("max(tiles, key=intensity)", "max(tiles, key=lambda t: t[0] * t[1])"),),
    ),
    Right(
        "the ridge multiplied out",
        (("intensity(tile) >= 1000 * tflops / gbps", "intensity(tile) * gbps >= 1000 * tflops"),),
    ),
    Right(
        "sorted",
        (
            (
                "return min(enough, key=lambda tile: (tile[0] * tile[1], -intensity(tile)))",
                "return sorted(sorted(enough, key=intensity, reverse=True), key=lambda tile: tile[0] * tile[1])[0]",
            ),
        ),
    ),
]
