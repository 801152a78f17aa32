"""Right answers to 11.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

BEGIN = "kv_begin = tl.maximum(q_start + offset - window_left, 0) // BLOCK_N * BLOCK_N"
CAPPED = "scores = soft_cap * (2.0 * tl.sigmoid(2.0 * scores / soft_cap) - 1.0)"
VISIBLE = "visible = (keys[None, :] <= positions[:, None]) & (keys[None, :] >= positions[:, None] - window_left)"

ANSWERS = [
    Right("begins at the first key itself", ((BEGIN, "kv_begin = tl.maximum(q_start + offset - window_left, 0)"),)),
    Right(
        "begins a tile early",
        ((BEGIN, "kv_begin = tl.maximum(q_start + offset - window_left - BLOCK_N, 0) // BLOCK_N * BLOCK_N"),),
    ),
    Right(
        "the distance to the key",
        (
            (
                VISIBLE,
                "distance = positions[:, None] - keys[None, :]\n"
                "        visible = (distance >= 0) & (distance <= window_left)",
            ),
        ),
    ),
    Right(
        "tanh from an exponential",
        (
            (
                CAPPED,
                "small = tl.exp(-2.0 * tl.abs(scores) / soft_cap)\n"
                "        bent = soft_cap * (1.0 - small) / (1.0 + small)\n"
                "        scores = tl.where(scores < 0.0, -bent, bent)",
            ),
        ),
    ),
    Right(
        "masked first, capped where visible",
        (
            (CAPPED, CAPPED.replace("scores =", "capped =")),
            (VISIBLE, VISIBLE + "\n        scores = tl.where(visible, capped, scores)"),
        ),
    ),
]
