"""Right answers to 09.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

LOOP = "for start in range(first, end, BLOCK_N):"
BACKWARDS = """num_tiles = tl.cdiv(tl.maximum(end - first, 0), BLOCK_N)
    for step in range(num_tiles):
        start = first + (num_tiles - 1 - step) * BLOCK_N"""
OUT = "tl.store(partial_out_ptr + offset * HEAD_DIM + d, acc / l)"
SCORES = "scores = tl.sum(q[None, :] * k, axis=1) * softmax_scale"

ANSWERS = [
    Right("last tile first", ((LOOP, BACKWARDS),)),
    Right("zeros for an empty split", ((OUT, OUT.replace("acc / l", "acc / tl.where(l > 0.0, l, 1.0)")),)),
    Right(
        "partial_out of an empty split not written",
        ((OUT, OUT.replace("acc / l)", "acc / l, mask=(d >= 0) & (end > first))")),),
    ),
    Right(
        "base 2",
        (
            (SCORES, SCORES.replace("* softmax_scale", "* (softmax_scale * 1.4426950408889634)")),
            ("tl.exp(scores - m_new)", "tl.exp2(scores - m_new)"),
            ("tl.exp(m - m_new)", "tl.exp2(m - m_new)"),
            ("m + tl.log(l))", "(m + tl.log2(l)) * 0.6931471805599453)"),
        ),
    ),
]
