"""Right answers to 05.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right("multiplied first", (("head / num_q_per_kv;", "head * num_kv_heads / num_heads;"),)),
    Right(
        "negative lengths are left",
        (("max(0, q_row + seq_len_kv - seq_len_q + 1)", "q_row + seq_len_kv - seq_len_q + 1"),),
    ),
    Right(
        "addresses as 64-bit numbers of rows",
        (
            (
                "    const size_t first = ((size_t)batch * num_kv_heads + kv_head) * seq_len_kv * head_dim;\n",
                "    const long long rows = (long long)(batch * num_kv_heads + kv_head) * seq_len_kv;\n"
                "    const long long first = rows * head_dim;\n",
            ),
            ("if (causal) num_visible = max(0, ", "if (causal) num_visible = max(0, causal - 1 + "),
        ),
    ),
]
