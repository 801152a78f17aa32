"""Wrong answers to 07.2, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

KV_HEAD = "kv_head = tl.program_id(2).to(tl.int64) * (num_heads // num_q_per_kv) + head // num_q_per_kv"
Q_HEAD = "q_head = tl.program_id(2).to(tl.int64) * num_heads + head"
LOAD_Q = "q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)"
M_START = 'm = tl.full((BLOCK_M,), -float("inf"), tl.float32)'
LOOP = "for kv_start in range(0, seq_len_kv, BLOCK_N):"
THERE = "kv_mask = (keys[None, :] < seq_len_kv) & (d[:, None] < HEAD_DIM)"
LOAD_V = "v_t = tl.load(v_ptr + kv_offsets, mask=kv_mask, other=0.0)"
LOAD_K = "k_t = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)"
SCORES = 'scores = tl.dot(q, k_t, input_precision="ieee") * softmax_scale'
MASK = 'scores = tl.where(keys[None, :] < seq_len_kv, scores, -float("inf"))'
M_NEW = "m_new = tl.maximum(m, tl.max(scores, axis=1))"
PROBS = "probs_unnorm = tl.exp(scores - m_new[:, None])"
ALPHA = "alpha = tl.exp(m - m_new)"
L = "l = l * alpha + tl.sum(probs_unnorm, axis=1)"
ACC = 'acc = acc * alpha[:, None] + tl.dot(probs_unnorm.to(v_t.dtype), tl.trans(v_t), input_precision="ieee")'
M_KEPT = "        m = m_new\n"
OUT = "tl.store(out_ptr + q_offsets, (acc / l[:, None]).to(out_ptr.dtype.element_ty), mask=q_mask)"
LSE = "tl.store(lse_ptr + q_head * seq_len_q + rows, m + tl.log(l), mask=rows < seq_len_q)"

ANSWERS = [
    # the state
    Wrong("acc not rescaled", ((ACC, ACC.replace("acc * alpha[:, None]", "acc")),), "o_not_rescaled", "not multiplied"),
    Wrong("l not rescaled", ((L, L.replace("l * alpha", "l")),), "l_not_rescaled", "not multiplied"),
    Wrong("neither rescaled", ((ALPHA, "alpha = tl.full((BLOCK_M,), 1.0, tl.float32)"),), "o_not_rescaled", "so was l"),
    Wrong("alpha inverted", ((ALPHA, "alpha = tl.exp(m_new - m)"),), "nan_from_the_start", "infinite"),
    Wrong(
        "alpha inverted, with a guard",
        ((ALPHA, "alpha = tl.where(kv_start > 0, tl.exp(m_new - m), 0.0)"),),
        "inverse_factor",
        "exp(m_new - m)",
    ),
    Wrong("alpha with exp2", ((ALPHA, "alpha = tl.exp2(m - m_new)"),), "exp_exp2_mix", "2 to the -1"),
    Wrong("weights with exp2", ((PROBS, PROBS.replace("exp(", "exp2(")),), "exp_exp2_mix", "2 to the power"),
    Wrong("m not kept", ((M_KEPT, ""),), "old_state_lost", "never kept"),
    Wrong("l not added up", ((L, "l = tl.sum(probs_unnorm, axis=1)"),), "old_state_lost", "old l was thrown away"),
    Wrong("acc not added up", ((ACC, ACC.replace("acc * alpha[:, None] + ", "")),), "old_state_lost", "old out"),
    Wrong("divided in every tile, too", ((ACC, ACC + " / l[:, None]"),), "divided_twice", "once more"),
    Wrong("never divided", ((OUT, OUT.replace("acc / l[:, None]", "acc")),), "no_division", "division by l"),
    Wrong("maximum of the tile alone", ((M_NEW, "m_new = tl.max(scores, axis=1)"),), "tile_local_max", "never fall"),
    Wrong("no maximum", ((M_NEW, "m_new = tl.zeros((BLOCK_M,), tl.float32)"),), "no_max", "+100"),
    Wrong("m starts at 0", ((M_START, "m = tl.zeros((BLOCK_M,), tl.float32)"),), "m_starts_too_high", "-100"),
    Wrong("acc in half", ((ACC, ACC.replace("acc = ", "acc = (") + ").to(tl.float16)"),), "low_precision", "half"),
    Wrong(
        "acc in the dtype of v",
        ((ACC, ACC.replace("acc = ", "acc = (") + ").to(v_t.dtype)"),),
        "half_accumulator",
        "63.98 in place of 65.95",
    ),
    Wrong("weights rounded to half", ((PROBS, PROBS + ".to(tl.float16).to(tl.float32)"),), "low_precision", "half"),
    # the tail
    Wrong("tail counted", ((MASK, ""),), "tail_counted", "64"),
    Wrong(
        "tail dropped", ((LOOP, "for kv_start in range(0, seq_len_kv // BLOCK_N * BLOCK_N, BLOCK_N):"),), "tail_dropped"
    ),
    Wrong("first tile of keys alone", ((LOOP, "for kv_start in range(0, 1, BLOCK_N):"),), "one_tile", "first tile"),
    Wrong(
        "0 times NaN: v without other", ((LOAD_V, LOAD_V.replace(", other=0.0", "")),), "undefined_places", "other=0.0"
    ),
    Wrong("k without other", ((LOAD_K, LOAD_K.replace(", other=0.0", "")),), "undefined_places", "other=0.0"),
    Wrong("k and v read past the end", ((THERE, "kv_mask = d[:, None] < HEAD_DIM"),), "out_of_bounds", ""),
    Wrong("columns read past the end", ((THERE, "kv_mask = keys[None, :] < seq_len_kv"),), "out_of_bounds", ""),
    Wrong("rows read past the end", ((LOAD_Q, "q = tl.load(q_ptr + q_offsets)"),), "out_of_bounds", ""),
    Wrong("rows stored past the end", ((OUT, OUT.replace(", mask=q_mask", "")),), "out_of_bounds", ""),
    # the scale, lse
    Wrong("scale missing", ((SCORES, SCORES.replace(" * softmax_scale", "")),), "scale_missing", "too large"),
    Wrong("scale twice", ((SCORES, SCORES + " * softmax_scale"),), "scale_twice", "too small"),
    Wrong(
        "scale from the tile", ((SCORES, SCORES.replace("softmax_scale", "BLOCK_D**-0.5")),), "scale_wrong", "0.1768"
    ),
    Wrong(
        "lse in base 2", ((LSE, LSE.replace("m + tl.log(l)", "(m + tl.log(l)) * 1.4426950408889634")),), "lse_base_2"
    ),
    Wrong("log2 of l in lse", ((LSE, LSE.replace("tl.log(l)", "tl.log2(l)")),), "lse_base_2", "natural"),
    Wrong(
        "lse without the maximum", ((LSE, LSE.replace("m + tl.log(l)", "tl.log(l)")),), "lse_without_max", "m + log(l)"
    ),
    Wrong("lse not stored", ((LSE, ""),), "unwritten", "lse"),
    # heads and rows
    Wrong(
        "heads by modulo",
        ((KV_HEAD, KV_HEAD.replace("head // num_q_per_kv", "head % (num_heads // num_q_per_kv)")),),
        "gqa_modulo",
        "h / 2",
    ),
    Wrong(
        "batch stride of q for k and v",
        ((KV_HEAD, KV_HEAD.replace("(num_heads // num_q_per_kv)", "num_heads")),),
        "out_of_bounds",
        "",
    ),
    Wrong("batch forgotten in k and v", ((KV_HEAD, "kv_head = head // num_q_per_kv"),), "batch_stride", "is missing"),
    Wrong("batch forgotten in q", ((Q_HEAD, "q_head = head"),), "race", ""),
    Wrong("k in place of v", ((LOAD_V, LOAD_V.replace("v_ptr", "k_ptr")),), "k_v_swapped", "rows of v"),
    Wrong("mean of v", ((PROBS, "probs_unnorm = tl.where(scores > -1e30, 1.0, 0.0)"),), "ignores_scores", "mean of v"),
    Wrong("zeros", ((OUT, OUT.replace("acc / l[:, None]", "acc * 0.0")),), "all_zeros", "out"),
]
