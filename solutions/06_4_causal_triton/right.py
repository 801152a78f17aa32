"""Right answers to 06.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

FIRST = "first_row = tl.where(kv_start > 0, tl.maximum(kv_start - offset, 0), 0)"

ANSWERS = [
    Right(
        "the first row by whole tiles of keys",
        ((FIRST, FIRST.replace("kv_start - offset, 0)", "kv_start - offset - BLOCK_N // 2, 0)")),),
    ),
    Right("no tile skipped", ((FIRST, "first_row = 0"),), remark="Which tiles hold no visible pair?"),
    Right(
        "the mask by the row", (("keys[None, :] <= rows[:, None] + offset", "rows[:, None] >= keys[None, :] - offset"),)
    ),
    Right(
        "a tile skipped late",
        ((FIRST, "first_row = tl.where(kv_start > 0, tl.maximum(kv_start - offset - BLOCK_N, 0), 0)"),),
    ),
    Right(
        "the causal mask alone: it hides what is past the end",
        (
            (
                "visible = (keys[None, :] < seq_len_kv) & (keys[None, :] <= rows[:, None] + offset)",
                "visible = keys[None, :] - offset <= rows[:, None]",
            ),
        ),
    ),
]
