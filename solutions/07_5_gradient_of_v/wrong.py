"""Wrong answers to 07.5, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

ZERO = "d_v = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)"
HEADS = "for q_head in range(kv_head * num_q_per_kv, (kv_head + 1) * num_q_per_kv):"
QUERIES = "for q_start in range(0, seq_len_q, BLOCK_M):"
THERE = "q_mask = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)"
LOAD_Q = "q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)"
LOAD_D_OUT = "d_out = tl.load(d_out_ptr + q_offsets, mask=q_mask, other=0.0)"
LOAD_LSE = "lse = tl.load(lse_ptr + q_head * seq_len_q + rows, mask=rows < seq_len_q, other=0.0)"
SCORES = 'scores_t = tl.dot(k, tl.trans(q), input_precision="ieee") * softmax_scale'
VISIBLE = "visible_t = keys[:, None] <= rows[None, :] + offset"
PROBS = "probs_t = tl.where(visible_t, tl.exp(scores_t - lse[None, :]), 0.0)"
ADD = 'd_v += tl.dot(probs_t.to(d_out.dtype), d_out, input_precision="ieee")'
STORE = "tl.store(d_v_ptr + kv_offsets, d_v.to(d_v_ptr.dtype.element_ty), mask=kv_mask)"

ANSWERS = [
    # the weights
    Wrong("P without lse", ((PROBS, PROBS.replace(" - lse[None, :]", "")),), "lse_missing", "exp(score - lse)"),
    Wrong("lse added", ((PROBS, PROBS.replace("- lse", "+ lse")),), "lse_sign", "subtracted"),
    Wrong("exp2", ((PROBS, PROBS.replace("tl.exp(", "tl.exp2(")),), "exp_exp2_mix", "log2(e)"),
    Wrong(
        "lse in base 2, exp in base e",
        ((PROBS, PROBS.replace("lse[None, :]", "lse[None, :] * 1.4426950408889634")),),
        "lse_wrong_base",
        "not exp2",
    ),
    Wrong(
        "scale missing", ((SCORES, SCORES.replace(" * softmax_scale", "")),), "scale_missing_in_scores", "without the"
    ),
    Wrong(
        "scale on d_v", ((STORE, STORE.replace("d_v.to", "(d_v * softmax_scale).to")),), "wrong_factor", "softmax_scale"
    ),
    Wrong("scale twice", ((SCORES, SCORES + " * softmax_scale"),), "scale_twice_in_scores", "twice"),
    Wrong(
        "softmax of the tile in place of lse",
        (
            (
                PROBS,
                "shift = tl.max(scores_t, axis=0)\n"
                "            probs_t = tl.where(visible_t, tl.exp(scores_t - shift[None, :]), 0.0)",
            ),
        ),
        "lse_missing",
        "does not enter",
    ),
    Wrong(
        "exp(score) / exp(lse)",
        ((PROBS, PROBS.replace("tl.exp(scores_t - lse[None, :])", "tl.exp(scores_t) / tl.exp(lse)[None, :]")),),
        "no_max",
        "never exceeds 1",
    ),
    # the mask
    Wrong("mask not in the weights", ((PROBS, "probs_t = tl.exp(scores_t - lse[None, :])"),), "mask_missing", "future"),
    Wrong("strictly causal", ((VISIBLE, VISIBLE.replace("<=", "<")),), "causal_off_by_one", "one too few"),
    Wrong("one key of the future", ((VISIBLE, VISIBLE + " + 1"),), "causal_off_by_one", "future"),
    Wrong(
        "top left",
        ((VISIBLE, "visible_t = (keys[:, None] <= rows[None, :]) | (causal == 0)"),),
        "causal_top_left",
        "top left",
    ),
    Wrong(
        "transposed",
        ((VISIBLE, "visible_t = (keys[:, None] >= rows[None, :] + offset) | (causal == 0)"),),
        "causal_reversed",
    ),
    Wrong(
        "masked scores 0 before the exponential",
        ((PROBS, "probs_t = tl.exp(tl.where(visible_t, scores_t, 0.0) - lse[None, :])"),),
        "mask_missing",
        "future",
    ),
    Wrong(
        "-inf minus -inf",
        ((PROBS, 'probs_t = tl.exp(tl.where(visible_t, scores_t, -float("inf")) - lse[None, :])'),),
        "masked_row",
        "tl.where after",
    ),
    Wrong(
        "infinite weights times the mask",
        ((PROBS, "probs_t = tl.exp(scores_t - lse[None, :]) * visible_t.to(tl.float32)"),),
        "masked_row",
        "lse = -inf",
    ),
    # who owns which sum
    Wrong("overwritten in every tile", ((ADD, ADD.replace("+=", "=")),), "overwritten", "overwr"),
    Wrong(
        "added to the old contents",
        ((ZERO, "d_v = tl.load(d_v_ptr + kv_offsets, mask=kv_mask, other=0.0)"),),
        "uninitialised_read",
    ),
    Wrong(
        "begun with 1",
        ((ZERO, ZERO.replace("zeros((BLOCK_N, BLOCK_D)", "full((BLOCK_N, BLOCK_D), 1.0")),),
        "not_zeroed",
        "0",
    ),
    Wrong(
        "one head of the group",
        ((HEADS, "for q_head in range(kv_head * num_q_per_kv, kv_head * num_q_per_kv + 1):"),),
        "group_not_summed",
    ),
    Wrong(
        "begun anew for each head",
        ((QUERIES, ZERO + "\n        " + QUERIES),),
        "overwritten",
        "overwrote",
    ),
    Wrong(
        "heads by modulo",
        (
            (
                HEADS,
                "for step in range(num_q_per_kv):\n"
                "        q_head = (tl.program_id(2) * num_q_per_kv + step) * tl.num_programs(1) + tl.program_id(1)",
            ),
        ),
        "gqa_modulo",
        "h // 2",
    ),
    Wrong(
        "group from the number of heads",
        ((HEADS, "for q_head in range(kv_head, kv_head + num_q_per_kv):"),),
        "wrong_heads",
        "0, 1 and 1, 2",
    ),
    Wrong(
        "first tile of queries alone",
        ((QUERIES, "for q_start in range(0, BLOCK_M, BLOCK_M):"),),
        "one_tile",
        "first tile",
    ),
    Wrong(
        "last tile of queries dropped",
        ((QUERIES, "for q_start in range(0, seq_len_q // BLOCK_M * BLOCK_M, BLOCK_M):"),),
        "tail_dropped",
        "not full",
    ),
    Wrong(
        "tile skipped too early",
        (
            (
                QUERIES,
                "first = (tl.maximum(tl.program_id(0) * BLOCK_N - offset, 0) + BLOCK_M - 1) // BLOCK_M * BLOCK_M\n"
                "        for q_start in range(first, seq_len_q, BLOCK_M):",
            ),
        ),
        "tile_skipped",
        "last query",
    ),
    # elements past the end
    Wrong("d_out without other", ((LOAD_D_OUT, LOAD_D_OUT.replace(", other=0.0", "")),), "undefined_places", "other"),
    Wrong("queries read past the end", ((THERE, "q_mask = d < HEAD_DIM"),), "out_of_bounds", ""),
    Wrong(
        "lse read past the end",
        ((LOAD_LSE, "lse = tl.load(lse_ptr + q_head * seq_len_q + rows)"),),
        "out_of_bounds",
        "",
    ),
    Wrong("stored past the end", ((STORE, STORE.replace(", mask=kv_mask", "")),), "out_of_bounds", ""),
    Wrong("q in place of d_out", ((LOAD_D_OUT, LOAD_D_OUT.replace("d_out_ptr", "q_ptr")),), "wrong_factor", "times"),
    Wrong("weights in half", ((PROBS, PROBS + ".to(tl.float16).to(tl.float32)"),), "low_precision", "half"),
    Wrong("zeros", ((STORE, STORE.replace("d_v.to", "(d_v * 0.0).to")),), "all_zeros", "d_v"),
]
