"""Right answers to 07.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

END = "kv_end = tl.minimum(q_start + BLOCK_M, seq_len_q) + offset"
VISIBLE = "visible = (keys[None, :] < seq_len_kv) & (keys[None, :] <= rows[:, None] + offset)"

ANSWERS = [
    Right("the loop ends a tile late", ((END, END + " + BLOCK_N"),), remark="Where does the loop"),
    Right("the end from the rows", ((END, "kv_end = tl.max(tl.minimum(rows, seq_len_q - 1)) + offset + 1"),)),
    Right("the tail masked by the diagonal", ((VISIBLE, "visible = rows[:, None] >= keys[None, :] - offset"),)),
    Right(
        "from the diagonal to the left",
        (
            ("for kv_start in range(0, kv_end, BLOCK_N):", "for step in range(0, kv_end, BLOCK_N):"),
            (
                "keys = kv_start + tl.arange(0, BLOCK_N)",
                "keys = (kv_end - 1) // BLOCK_N * BLOCK_N - step + tl.arange(0, BLOCK_N)",
            ),
        ),
    ),
]
