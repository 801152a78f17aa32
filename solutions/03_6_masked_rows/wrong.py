"""Wrong answers to 03.6, each an edit of kernels_cu/softmax/05_masked.cu."""

from course_lib.grading.exercise.submissions import Wrong

VISIBLE = "const int num_visible = q_row + seq_lens_kv[batch] - seq_len_q + 1;"
START_M = "float m = NEG_INF;"
UPDATE_LOOP = (
    "for (int col = lane; col < num_visible; col += WARP_SIZE) {\n        const float score = scores_row[col];"
)
UPDATE_M = "const float m_new = fmaxf(m, score);"
UPDATE_L = "l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);"
MERGE_L = "l = l * exp_shifted(m, m_new) + l_other * exp_shifted(m_other, m_new);"
WRITE_LOOP = "for (int col = lane; col < seq_len_kv; col += WARP_SIZE)"
WRITE = "out_row[col] = col < num_visible ? exp_shifted(scores_row[col], m) * inv_l : 0.0f;"
INVERSE = "const float inv_l = l > 0.0f ? 1.0f / l : 0.0f;"
LSE = "lse[row] = l > 0.0f ? m + logf(l) : NEG_INF;"
ROW = "const size_t row = (size_t)batch * seq_len_q + q_row;"


def all_keys(score):
    """The update loop over every key, with `score` for what a row may not see."""
    return UPDATE_LOOP, WRITE_LOOP + " {\n        const float score = " + score + ";"


ANSWERS = [
    # which keys
    Wrong("strictly causal", ((VISIBLE, VISIBLE.replace(" + 1", "")),), "causal_off_by_one", "row's own position"),
    Wrong(
        "one key of the future",
        ((VISIBLE, "const int num_visible = min(q_row + seq_lens_kv[batch] - seq_len_q + 2, seq_len_kv);"),),
        "causal_off_by_one",
        "future",
    ),
    Wrong(
        "top left",
        ((VISIBLE, "const int num_visible = min(q_row + 1, seq_lens_kv[batch]);"),),
        "causal_top_left",
        "top left",
    ),
    Wrong(
        "length ignored",
        ((VISIBLE, VISIBLE.replace("seq_lens_kv[batch]", "seq_len_kv")),),
        "length_ignored",
        "seq_lens_kv[b]",
    ),
    Wrong(
        "length of the first entry",
        ((VISIBLE, VISIBLE.replace("[batch]", "[0]")),),
        "length_of_another",
        "batch entry 0",
    ),
    Wrong("not causal", ((VISIBLE, "const int num_visible = seq_lens_kv[batch];"),), "causal_missing", "future"),
    Wrong("no mask", ((VISIBLE, "const int num_visible = seq_len_kv;"),), "mask_missing", "every key"),
    Wrong(
        "causal offset reversed",
        ((VISIBLE, "const int num_visible = min(q_row - seq_lens_kv[batch] + seq_len_q + 1, seq_len_kv);"),),
        "wrong_keys",
        "it may see",
    ),
    Wrong("reads past the row", ((VISIBLE, VISIBLE.replace("+ 1", "+ 33")),), "out_of_bounds", "scores"),
    # what a mask does
    Wrong(
        "-1e9 for masked scores",
        (
            all_keys("col < num_visible ? scores_row[col] : -1e9f"),
            (WRITE, "out_row[col] = exp_shifted(col < num_visible ? scores_row[col] : -1e9f, m) * inv_l;"),
        ),
        "masked_row",
        "sees no key",
    ),
    Wrong("mask added", (all_keys("scores_row[col] + (col < num_visible ? 0.0f : NEG_INF)"),), "reads_masked", "NaN"),
    Wrong(
        "mask multiplied",
        ((WRITE, "out_row[col] = exp_shifted(scores_row[col], m) * inv_l * (col < num_visible);"),),
        "reads_masked",
        "NaN",
    ),
    Wrong(
        "masked part not written",
        ((WRITE_LOOP, WRITE_LOOP.replace("seq_len_kv", "num_visible")),),
        "unwritten",
        "never written",
    ),
    Wrong(
        "0 / 0",
        (
            (INVERSE, "const float inv_l = 1.0f / l;"),
            (WRITE, WRITE.replace("exp_shifted(scores_row[col], m)", "expf(scores_row[col] - m)")),
        ),
        "masked_row",
        "-inf",
    ),
    Wrong("lse 0 for an empty row", ((LSE, LSE.replace("NEG_INF", "0.0f")),), "masked_row", "lse must be -inf"),
    Wrong(
        "empty rows return early",
        ((VISIBLE, VISIBLE + "\n    if (num_visible <= 0) return;"),),
        "unwritten",
        "never written",
    ),
    # numerics
    Wrong("no maximum", ((START_M, "float m = 0.0f;"), (UPDATE_M, "const float m_new = m;")), "no_max", "+100"),
    Wrong("m starts at 0", ((START_M, "float m = 0.0f;"),), "m_starts_too_high", "-100"),
    Wrong("l not rescaled", ((UPDATE_L, "l += exp_shifted(score, m_new);"),), "l_not_rescaled", "(between strides)"),
    Wrong("l not rescaled in the merge", ((MERGE_L, "l += l_other;"),), "l_not_rescaled", "(between lanes)"),
    Wrong("-inf minus -inf", ((UPDATE_L, "l = l * expf(m - m_new) + expf(score - m_new);"),), "inf_minus_inf", "-inf"),
    Wrong("lse in base 2", ((LSE, LSE.replace("logf", "log2f")),), "lse_base_2", "natural"),
    Wrong("lse without the maximum", ((LSE, LSE.replace("m + logf(l)", "logf(l)")),), "lse_without_max", "m + log(l)"),
    Wrong("no division", ((INVERSE, "const float inv_l = 1.0f;"),), "no_division", "division"),
    # rows and lanes
    Wrong("batch forgotten", ((ROW, "const size_t row = q_row;"),), "race", ""),
    Wrong("batch stride of one row", ((ROW, "const size_t row = batch + q_row;"),), "race", ""),
    Wrong("lse not stored", ((LSE, ""),), "unwritten", "lse"),
    Wrong("zeros", ((WRITE, "out_row[col] = 0.0f;"), (LSE, "lse[row] = 0.0f;")), "all_zeros", ""),
]
