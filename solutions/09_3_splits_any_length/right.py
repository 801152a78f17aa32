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
        "l and acc added up over the keys of a tile at the end",
        (
            ('m, l = -float("inf"), 0.0', 'm, l = -float("inf"), tl.zeros((BLOCK_N,), tl.float32)'),
            ("acc = tl.zeros((HEAD_DIM,), tl.float32)", "acc = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)"),
            ("l = l * alpha + tl.sum(probs_unnorm, axis=0)", "l = l * alpha + probs_unnorm"),
            ("alpha + tl.sum(probs_unnorm[:, None] * v, axis=0)", "alpha + probs_unnorm[:, None] * v"),
            ("    offset =", "    l, acc = tl.sum(l, axis=0), tl.sum(acc, axis=0)\n    offset ="),
        ),
    ),
    Right("offsets in int32", (("(kv_head * capacity", "(kv_head.to(tl.int32) * capacity"),)),
    Right("-1e30 past the end", (('scores, -float("inf"))', "scores, -1e30)"),)),
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
