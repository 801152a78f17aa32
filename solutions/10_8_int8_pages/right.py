"""Right answers to 10.8 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "rows restored before they are used",
        (
            (
                "scores = tl.sum(q[None, :] * k, axis=1) * k_scale * softmax_scale",
                "k, v = k * k_scale[:, None], v * v_scale[:, None]\n"
                "        scores = tl.sum(q[None, :] * k, axis=1) * softmax_scale",
            ),
            ("(probs_unnorm * v_scale)[:, None] * v", "probs_unnorm[:, None] * v"),
        ),
    ),
    Right(
        "the scale of the softmax in that of k",
        (
            ("mask=mask, other=0.0)\n        v_scale", "mask=mask, other=0.0) * softmax_scale\n        v_scale"),
            (" * k_scale * softmax_scale", " * k_scale"),
        ),
    ),
    Right(
        "scales joined first",
        (
            (
                "        scores = tl.sum(q[None, :] * k, axis=1) * k_scale * softmax_scale",
                "        scores = tl.sum(q[None, :] * k, axis=1) * (k_scale * softmax_scale)",
            ),
        ),
    ),
    Right(
        "rows of the pool",
        (
            (
                ("        scale_offsets = (page * PAGE_SIZE + slots) * num_kv_heads + kv_head  # (PAGE_SIZE,)"),
                ("        rows = page * PAGE_SIZE + slots\n        scale_offsets = rows * num_kv_heads + kv_head"),
            ),
        ),
    ),
]
