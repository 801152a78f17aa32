"""Right answers to 10.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

LOOP = """largest, total, out = -float("inf"), 0.0, tl.zeros((HEAD_DIM,), tl.float32)
            for i in range(0, num_parts):
                offset = row * num_partitions + i
                lse = tl.load(partial_lse_ptr + offset)
                m_new = tl.maximum(largest, lse)
                shift = tl.where(m_new > -float("inf"), m_new, 0.0)
                alpha, weight = tl.exp(largest - shift), tl.exp(lse - shift)
                out = out * alpha + weight * tl.load(partial_out_ptr + offset * HEAD_DIM + d)
                total = total * alpha + weight
                largest = m_new
"""

ANSWERS = [
    Right(
        "one partition after the other",
        (
            (
                "            mask = parts < num_parts\n"
                "            rows = row * num_partitions + parts  # of partial_out and partial_lse\n",
                "            " + LOOP,
            ),
            (
                "            part_lse = tl.load(partial_lse_ptr + rows, mask=mask, "
                'other=-float("inf"))  # (BLOCK_P,)\n',
                "",
            ),
            (
                "            part_out = tl.load(partial_out_ptr + rows[:, None] * HEAD_DIM + d[None, :], "
                "mask=mask[:, None], other=0.0)\n",
                "",
            ),
            ("            largest = tl.max(part_lse, axis=0)\n", ""),
            ('            weights = tl.where(part_lse > -float("inf"), tl.exp(part_lse - largest), 0.0)\n', ""),
            ("            total = tl.sum(weights, axis=0)\n", ""),
            ("tl.sum(weights[:, None] * part_out, axis=0) / total", "out / total"),
        ),
    ),
]
