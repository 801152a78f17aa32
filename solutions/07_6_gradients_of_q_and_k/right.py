"""Right answers to 07.6 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

SCORES_K = 'scores_t = tl.dot(k, tl.trans(q), input_precision="ieee") * softmax_scale  # (BLOCK_N, BLOCK_M)'
SEEN_K = "visible_t = keys[:, None] <= rows[None, :] + offset"
PROBS_Q = "probs = tl.where(keys[None, :] <= rows[:, None] + offset, tl.exp(scores - lse[:, None]), 0.0)"
PROBS_K = "probs_t = tl.where(visible_t, tl.exp(scores_t - lse[None, :]), 0.0)"
D_PROBS_K = 'd_probs_t = tl.dot(v, tl.trans(d_out), input_precision="ieee")'
D_SCORES_Q = "d_scores = probs * (d_probs - row_dot[:, None]) * softmax_scale"
D_SCORES_K = "d_scores_t = probs_t * (d_probs_t - row_dot[None, :]) * softmax_scale"
ADD_K = 'd_k += tl.dot(d_scores_t.to(q.dtype), q, input_precision="ieee")'
KV_LOOP = "for kv_start in range(0, seq_len_kv, BLOCK_N):"

ANSWERS = [
    Right(
        "d_k by rows, transposed in the end",
        (
            (SCORES_K, 'scores_t = tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale'),
            (SEEN_K, "visible_t = keys[None, :] <= rows[:, None] + offset"),
            (PROBS_K, "probs_t = tl.where(visible_t, tl.exp(scores_t - lse[:, None]), 0.0)"),
            (D_PROBS_K, 'd_probs_t = tl.dot(d_out, tl.trans(v), input_precision="ieee")'),
            (D_SCORES_K, D_SCORES_K.replace("row_dot[None, :]", "row_dot[:, None]")),
            (ADD_K, ADD_K.replace("d_scores_t.to(q.dtype)", "tl.trans(d_scores_t).to(q.dtype)")),
        ),
    ),
    Right(
        "the scale at the end",
        (
            (D_SCORES_Q, D_SCORES_Q.removesuffix(" * softmax_scale")),
            (D_SCORES_K, D_SCORES_K.removesuffix(" * softmax_scale")),
            ("tl.store(d_q_ptr + q_offsets, d_q.to", "tl.store(d_q_ptr + q_offsets, (d_q * softmax_scale).to"),
            ("tl.store(d_k_ptr + kv_offsets, d_k.to", "tl.store(d_k_ptr + kv_offsets, (d_k * softmax_scale).to"),
        ),
    ),
    Right(
        "base 2",
        (
            (
                PROBS_Q,
                PROBS_Q.replace("tl.exp(scores - lse[:, None])", "tl.exp2((scores - lse[:, None]) * 1.44269504)"),
            ),
            (
                PROBS_K,
                PROBS_K.replace("tl.exp(scores_t - lse[None, :])", "tl.exp2((scores_t - lse[None, :]) * 1.44269504)"),
            ),
        ),
    ),
    Right(
        "keys beyond the diagonal skipped",
        ((KV_LOOP, "for kv_start in range(0, tl.minimum(tile * BLOCK_M + BLOCK_M + offset, seq_len_kv), BLOCK_N):"),),
    ),
]
