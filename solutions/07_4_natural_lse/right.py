"""Right answers to 07.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

LSE = "m_log2 * ln_2 + tl.log(l_safe)"

ANSWERS = [
    Right("the sum in base 2, converted at the end", ((LSE, "(m_log2 + tl.log2(l_safe)) * ln_2"),)),
    Right(
        "the empty row chosen in the end",
        (
            ("l_safe = tl.where(l > 0.0, l, 1.0)", "l_safe = l"),
            ("acc / l_safe[:, None]", "tl.where(l[:, None] > 0.0, acc / l_safe[:, None], 0.0)"),
            (LSE, 'tl.where(l > 0.0, m_log2 * ln_2 + tl.log(l_safe), float("-inf"))'),
        ),
    ),
    Right("log of 0 left to itself", ((LSE, "m_log2 * ln_2 + tl.log(l)"),)),
]
