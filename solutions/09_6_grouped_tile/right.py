"""Right answers to 09.6 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

LOAD_Q = "q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)"
SCORES = "scores = tl.dot(q, tl.trans(k)) * softmax_scale"
ACC = "acc = acc * alpha[:, None] + tl.dot(probs_unnorm.to(v.dtype), v)"

ANSWERS = [
    Right(
        "the transposed product: keys as rows, the group as columns",
        ((SCORES, "scores = tl.trans(tl.dot(k, tl.trans(q))) * softmax_scale"),),
    ),
    Right(
        "rows from the next group in place of zeros",
        (
            (
                LOAD_Q,
                LOAD_Q.replace(
                    "mask=q_mask, other=0.0",
                    "mask=heads[:, None] < tl.num_programs(0) * tl.num_programs(1) * num_q_per_kv, other=0.0",
                ),
            ),
        ),
    ),
    Right("q read in every tile", ((SCORES, LOAD_Q + "\n        " + SCORES),)),
    Right(
        "base 2, l from the rounded weights",
        (
            (SCORES, SCORES.replace("* softmax_scale", "* (softmax_scale * 1.4426950408889634)")),
            ("tl.exp(scores - m_new[:, None])", "tl.exp2(scores - m_new[:, None])"),
            ("tl.exp(m - m_new)", "tl.exp2(m - m_new)"),
            ("tl.sum(probs_unnorm, axis=1)", "tl.sum(probs_unnorm.to(tl.float16).to(tl.float32), axis=1)"),
            ("m + tl.log(l_safe)", "(m + tl.log2(l_safe)) * 0.6931471805599453"),
        ),
    ),
]
