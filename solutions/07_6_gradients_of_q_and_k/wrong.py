"""Wrong answers to 07.6, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

# d_q: a fixed tile of queries
DOT_Q = "row_dot = tl.sum(d_out.to(tl.float32) * out.to(tl.float32), axis=1)  # D, (BLOCK_M,)"
SCORES_Q = 'scores = tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale'
PROBS_Q = "probs = tl.where(keys[None, :] <= rows[:, None] + offset, tl.exp(scores - lse[:, None]), 0.0)"
D_PROBS_Q = 'd_probs = tl.dot(d_out, tl.trans(v), input_precision="ieee")'
D_SCORES_Q = "d_scores = probs * (d_probs - row_dot[:, None]) * softmax_scale"
ADD_Q = 'd_q += tl.dot(d_scores.to(k.dtype), k, input_precision="ieee")'
ZERO_Q = "d_q = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)"
KV_HEAD = "kv_head, d = q_head // num_q_per_kv, tl.arange(0, BLOCK_D)[None, :]"
# d_k: a fixed tile of keys
DOT_K = "row_dot = tl.sum(d_out.to(tl.float32) * out.to(tl.float32), axis=1)\n                scores_t"
SCORES_K = 'scores_t = tl.dot(k, tl.trans(q), input_precision="ieee") * softmax_scale'
SEEN_K = "visible_t = keys[:, None] <= rows[None, :] + offset"
PROBS_K = "probs_t = tl.where(visible_t, tl.exp(scores_t - lse[None, :]), 0.0)"
D_PROBS_K = 'd_probs_t = tl.dot(v, tl.trans(d_out), input_precision="ieee")'
D_SCORES_K = "d_scores_t = probs_t * (d_probs_t - row_dot[None, :]) * softmax_scale"
ADD_K = 'd_k += tl.dot(d_scores_t.to(q.dtype), q, input_precision="ieee")'
ZERO_K = "d_k = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)"
HEADS = "for one_head in range(q_head, q_head + num_q_per_kv):"
QUERIES = "for q_start in range(0, seq_len_q, BLOCK_M):"


def both(find_q, find_k, edit):
    """The same edit in both halves."""
    return ((find_q, edit(find_q)), (find_k, edit(find_k)))


ANSWERS = [
    # D
    Wrong(
        "D missing",
        both(D_SCORES_Q, D_SCORES_K, lambda s: s.replace(" - row_dot[:, None]", "").replace(" - row_dot[None, :]", "")),
        "d_missing",
        "d_P - D",
    ),
    Wrong("D missing in d_k", ((D_SCORES_K, D_SCORES_K.replace(" - row_dot[None, :]", "")),), "d_missing", "d_k"),
    Wrong(
        "D added", both(D_SCORES_Q, D_SCORES_K, lambda s: s.replace("- row_dot", "+ row_dot")), "d_sign", "subtracted"
    ),
    Wrong(
        "D scaled",
        both(D_SCORES_Q, D_SCORES_K, lambda s: s.replace("- row_dot", "- softmax_scale * row_dot")),
        "d_scaled",
        "finished difference",
    ),
    Wrong(
        "D a mean",
        both(
            DOT_Q, DOT_K, lambda s: s.replace("out.to(tl.float32), axis=1)", "out.to(tl.float32), axis=1) / HEAD_DIM")
        ),
        "d_mean",
        "no mean",
    ),
    Wrong(
        "D of out with itself", both(DOT_Q, DOT_K, lambda s: s.replace("d_out.to", "out.to")), "d_wrong", "out * out"
    ),
    Wrong(
        "D of d_out with itself",
        both(DOT_Q, DOT_K, lambda s: s.replace("* out.to", "* d_out.to")),
        "d_wrong",
        "d_out * d_out",
    ),
    Wrong(
        "d_S transposed",
        both(D_SCORES_Q, D_SCORES_K, lambda s: s.replace("= probs", "= -1.0 * probs")),
        "sign",
        "d_P - D",
    ),
    Wrong(
        "out in place of d_out",
        both(D_PROBS_Q, D_PROBS_K, lambda s: s.replace("d_out", "out")),
        "d_probs_wrong",
        "d_out v^T",
    ),
    Wrong(
        "P missing in d_S",
        both(
            D_SCORES_Q,
            D_SCORES_K,
            lambda s: s.replace("probs * (", "probs.to(tl.int1) * (").replace("probs_t * (", "probs_t.to(tl.int1) * ("),
        ),
        "weight_missing",
        "does not enter",
    ),
    # the scale
    Wrong("scale only in d_q", ((D_SCORES_K, D_SCORES_K.replace(" * softmax_scale", "")),), "scale_in_one", "d_k"),
    Wrong("scale only in d_k", ((D_SCORES_Q, D_SCORES_Q.replace(" * softmax_scale", "")),), "scale_in_one", "d_q"),
    Wrong(
        "scale in neither",
        both(D_SCORES_Q, D_SCORES_K, lambda s: s.replace(" * softmax_scale", "")),
        "scale_missing",
        "too large",
    ),
    Wrong("scale twice", both(D_SCORES_Q, D_SCORES_K, lambda s: s + " * softmax_scale"), "scale_twice", "too small"),
    Wrong(
        "scale missing in the scores",
        both(SCORES_Q, SCORES_K, lambda s: s.replace(" * softmax_scale", "")),
        "scale_missing_in_scores",
        "without",
    ),
    # the weights
    Wrong(
        "P without lse",
        both(PROBS_Q, PROBS_K, lambda s: s.replace(" - lse[:, None]", "").replace(" - lse[None, :]", "")),
        "lse_missing",
        "exp(score - lse)",
    ),
    Wrong("P without lse in d_k", ((PROBS_K, PROBS_K.replace(" - lse[None, :]", "")),), "lse_missing", "d_k"),
    Wrong("exp2", both(PROBS_Q, PROBS_K, lambda s: s.replace("tl.exp(", "tl.exp2(")), "exp_exp2_mix", "log2(e)"),
    Wrong("lse added", both(PROBS_Q, PROBS_K, lambda s: s.replace("- lse", "+ lse")), "lse_sign", "subtracted"),
    # the mask
    Wrong(
        "mask not in the weights of d_q", ((PROBS_Q, "probs = tl.exp(scores - lse[:, None])"),), "mask_missing", "d_q"
    ),
    Wrong(
        "mask not in the weights of d_k",
        ((PROBS_K, "probs_t = tl.exp(scores_t - lse[None, :])"),),
        "mask_missing",
        "d_k",
    ),
    Wrong(
        "strictly causal",
        ((PROBS_Q, PROBS_Q.replace("<=", "<")), (SEEN_K, SEEN_K.replace("<=", "<"))),
        "causal_off_by_one",
        "one too few",
    ),
    Wrong(
        "one key of the future",
        ((PROBS_Q, PROBS_Q.replace("+ offset", "+ offset + 1")), (SEEN_K, SEEN_K + " + 1")),
        "causal_off_by_one",
        "future",
    ),
    Wrong(
        "top left",
        ((SEEN_K, "visible_t = (keys[:, None] <= rows[None, :]) | (causal == 0)"),),
        "causal_top_left",
        "d_k",
    ),
    Wrong(
        "-inf minus -inf",
        (
            (
                PROBS_Q,
                "visible = keys[None, :] <= rows[:, None] + offset\n"
                '        probs = tl.exp(tl.where(visible, scores, -float("inf")) - lse[:, None])',
            ),
        ),
        "masked_row",
        "tl.where after",
    ),
    # who owns which sum
    Wrong("d_q overwritten", ((ADD_Q, ADD_Q.replace("+=", "=")),), "overwritten", "d_q"),
    Wrong("d_k overwritten", ((ADD_K, ADD_K.replace("+=", "=")),), "overwritten", "overwr"),
    Wrong(
        "d_q not begun with 0",
        ((ZERO_Q, ZERO_Q.replace("zeros((BLOCK_M, BLOCK_D)", "full((BLOCK_M, BLOCK_D), 1.0")),),
        "not_zeroed",
        "begin with 0",
    ),
    Wrong(
        "d_k added to the old contents",
        ((ZERO_K, "d_k = tl.load(d_k_ptr + kv_offsets, mask=kv_mask, other=0.0).to(tl.float32)"),),
        "uninitialised_read",
    ),
    Wrong(
        "d_k not summed over the group",
        ((HEADS, "for one_head in range(q_head, q_head + 1):"),),
        "group_not_summed",
        "one head of each group",
    ),
    Wrong(
        "d_k begun anew for each head", ((QUERIES, ZERO_K + "\n            " + QUERIES),), "overwritten", "overwrote"
    ),
    Wrong(
        "heads by modulo",
        (
            (
                KV_HEAD,
                "num_kv_heads, d = tl.num_programs(1) // num_q_per_kv, tl.arange(0, BLOCK_D)[None, :]\n"
                "    kv_head = tl.program_id(2) * num_kv_heads + tl.program_id(1) % num_kv_heads",
            ),
        ),
        "race",
        "",
    ),
    Wrong("k and q exchanged", ((ADD_Q, ADD_Q.replace(", k, ", ", v, ")),), "nothing_counted", "rows of k"),
    Wrong("zeros", ((ADD_Q, ADD_Q.replace("+=", "=") + " * 0.0"),), "nothing_counted", "d_q"),
]
