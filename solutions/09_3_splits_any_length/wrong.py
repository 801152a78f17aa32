"""Wrong answers to 09.3, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

SEQ_LEN = "seq_len = tl.load(seq_lens_ptr + batch)"
SPLIT_LEN = "split_len = tl.cdiv(tl.cdiv(seq_len, num_splits), BLOCK_N) * BLOCK_N"
FIRST = "first = split * split_len"
END = "end = tl.minimum(first + split_len, seq_len)"
KV_HEAD = "kv_head = batch * (num_heads // num_q_per_kv) + head // num_q_per_kv"
START = 'm, l = -float("inf"), 0.0'
LOOP = "for start in range(first, end, BLOCK_N):"
OFFSETS = "kv_offsets = (kv_head * capacity + keys[:, None]) * HEAD_DIM + d[None, :]"
LOAD_K = "k = tl.load(k_ptr + kv_offsets, mask=keys[:, None] < end, other=0.0).to(tl.float32)"
LOAD_V = "v = tl.load(v_ptr + kv_offsets, mask=keys[:, None] < end, other=0.0).to(tl.float32)"
SCORES = "scores = tl.sum(q[None, :] * k, axis=1) * softmax_scale"
MASK = 'scores = tl.where(keys < end, scores, -float("inf"))'
M_NEW = "m_new = tl.maximum(m, tl.max(scores, axis=0))"
ALPHA = "alpha = tl.exp(m - m_new)"
PROBS = "probs_unnorm = tl.exp(scores - m_new)"
L = "l = l * alpha + tl.sum(probs_unnorm, axis=0)"
ACC = "acc = acc * alpha + tl.sum(probs_unnorm[:, None] * v, axis=0)"
M_KEPT = "        m = m_new\n"
OFFSET = "offset = split * batch_size * num_heads + row"
OUT = "tl.store(partial_out_ptr + offset * HEAD_DIM + d, acc / l)"
LSE = "tl.store(partial_lse_ptr + offset, m + tl.log(l))"

ANSWERS = [
    # sharing out
    Wrong(
        "split_len rounded down",
        ((SPLIT_LEN, "split_len = seq_len // num_splits // BLOCK_N * BLOCK_N"),),
        "rounded_down",
        "no split",
    ),
    Wrong(
        "tiles rounded down",
        ((SPLIT_LEN, "split_len = tl.cdiv(seq_len, BLOCK_N) // num_splits * BLOCK_N"),),
        "rounded_down",
        "Round up",
    ),
    Wrong(
        "not whole tiles", ((SPLIT_LEN, "split_len = tl.cdiv(seq_len, num_splits)"),), "not_whole_tiles", "round it up"
    ),
    Wrong(
        "split_len of the capacity",
        ((SPLIT_LEN, SPLIT_LEN.replace("seq_len,", "capacity,")),),
        "split_len_of_capacity",
        "160",
    ),
    Wrong(
        "split_len of the first sequence",
        ((SPLIT_LEN, SPLIT_LEN.replace("seq_len,", "tl.load(seq_lens_ptr),")),),
        "split_len_of_another",
        "by itself",
    ),
    Wrong(
        "length of the first sequence",
        ((SEQ_LEN, "seq_len = tl.load(seq_lens_ptr)"),),
        "length_of_another",
        "first one",
    ),
    Wrong("length by the head", ((SEQ_LEN, "seq_len = tl.load(seq_lens_ptr + head)"),), "out_of_bounds", ""),
    Wrong(
        "the border in both splits",
        ((END, "end = tl.minimum(first + split_len + 1, seq_len)"),),
        "boundary_twice",
        "in both",
    ),
    Wrong(
        "the border in neither split",
        ((END, "end = tl.minimum(first + split_len - 1, seq_len)"),),
        "boundary_never",
        "in neither",
    ),
    Wrong("last split too long", ((END, "end = first + split_len"),), "out_of_bounds", ""),
    Wrong(
        "last split up to the capacity",
        ((END, "end = tl.minimum(first + split_len, capacity)"),),
        "tail_counted",
        "past the end of the sequence",
    ),
    Wrong("split ignored", ((FIRST, "first = 0"), (END, "end = seq_len")), "split_ignored", "whole sequence"),
    Wrong(
        "tail dropped",
        ((LOOP, "for start in range(first, end - end % BLOCK_N, BLOCK_N):"),),
        "tail_dropped",
        "left out",
    ),
    # the tail
    Wrong("tail counted", ((MASK, ""),), "tail_counted", "past the end of the sequence"),
    Wrong(
        "read past the end, masked afterwards",
        (
            (LOAD_K, "k = tl.load(k_ptr + kv_offsets).to(tl.float32)"),
            (LOAD_V, "v = tl.load(v_ptr + kv_offsets).to(tl.float32)"),
        ),
        "out_of_bounds",
        "",
    ),
    Wrong(
        "0 times NaN past the end", ((LOAD_V, LOAD_V.replace("< end", "< capacity")),), "slots_behind", "0 times NaN"
    ),
    # splits without keys
    Wrong(
        "a tile in any case",
        ((LOOP, "for start in range(first, tl.maximum(end, first + 1), BLOCK_N):"),),
        "empty_nan",
        "no key",
    ),
    Wrong(
        "m starts at -1e30",
        ((START, "m, l = -1e30, 0.0"), (LSE, LSE.replace("tl.log(l)", "tl.log(l + 1e-30)"))),
        "empty_not_inf",
        "weight",
    ),
    Wrong(
        "0 for an empty split",
        ((LSE, LSE.replace("m + tl.log(l)", "tl.where(l > 0.0, m + tl.log(l), 0.0)")),),
        "empty_not_inf",
        "weight",
    ),
    Wrong(
        "nothing written for an empty split",
        ((LSE, LSE.replace("log(l))", "log(l), mask=end > first)")),),
        "unwritten",
        "partial_lse",
    ),
    # the state
    Wrong("acc not rescaled", ((ACC, ACC.replace("acc * alpha", "acc")),), "o_not_rescaled", "not multiplied"),
    Wrong("l not rescaled", ((L, L.replace("l * alpha", "l")),), "l_not_rescaled", "not multiplied"),
    Wrong("alpha inverted", ((ALPHA, "alpha = tl.exp(m_new - m)"),), "nan_from_the_start", "infinite"),
    Wrong("m not kept", ((M_KEPT, ""),), "old_state_lost", "never kept"),
    Wrong("no maximum", ((M_NEW, "m_new = 0.0 * tl.max(scores, axis=0)"),), "no_max", "+100"),
    Wrong("never divided", ((OUT, OUT.replace(" / l", "")),), "no_division", "never divided"),
    Wrong("weights in half", ((PROBS, PROBS + ".to(tl.float16).to(tl.float32)"),), "low_precision", "Nearly right"),
    Wrong(
        "products in half",
        (
            (LOAD_K, LOAD_K.replace("tl.float32", "tl.float16")),
            (SCORES, SCORES.replace("q[None, :]", "q[None, :].to(tl.float16)")),
        ),
        "low_precision",
        "before you multiply",
    ),
    Wrong("exp2 for the weights", ((PROBS, "probs_unnorm = tl.exp2(scores - m_new)"),), "exp_exp2_mix", "2 to the"),
    # scale, lse, addresses
    Wrong("scale missing", ((SCORES, SCORES.replace(" * softmax_scale", "")),), "scale_missing", "too large"),
    Wrong(
        "lse in base 2",
        ((LSE, LSE.replace("m + tl.log(l)", "(m + tl.log(l)) * 1.4426950408889634")),),
        "lse_base_2",
        "natural",
    ),
    Wrong(
        "lse without the maximum", ((LSE, LSE.replace("m + tl.log(l)", "tl.log(l)")),), "lse_without_max", "m + log(l)"
    ),
    Wrong(
        "heads by modulo",
        ((KV_HEAD, KV_HEAD.replace("head // num_q_per_kv", "head % (num_heads // num_q_per_kv)")),),
        "head_modulo",
        "Neighbouring",
    ),
    Wrong("batch forgotten in k and v", ((KV_HEAD, "kv_head = head // num_q_per_kv"),), "batch_forgotten", "first one"),
    Wrong(
        "heads seq_len rows apart",
        ((OFFSETS, OFFSETS.replace("capacity", "seq_len")),),
        "capacity_ignored",
        "capacity rows",
    ),
    Wrong(
        "head before the split", ((OFFSET, "offset = row * num_splits + split"),), "partials_moved", "split comes first"
    ),
    Wrong("no split in the offset", ((OFFSET, "offset = row"),), "race", ""),
]
