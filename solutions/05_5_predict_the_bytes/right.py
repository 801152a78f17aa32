"""Right answers to 05.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

STEPS = """def attention_bytes(batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim, itemsize):
    rows, keys = batch_size * num_heads * seq_len_q, batch_size * num_kv_heads * seq_len_kv
    q = out = rows * head_dim
    k = v = keys * head_dim
    scores = probs = rows * seq_len_kv
    launches = [q + k + scores, scores + scores, scores + scores, scores + probs, probs + v + out]
    fused = [launches[0], launches[3], launches[4]]
    return sum(launches) * itemsize, sum(fused) * itemsize, (q + k + v + out) * itemsize
"""

ANSWERS = [
    Right("launch by launch", text=STEPS),
    Right(
        "from the largest to the smallest",
        (
            ("    fused = never + 4 * matrix", "    fused = sum((never, matrix, matrix, matrix, matrix))"),
            ("    naive = never + 8 * matrix", "    naive = 2 * fused - never"),
        ),
    ),
]
