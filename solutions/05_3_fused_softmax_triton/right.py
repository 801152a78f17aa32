"""Right answers to 05.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "other tiles",
        (
            ("for start in range(0, num_visible, BLOCK_N):", "for start in range(0, seq_len_kv, BLOCK_N):"),
            (
                "m_new = tl.maximum(m, tl.max(scores, axis=0))",
                "m_new = tl.maximum(tl.maximum(m, tl.max(scores, axis=0)), -1e30)",
            ),
            ("        m = m_new\n", '        m = m_new\n\n    m = tl.where(l > 0.0, m, -float("inf"))\n'),
        ),
    ),
    Right(
        "base 2",
        (
            (
                "l = l * tl.exp(m - m_new) + tl.sum(tl.exp(scores - m_new), axis=0)",
                "l = l * tl.exp2((m - m_new) * 1.4426950408889634) + "
                "tl.sum(tl.exp2((scores - m_new) * 1.4426950408889634), axis=0)",
            ),
        ),
    ),
    Right(
        "-1e9 beyond the last visible key of a row that sees some",
        (('tl.where(keys < num_visible, scores, -float("inf"))', "tl.where(keys < num_visible, scores, -1e9)"),),
    ),
    Right(
        "maximum first, then the sum",
        (
            (
                "        l = l * tl.exp(m - m_new) + tl.sum(tl.exp(scores - m_new), axis=0)\n        m = m_new\n",
                "        m = m_new\n    for start in range(0, num_visible, BLOCK_N):\n"
                "        keys = start + tl.arange(0, BLOCK_N)\n"
                "        at = scores_ptr + row * seq_len_kv + keys\n"
                "        scores = tl.load(at, mask=keys < num_visible, other=0.0) * softmax_scale\n"
                "        l += tl.sum(tl.where(keys < num_visible, tl.exp(scores - m), 0.0), axis=0)\n",
            ),
        ),
    ),
    Right(
        "the last tile first",
        (
            (
                "        keys = start + tl.arange(0, BLOCK_N)\n        scores = tl.load(",
                "        keys = (seq_len_kv - 1) // BLOCK_N * BLOCK_N - start + tl.arange(0, BLOCK_N)\n"
                "        scores = tl.load(",
            ),
        ),
    ),
]
