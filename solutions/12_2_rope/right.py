"""Right answers to 12.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "one tile of the head, partners by a step",
        (
            (
                "    first = row_ptr + (2 * pair if INTERLEAVED else pair)\n"
                "    second = row_ptr + (2 * pair + 1 if INTERLEAVED else pair + half)",
                "    if INTERLEAVED:\n"
                "        step, apart = 2, 1\n"
                "    else:\n"
                "        step, apart = 1, half\n"
                "    first = row_ptr + step * pair\n"
                "    second = first + apart",
            ),
        ),
    ),
    Right(
        "second stored first, the exponent by e",
        (
            (
                "    tl.store(first, a * cosine - b * sine, mask=mask)\n"
                "    tl.store(second, b * cosine + a * sine, mask=mask)",
                "    turned = a * cosine - b * sine\n"
                "    tl.store(second, a * sine + b * cosine, mask=mask)\n"
                "    tl.store(first, turned, mask=mask)",
            ),
            (
                "tl.exp2(-log2_base * (2.0 * pair) / rotary_dim)",
                "tl.exp(-log2_base * 0.6931471805599453 * pair / half)",
            ),
        ),
    ),
    Right(
        "a position of 64 bits",
        (
            (
                "tl.load(positions_ptr + token).to(tl.float32)",
                "tl.load(positions_ptr + token).to(tl.int64).to(tl.float32)",
            ),
            ("x_ptr + token * stride_token", "x_ptr + token.to(tl.int64) * stride_token"),
        ),
    ),
]
