"""Right answers to 10.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "from the last page to the first",
        (
            (
                "for i in range(0, tl.cdiv(seq_len, PAGE_SIZE)):",
                "for i in range(tl.cdiv(seq_len, PAGE_SIZE) - 1, -1, -1):",
            ),
        ),
    ),
    Right(
        "k and v on end",
        (
            (
                "k = tl.load(k_pages_ptr + offsets, mask=mask[:, None], other=0.0)",
                "k = tl.load(k_pages_ptr + tl.trans(offsets), mask=mask[None, :])",
            ),
            ("tl.sum(q[None, :] * k, axis=1)", "tl.sum(q[:, None] * k, axis=0)"),
            (
                "v = tl.load(v_pages_ptr + offsets, mask=mask[:, None], other=0.0)",
                "v = tl.trans(tl.load(v_pages_ptr + tl.trans(offsets), mask=mask[None, :], other=0.0))",
            ),
        ),
    ),
    Right(
        "base 2",
        (
            ("* softmax_scale, -", "* (softmax_scale * 1.4426950408889634), -"),
            ("alpha = tl.exp(m - m_new)", "alpha = tl.exp2(m - m_new)"),
            ("probs_unnorm = tl.exp(scores - m_new)", "probs_unnorm = tl.exp2(scores - m_new)"),
            ("m + tl.log(l_safe)", "m * 0.6931471805599453 + tl.log(l_safe)"),
        ),
    ),
    Right(
        "full pages then the last",
        (
            (
                "    for i in range(0, tl.cdiv(seq_len, PAGE_SIZE)):",
                (
                    "    for i in range(0, tl.cdiv(seq_len, PAGE_SIZE)):\n"
                    "        live = tl.minimum(PAGE_SIZE, seq_len - i * PAGE_SIZE)"
                ),
            ),
            ("        mask = i * PAGE_SIZE + slots < seq_len  # (PAGE_SIZE,)", "        mask = slots < live"),
        ),
    ),
    Right(
        "transposed tile",
        (
            (
                (
                    "        offsets = page * stride_page + kv_offset + slots[:, None] * stride_slot + "
                    "d[None, :]  # (PAGE_SIZE, HEAD_DIM)"
                ),
                ("        offsets = page * stride_page + kv_offset + slots[None, :] * stride_slot + d[:, None]"),
            ),
            (
                "        k = tl.load(k_pages_ptr + offsets, mask=mask[:, None], other=0.0)",
                "        k = tl.load(k_pages_ptr + offsets, mask=mask[None, :], other=0.0)",
            ),
            (
                "        v = tl.load(v_pages_ptr + offsets, mask=mask[:, None], other=0.0)",
                "        v = tl.load(v_pages_ptr + offsets, mask=mask[None, :], other=0.0)",
            ),
            (
                ('        scores = tl.where(mask, tl.sum(q[None, :] * k, axis=1) * softmax_scale, -float("inf"))'),
                ('        scores = tl.where(mask, tl.sum(q[:, None] * k, axis=0) * softmax_scale, -float("inf"))'),
            ),
            (
                "        acc = acc * alpha + tl.sum(probs_unnorm[:, None] * v, axis=0)",
                "        acc = acc * alpha + tl.sum(probs_unnorm[None, :] * v, axis=1)",
            ),
        ),
    ),
]
