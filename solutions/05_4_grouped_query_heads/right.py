"""Right answers to 05.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right("multiplied first", (("head / num_q_per_kv;", "head * num_kv_heads / num_heads;"),)),
    Right(
        "negative lengths are left",
        (("max(0, q_row + seq_len_kv - seq_len_q + 1)", "q_row + seq_len_kv - seq_len_q + 1"),),
    ),
]
