"""Wrong answers to 05.2, each an edit of kernels_cu/attention/04_fused_softmax_warp.cu."""

from course_lib.grading.exercise.submissions import Wrong

VISIBLE = "const int num_visible = causal ? q_row + seq_len_kv - seq_len_q + 1 : seq_len_kv;"
SCALE = "const float softmax_scale_log2 = softmax_scale * LOG2_E;"
LOOP = "for (int key = lane; key < num_visible; key += WARP_SIZE) {"
SCORE = "const float score = scores_row[key] * softmax_scale_log2;"
UPDATE = "l = l * exp2f(m - m_new) + exp2f(score - m_new);"
SCALED = "scores_row[key] * softmax_scale_log2"
START = "float m = NEG_INF;"
LANE = "l = m == NEG_INF ? 0.0f : l * exp2f(m - m_row);"
WRITE = "probs_row[key] = key < num_visible ? exp2f(scores_row[key] * softmax_scale_log2 - m_row) / l : 0.0f;"
WRITE_LOOP = "for (int key = lane; key < seq_len_kv; key += WARP_SIZE) {"
LSE = "lse[row] = l > 0.0f ? (m_row + log2f(l)) * LN_2 : NEG_INF;"


def visible_keys(count):
    return ((VISIBLE, VISIBLE.replace("q_row + seq_len_kv - seq_len_q + 1", count)),)


ANSWERS = [
    # which keys
    Wrong("strictly causal", visible_keys("q_row + seq_len_kv - seq_len_q"), "causal_off_by_one", "own position"),
    Wrong(
        "one key of the future",
        visible_keys("min(q_row + seq_len_kv - seq_len_q + 2, seq_len_kv)"),
        "causal_off_by_one",
        "future",
    ),
    Wrong("top left", visible_keys("min(q_row + 1, seq_len_kv)"), "causal_top_left", "top left"),
    Wrong(
        "offset reversed",
        visible_keys("max(0, min(q_row - seq_len_kv + seq_len_q + 1, seq_len_kv))"),
        "keys_missing",
        "wrong sign",
    ),
    Wrong("mask forgotten", visible_keys("seq_len_kv"), "causal_missing", "future"),
    Wrong("mask always", ((VISIBLE, VISIBLE.replace("causal ?", "causal >= 0 ?")),), "mask_always", "causal = 0"),
    Wrong(
        "one key too many", ((VISIBLE, VISIBLE.replace(": seq_len_kv", ": seq_len_kv + 1")),), "out_of_bounds", "scores"
    ),
    # scale
    Wrong(
        "scale missing",
        ((SCALE, SCALE.replace("softmax_scale * LOG2_E", "LOG2_E")),),
        "scale_missing",
        "4 times too large",
    ),
    Wrong(
        "scale twice",
        ((SCALE, SCALE.replace("* LOG2_E", "* softmax_scale * LOG2_E")),),
        "scale_twice",
        "4 times too small",
    ),
    Wrong(
        "divided by the scale",
        ((SCALE, SCALE.replace("softmax_scale * LOG2_E", "LOG2_E / softmax_scale")),),
        "scale_inverse",
        "divided",
    ),
    Wrong(
        "scale from the warp",
        ((SCALE, SCALE.replace("softmax_scale * LOG2_E", "rsqrtf((float)WARP_SIZE) * LOG2_E")),),
        "scale_wrong",
        "0.1768 instead of 0.25",
    ),
    Wrong("log2(e) forgotten", ((SCALE, SCALE.replace(" * LOG2_E", "")),), "exp_exp2_mix", "2 to the power"),
    # softmax
    Wrong("no division", ((WRITE, WRITE.replace(" / l", "")),), "no_division", "never divided"),
    Wrong(
        "no maximum",
        ((UPDATE, "l += exp2f(score);"), (LANE, "m_row = 0.0f;"), (LSE, "lse[row] = log2f(l) * LN_2;")),
        "no_max",
        "float32",
    ),
    Wrong("maximum starts at 0", ((START, "float m = 0.0f;"),), "m_starts_too_high", ""),
    Wrong("every lane its own maximum", ((LANE, ""),), "l_not_rescaled", "33.66"),
    Wrong("l not rescaled", ((UPDATE, "l = l + exp2f(score - m_new);"),), "l_not_rescaled", "exp(m - m_new)"),
    # rows that see nothing, unwritten weights
    Wrong("masked keys not written", ((WRITE_LOOP, LOOP),), "unwritten", "0 has to be written"),
    Wrong(
        "-1e9 as a mask",
        (
            (LOOP, WRITE_LOOP),
            (SCORE, "const float score = key < num_visible ? scores_row[key] * softmax_scale_log2 : -1e9f;"),
            (
                WRITE,
                f"probs_row[key] = exp2f((key < num_visible ? {SCALED} : -1e9f) - m_row) / l;",
            ),
        ),
        "masked_row",
        "sees no key",
    ),
    Wrong(
        "0 / 0",
        (
            (
                WRITE,
                f"probs_row[key] = (key < num_visible ? exp2f({SCALED} - m_row) : 0.0f) / l;",
            ),
        ),
        "masked_row",
        "0 / 0",
    ),
    Wrong("lse 0 for an empty row", ((LSE, LSE.replace("NEG_INF", "0.0f")),), "masked_row", "must be -inf"),
    # lse
    Wrong("lse in base 2", ((LSE, LSE.replace(" * LN_2", "")),), "lse_base_2", "natural"),
    Wrong("lse without the maximum", ((LSE, LSE.replace("m_row + ", "")),), "lse_without_max", "m has to be added"),
    Wrong(
        "lse with m in base 2",
        ((LSE, LSE.replace("(m_row + log2f(l)) * LN_2", "m_row + logf(l)")),),
        "lse_base_2",
        "log2(e)",
    ),
    Wrong(
        "lse with the raw maximum",
        ((LSE, LSE.replace("(m_row + log2f(l)) * LN_2", "m_row * LN_2 / softmax_scale + logf(l)")),),
        "lse_unscaled",
        "raw",
    ),
]
