"""Wrong answers to 09.6, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

HEADS = "heads = kv_head * num_q_per_kv + rows"
Q_MASK = "rows[:, None] < num_q_per_kv  # (ROWS, HEAD_DIM), (ROWS, 1)"
LOAD_Q = "q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)"
START = 'm, l = tl.full((ROWS,), -float("inf"), tl.float32), tl.zeros((ROWS,), tl.float32)'
LOOP = "for start in range(0, seq_len, BLOCK_N):"
OFFSETS = "kv_offsets = (kv_head * capacity + keys[:, None]) * HEAD_DIM + d"
LOAD_K = "k = tl.load(k_ptr + kv_offsets, mask=keys[:, None] < seq_len, other=0.0)"
LOAD_V = "v = tl.load(v_ptr + kv_offsets, mask=keys[:, None] < seq_len, other=0.0)"
SCORES = "scores = tl.dot(q, tl.trans(k)) * softmax_scale"
MASK = 'scores = tl.where(keys[None, :] < seq_len, scores, -float("inf"))'
M_NEW = "m_new = tl.maximum(m, tl.max(scores, axis=1))"
PROBS = "probs_unnorm = tl.exp(scores - m_new[:, None])"
ALPHA = "alpha = tl.exp(m - m_new)"
L = "l = l * alpha + tl.sum(probs_unnorm, axis=1)"
ACC = "acc = acc * alpha[:, None] + tl.dot(probs_unnorm.to(v.dtype), v)"
M_KEPT = "        m = m_new\n"
SAFE = "l_safe = tl.where(l > 0.0, l, 1.0)"
OUT = "tl.store(out_ptr + q_offsets, (acc / l_safe[:, None]).to(out_ptr.dtype.element_ty), mask=q_mask)"
LSE = "tl.store(lse_ptr + heads, m + tl.log(l_safe), mask=rows < num_q_per_kv)"


def for_each_head(line):
    return f"for _ in range(num_q_per_kv):\n            {line}"


ANSWERS = [
    # the group
    Wrong(
        "k and v once a query head",
        ((LOAD_K, for_each_head(LOAD_K)), (LOAD_V, for_each_head(LOAD_V))),
        "kv_read_again",
        "rows of one product",
    ),
    Wrong("v once a query head", ((LOAD_V, for_each_head(LOAD_V)),), "kv_read_again", "once"),
    Wrong(
        "heads by modulo",
        (
            (
                HEADS,
                "heads = (tl.program_id(1) * num_q_per_kv + rows) * tl.num_programs(0) + tl.program_id(0)",
            ),
        ),
        "head_modulo",
        "Neighbouring",
    ),
    Wrong("groups 16 heads apart", ((HEADS, "heads = kv_head * ROWS + rows"),), "out_of_bounds", ""),
    Wrong("group forgotten", ((HEADS, "heads = kv_head + rows"),), "race", ""),
    Wrong("padding rows read", ((LOAD_Q, "q = tl.load(q_ptr + q_offsets)"),), "out_of_bounds", ""),
    Wrong("padding rows stored", ((OUT, OUT.replace(", mask=q_mask", "")),), "out_of_bounds", ""),
    Wrong("one head a group", ((Q_MASK, Q_MASK.replace("num_q_per_kv", "1", 1)),), "unwritten", "never written"),
    Wrong(
        "one maximum for the group",
        ((M_NEW, "m_new = tl.maximum(m, tl.max(scores))"),),
        "max_of_the_group",
        "of its own",
    ),
    Wrong("sum over the group", ((L, L.replace("axis=1", "axis=0")),), "weights_sum", "add up to 1"),
    # the tail
    Wrong("tail counted", ((MASK, ""),), "tail_counted", "whole tiles"),
    Wrong(
        "tail dropped",
        ((LOOP, "for start in range(0, seq_len // BLOCK_N * BLOCK_N, BLOCK_N):"),),
        "tail_dropped",
        "not full",
    ),
    Wrong(
        "the first tile alone",
        ((LOOP, "for start in range(0, tl.minimum(seq_len, 1), BLOCK_N):"),),
        "one_tile",
        "first tile",
    ),
    Wrong(
        "0 times NaN past the end",
        ((LOAD_V, LOAD_V.replace("< seq_len", "< capacity")),),
        "slots_behind",
        "0 times NaN",
    ),
    Wrong(
        "capacity for the length",
        (
            (LOOP, LOOP.replace("seq_len", "capacity")),
            (LOAD_K, LOAD_K.replace("seq_len", "capacity")),
            (LOAD_V, LOAD_V.replace("seq_len", "capacity")),
            (MASK, MASK.replace("seq_len", "capacity")),
        ),
        "slots_counted",
        "unused slots",
    ),
    Wrong(
        "heads seq_len rows apart",
        ((OFFSETS, OFFSETS.replace("capacity", "seq_len")),),
        "capacity_ignored",
        "capacity rows",
    ),
    # the state
    Wrong("acc not rescaled", ((ACC, ACC.replace("acc * alpha[:, None]", "acc")),), "o_not_rescaled", "not multiplied"),
    Wrong("l not rescaled", ((L, L.replace("l * alpha", "l")),), "l_not_rescaled", "not multiplied"),
    Wrong("alpha inverted", ((ALPHA, "alpha = tl.exp(m_new - m)"),), "nan_from_the_start", "infinite"),
    Wrong("m not kept", ((M_KEPT, ""),), "old_state_lost", "never kept"),
    Wrong(
        "m starts at 0",
        ((START, START.replace('tl.full((ROWS,), -float("inf"), tl.float32)', "tl.zeros((ROWS,), tl.float32)")),),
        "m_starts_too_high",
        "-100",
    ),
    Wrong("no maximum", ((M_NEW, "m_new = tl.zeros((ROWS,), tl.float32)"),), "no_max", "+100"),
    Wrong(
        "acc in half", ((ACC, ACC.replace("acc = ", "acc = (") + ").to(tl.float16)"),), "half_accumulator", "float32"
    ),
    Wrong("never divided", ((OUT, OUT.replace(" / l_safe[:, None]", "")),), "no_division", "never divided"),
    Wrong("0 / 0", ((SAFE, "l_safe = l"),), "no_key", "0 / 0"),
    # scale, weights, lse
    Wrong("scale missing", ((SCORES, SCORES.replace(" * softmax_scale", "")),), "scale_missing", "too large"),
    Wrong("scale of the tile", ((SCORES, SCORES.replace("softmax_scale", "ROWS**-0.5")),), "scale_wrong", "0.25"),
    Wrong("weights with exp2", ((PROBS, PROBS.replace("exp(", "exp2(")),), "exp_exp2_mix", "2 to the"),
    Wrong(
        "lse in base 2",
        ((LSE, LSE.replace("m + tl.log(l_safe)", "(m + tl.log(l_safe)) * 1.4426950408889634")),),
        "lse_base_2",
        "natural",
    ),
    Wrong(
        "lse without the maximum",
        ((LSE, LSE.replace("m + tl.log(l_safe)", "tl.log(l_safe)")),),
        "lse_without_max",
        "m + log(l)",
    ),
    Wrong("lse of row 0 alone", ((LSE, LSE.replace("rows < num_q_per_kv", "rows < 1")),), "unwritten", "lse"),
    Wrong("k in place of v", ((LOAD_V, LOAD_V.replace("v_ptr", "k_ptr")),), "k_v_swapped", "rows of v"),
]
