"""Wrong answers to 09.2, each an edit of answer.cu."""

from course_lib.grading.exercise.submissions import Wrong

KV_HEAD = "const size_t kv_head = batch * (gridDim.y / num_q_per_kv) + head / num_q_per_kv;"
K_ROWS = "(k + kv_head * capacity * HEAD_DIM);"
V_ROWS = "(v + kv_head * capacity * HEAD_DIM);"
RANGE = "const int first = split * split_len, end = min(first + split_len, seq_len_kv);"
LOOP = "for (int key = first; key < end; ++key) {"
SCORE = "const float score = warp_sum(q_reg.x * k_reg.x + q_reg.y * k_reg.y) * softmax_scale;"
M_NEW = "const float m_new = fmaxf(m, score);"
ALPHA = "const float alpha = exp_shifted(m, m_new), weight = exp_shifted(score, m_new);"
L = "l = l * alpha + weight;"
ACC_X = "acc.x = acc.x * alpha + weight * v_reg.x;"
ACC_Y = "acc.y = acc.y * alpha + weight * v_reg.y;"
M_KEPT = "        m = m_new;\n"
OFFSET = "const size_t offset = split * num_rows + row;"
OUT = "make_float2(acc.x / l, acc.y / l);"
LSE = "if (lane == 0) partial_lse[offset] = m + logf(l);"


def both(line, other, find, replace):
    """The same edit in two lines."""
    return ((line, line.replace(find, replace)), (other, other.replace(find, replace)))


ANSWERS = [
    # which keys
    Wrong(
        "the border in both splits",
        ((LOOP, LOOP.replace("key < end", "key <= min(end, seq_len_kv - 1)")),),
        "boundary_twice",
        "in both",
    ),
    Wrong(
        "the border in neither split",
        ((LOOP, LOOP.replace("key < end", "key < end - (end < seq_len_kv)")),),
        "boundary_never",
        "in neither",
    ),
    Wrong(
        "last split as long as the others",
        ((RANGE, "const int first = split * split_len, end = first + split_len;"),),
        "out_of_bounds",
        "",
    ),
    Wrong(
        "last split up to the capacity",
        ((RANGE, RANGE.replace("seq_len_kv)", "capacity)")),),
        "tail_counted",
        "shorter",
    ),
    Wrong(
        "split that is not full left out",
        ((LOOP, LOOP.replace("key < end", "first + split_len <= seq_len_kv && key < end")),),
        "tail_dropped",
        "left out",
    ),
    Wrong("split ignored", ((RANGE, "const int first = 0, end = seq_len_kv;"),), "split_ignored", "whole sequence"),
    Wrong("start forgotten", ((LOOP, LOOP.replace("key = first", "key = 0")),), "start_forgotten", "key 0"),
    Wrong(
        "every num_splits-th key",
        ((LOOP, "for (int key = split; key < seq_len_kv; key += gridDim.x) {"),),
        "wrong_keys",
        "14 keys",
    ),
    # lanes
    Wrong("score of a lane", ((SCORE, SCORE.replace("warp_sum(", "(")),), "lanes_disagree", "every lane"),
    Wrong(
        "shuffle down, and only lane 0 knows",
        (
            (
                SCORE,
                """float score = q_reg.x * k_reg.x + q_reg.y * k_reg.y;
        for (int offset = 16; offset > 0; offset /= 2) score += __shfl_down_sync(ALL_LANES, score, offset);
        score *= softmax_scale;""",
            ),
        ),
        "lanes_disagree",
        "every lane",
    ),
    # the state
    Wrong("acc not rescaled", both(ACC_X, ACC_Y, " * alpha", ""), "o_not_rescaled", "not multiplied"),
    Wrong("l not rescaled", ((L, "l = l + weight;"),), "l_not_rescaled", "not multiplied"),
    Wrong(
        "alpha inverted",
        ((ALPHA, ALPHA.replace("exp_shifted(m, m_new)", "expf(m_new - m)")),),
        "nan_from_the_start",
        "infinite",
    ),
    Wrong(
        "alpha with exp2",
        ((ALPHA, ALPHA.replace("exp_shifted(m, m_new)", "exp2f(m - m_new)")),),
        "exp_exp2_mix",
        "2 to the -1",
    ),
    Wrong("m not kept", ((M_KEPT, ""),), "old_state_lost", "is m kept"),
    Wrong("l not added up", ((L, "l = weight;"),), "l_not_summed", "last weight alone"),
    Wrong("no maximum", ((M_NEW, "const float m_new = 0.0f;"),), "no_max", "+100"),
    Wrong("never divided", both(OUT, OUT, " / l", "")[:1], "no_division", "never divided"),
    Wrong(
        "sums in half",
        (
            (L, L + " l = __half2float(__float2half(l));"),
            (ACC_X, ACC_X + " acc.x = __half2float(__float2half(acc.x));"),
        ),
        "low_precision",
        "Nearly",
    ),
    # the scale, lse
    Wrong("scale missing", ((SCORE, SCORE.replace(" * softmax_scale", "")),), "scale_missing", "too large"),
    Wrong(
        "scale twice",
        ((SCORE, SCORE.replace("softmax_scale", "softmax_scale * softmax_scale")),),
        "scale_twice",
        "only once",
    ),
    Wrong("lse in base 2", ((LSE, LSE.replace("m + logf(l)", "m * LOG2_E + log2f(l)")),), "lse_base_2", "natural"),
    Wrong("lse without the maximum", ((LSE, LSE.replace("m + logf(l)", "logf(l)")),), "lse_without_max", "m + log(l)"),
    Wrong("l in place of lse", ((LSE, LSE.replace("m + logf(l)", "l")),), "lse_without_log", "logarithm is missing"),
    Wrong(
        "rows of v one column apart",
        (
            (
                "const float2 v_reg = __half22float2(v_rows[(size_t)key * WARP_SIZE + lane]);",
                "const float2 v_reg = __half22float2(v_rows[(size_t)key + lane]);",
            ),
        ),
        "rows_of_v",
        "address of v",
    ),
    # addresses
    Wrong(
        "heads by modulo",
        ((KV_HEAD, KV_HEAD.replace("head / num_q_per_kv", "head % (gridDim.y / num_q_per_kv)")),),
        "head_modulo",
        "Neighbouring",
    ),
    Wrong(
        "batch forgotten in k and v",
        ((KV_HEAD, "const size_t kv_head = head / num_q_per_kv;"),),
        "batch_forgotten",
        "first one",
    ),
    Wrong(
        "heads seq_len_kv rows apart",
        both(K_ROWS, V_ROWS, "capacity", "seq_len_kv"),
        "capacity_ignored",
        "capacity rows",
    ),
    Wrong(
        "head before the split",
        ((OFFSET, "const size_t offset = row * gridDim.x + split;"),),
        "partials_moved",
        "split comes first",
    ),
    Wrong("no split in the offset", ((OFFSET, "const size_t offset = row;"),), "race", "partial"),
    Wrong("k in place of v", ((V_ROWS, V_ROWS.replace("(v +", "(k +")),), "k_v_swapped", "rows of v"),
]
