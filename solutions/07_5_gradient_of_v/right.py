"""Right answers to 07.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

QUERIES = "for q_start in range(0, seq_len_q, BLOCK_M):"
SCORES = 'scores_t = tl.dot(k, tl.trans(q), input_precision="ieee") * softmax_scale  # (BLOCK_N, BLOCK_M)'
VISIBLE = "visible_t = keys[:, None] <= rows[None, :] + offset"
PROBS = "probs_t = tl.where(visible_t, tl.exp(scores_t - lse[None, :]), 0.0)"

ANSWERS = [
    Right(
        "rows first, P transposed",
        (
            (SCORES, 'scores = tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale'),
            (VISIBLE, "visible = keys[None, :] <= rows[:, None] + offset"),
            (PROBS, "probs_t = tl.trans(tl.where(visible, tl.exp(scores - lse[:, None]), 0.0))"),
        ),
    ),
    Right(
        "base 2",
        (
            (
                PROBS,
                PROBS.replace(
                    "tl.exp(scores_t - lse[None, :])", "tl.exp2((scores_t - lse[None, :]) * 1.4426950408889634)"
                ),
            ),
        ),
    ),
    Right(
        "tiles of queries above the diagonal skipped",
        (
            (
                QUERIES,
                "first = tl.maximum(tl.program_id(0) * BLOCK_N - offset, 0) // BLOCK_M * BLOCK_M\n"
                "        for q_start in range(first, seq_len_q, BLOCK_M):",
            ),
        ),
    ),
    Right(
        "-inf before the exponential, lse made finite",
        (
            (
                PROBS,
                'safe = tl.where(lse == -float("inf"), 0.0, lse)\n'
                '            probs_t = tl.exp(tl.where(visible_t, scores_t, -float("inf")) - safe[None, :])',
            ),
        ),
    ),
]
