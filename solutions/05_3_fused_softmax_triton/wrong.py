"""Wrong answers to 05.3, each an edit of scale_mask_softmax_tile_kernel in course_lib/triton_kernels/attention.py."""

from course_lib.grading.exercise.submissions import Wrong

VISIBLE = "num_visible = tl.where(causal != 0, q_row + seq_len_kv - seq_len_q + 1, seq_len_kv)"
FIRST = "for start in range(0, num_visible, BLOCK_N):"
HIDE = 'scores = tl.where(keys < num_visible, scores, -float("inf"))'
SUM = "l = l * tl.exp(m - m_new) + tl.sum(tl.exp(scores - m_new), axis=0)"
MAX = "m_new = tl.maximum(m, tl.max(scores, axis=0))"
PROBS = "probs = tl.where(keys < num_visible, tl.exp(scores - m) / l_safe, 0.0)"
SAFE = "l_safe = tl.where(l > 0.0, l, 1.0)"
LSE = "tl.store(lse_ptr + row, m + tl.log(l_safe))"
FIRST_LOAD = "other=0.0) * softmax_scale\n        scores = tl.where"
SECOND_LOAD = "other=0.0) * softmax_scale\n        probs ="
STORE = "tl.store(probs_ptr + row * seq_len_kv + keys, probs, mask=keys < seq_len_kv)"


def visible_keys(count):
    return ((VISIBLE, VISIBLE.replace("q_row + seq_len_kv - seq_len_q + 1", count)),)


def scaled(factor):
    return tuple((load, load.replace(" * softmax_scale", factor)) for load in (FIRST_LOAD, SECOND_LOAD))


ANSWERS = [
    Wrong("strictly causal", visible_keys("q_row + seq_len_kv - seq_len_q"), "causal_off_by_one", "own position"),
    Wrong(
        "one key of the future",
        visible_keys("tl.minimum(q_row + seq_len_kv - seq_len_q + 2, seq_len_kv)"),
        "causal_off_by_one",
        "future",
    ),
    Wrong("top left", visible_keys("tl.minimum(q_row + 1, seq_len_kv)"), "causal_top_left", "top left"),
    Wrong("mask forgotten", visible_keys("seq_len_kv"), "causal_missing", "future"),
    Wrong("mask always", ((VISIBLE, "num_visible = q_row + seq_len_kv - seq_len_q + 1"),), "mask_always", "causal = 0"),
    Wrong("scale missing", scaled(""), "scale_missing", "4 times too large"),
    Wrong("scale twice", scaled(" * softmax_scale * softmax_scale"), "scale_twice", "4 times too small"),
    Wrong("scale from the tile", scaled(" * BLOCK_N**-0.5"), "scale_wrong", "0.1768 instead of 0.25"),
    Wrong(
        "scale forgotten the second time",
        ((SECOND_LOAD, SECOND_LOAD.replace(" * softmax_scale", "")),),
        "scale_missing",
        "4 times too large",
    ),
    Wrong(
        "exp2 for exp",
        ((SUM, SUM.replace("tl.exp(", "tl.exp2(")), (PROBS, PROBS.replace("tl.exp(", "tl.exp2("))),
        "exp_exp2_mix",
        "2 to the power",
    ),
    Wrong("tail counted", ((HIDE, ""),), "tail_counted", "saw 32 keys"),
    Wrong(
        "last tile dropped",
        ((FIRST, "for start in range(0, num_visible - BLOCK_N + 1, BLOCK_N):"),),
        "keys_missing",
        "not full",
    ),
    Wrong("l not rescaled", ((SUM, SUM.replace("l * tl.exp(m - m_new)", "l")),), "l_not_rescaled", "53.89"),
    Wrong("maximum of the tile", ((MAX, "m_new = tl.max(scores, axis=0)"),), "tile_local_max", "never fall"),
    Wrong("no division", ((PROBS, PROBS.replace(" / l_safe", "")),), "no_division", "never divided"),
    Wrong(
        "0 / 0",
        ((SAFE, "l_safe = l"), (PROBS, "probs = tl.where(keys < num_visible, tl.exp(scores - m), 0.0) / l_safe")),
        "masked_row",
        "0 / 0",
    ),
    Wrong(
        "masked keys not written",
        ((STORE, STORE.replace("mask=keys < seq_len_kv", "mask=keys < num_visible")),),
        "unwritten",
        "0 has to be written",
    ),
    Wrong(
        "lse without the maximum",
        ((LSE, "tl.store(lse_ptr + row, tl.log(l))"),),
        "lse_without_max",
        "m has to be added",
    ),
    Wrong("lse in base 2", ((LSE, LSE.replace("tl.log(", "tl.log2(")),), "lse_base_2", "natural"),
    Wrong(
        "lse 0 for an empty row",
        ((LSE, "tl.store(lse_ptr + row, tl.where(l > 0.0, m + tl.log(l_safe), 0.0))"),),
        "masked_row",
        "must be -inf",
    ),
    Wrong("lse of the maximum alone", ((LSE, "tl.store(lse_ptr + row, m)"),), "lse_without_sum", "m alone"),
]
