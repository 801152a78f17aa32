"""Wrong answers to 10.3, each an edit of answer.cu."""

from course_lib.grading.exercise.submissions import Wrong, one

HEADS = "const int kv_head = head / num_q_per_kv, seq_len = seq_lens[batch];"
TABLE = "const int* pages = block_table + batch * max_pages;"
Q = "const float q_reg = q[row * HEAD_DIM + lane];"
START = "float m = NEG_INF, l = 0.0f, acc = 0.0f;"
LOOP = "for (int key = 0; key < seq_len; ++key) {"
PAGE = "const long long page = pages[key / page_size];"
OFFSET = (
    "const long long offset = page * stride_page + key % page_size * stride_slot + kv_head * stride_kv_head + lane;"
)
SCORE = "const float score = warp_sum(q_reg * k_pages[offset]) * softmax_scale;"
M_NEW = "const float m_new = fmaxf(m, score);"
FACTORS = "const float alpha = exp_shifted(m, m_new), weight = exp_shifted(score, m_new);"
L, ACC = "l = l * alpha + weight;", "acc = acc * alpha + weight * v_pages[offset];"
OUT, LSE = (
    "out[row * HEAD_DIM + lane] = l > 0.0f ? acc / l : 0.0f;",
    "if (lane == 0) lse[row] = l > 0.0f ? m + logf(l) : NEG_INF;",
)


def loop(end):
    """Another end of the walk."""
    return one(LOOP, ("seq_len", end))


ANSWERS = [
    # the table
    Wrong(
        "logical page as physical",
        one(PAGE, ("pages[key / page_size]", "key / page_size")),
        "logical_as_physical",
        "block_table",
    ),
    Wrong(
        "the first page and on from there",
        one(PAGE, ("pages[key / page_size]", "pages[0] + key / page_size")),
        "out_of_bounds",
        "k_pages",
    ),
    Wrong("row b begins at b", one(TABLE, ("batch * max_pages", "batch")), "table_stride", "b * max_pages"),
    Wrong("the table of sequence 0", one(TABLE, (" + batch * max_pages", "")), "another_table", "sequence 0"),
    Wrong(
        "page and slot swapped",
        (
            (PAGE, PAGE.replace("key / page_size", "key % page_size")),
            (OFFSET, OFFSET.replace("key % page_size", "key / page_size")),
        ),
        "out_of_bounds",
        "pages",
    ),
    Wrong(
        "no offset in the page", one(OFFSET, (" + key % page_size * stride_slot", "")), "offset_forgotten", "first slot"
    ),
    Wrong(
        "strides swapped",
        one(OFFSET, ("stride_page", "S"), ("stride_slot", "stride_page"), ("S", "stride_slot")),
        "strides_swapped",
        "are swapped",
    ),
    # lengths
    Wrong("last page in full", loop("CEIL_DIV(seq_len, page_size) * page_size"), "last_page_in_full", "past token"),
    Wrong("last page dropped", loop("seq_len / page_size * page_size"), "last_page_dropped", "not full"),
    Wrong("the whole table", loop("max_pages * page_size"), "out_of_bounds", "k_pages"),
    Wrong("one token too many", loop("seq_len + 1"), "one_token_too_many", "past token"),
    Wrong("one token too few", loop("seq_len - 1"), "last_token_missing", "last token"),
    Wrong("the length of sequence 0", one(HEADS, ("seq_lens[batch]", "seq_lens[0]")), "another_length", "seq_lens[0]"),
    Wrong("the first page alone", loop("min(seq_len, page_size)"), "first_page_alone", "first page"),
    # heads and layouts
    Wrong(
        "head by modulo",
        one(HEADS, ("head / num_q_per_kv", "head % (gridDim.x / num_q_per_kv)")),
        "head_modulo",
        "num_kv_heads",
    ),
    Wrong("query head as kv head", one(HEADS, ("head / num_q_per_kv", "head")), "out_of_bounds", "pages"),
    Wrong("always head 0", one(OFFSET, (" + kv_head * stride_kv_head", "")), "head_forgotten", "first head"),
    Wrong(
        "NHD taken for granted", one(OFFSET, ("kv_head * stride_kv_head", "kv_head * HEAD_DIM")), "layout", "strides"
    ),
    Wrong(
        "k and v swapped",
        ((SCORE, SCORE.replace("k_pages", "v_pages")), (ACC, ACC.replace("v_pages", "k_pages"))),
        "k_v_swapped",
        "taken of k",
    ),
    Wrong("k for v", one(ACC, ("v_pages", "k_pages")), "k_v_swapped", "taken of k"),
    Wrong(
        "k by logical page",
        one(SCORE, ("[offset]", "[offset - page * stride_page + key / page_size * stride_page]")),
        "k_from_another_slot",
        "those of k do not",
    ),
    Wrong("q of sequence 0", one(Q, ("row", "head")), "another_query", "sequence 0"),
    # the softmax
    Wrong("no scale", one(SCORE, (" * softmax_scale", "")), "scale_missing", "too large"),
    Wrong(
        "the lane's product alone",
        one(SCORE, ("warp_sum(q_reg * k_pages[offset])", "q_reg * k_pages[offset]")),
        "score_not_summed",
        "sum of 32",
    ),
    Wrong("acc not rescaled", one(ACC, ("acc * alpha", "acc")), "o_not_rescaled", "not multiplied"),
    Wrong("l not rescaled", one(L, ("l * alpha", "l")), "l_not_rescaled", "not multiplied"),
    Wrong(
        "each lane its own part of l",
        one(L, ("+ weight", "+ (key % WARP_SIZE == lane ? weight : 0.0f)")),
        "lanes_disagree",
        "not to a lane",
    ),
    Wrong("m starts at 0", one(START, ("m = NEG_INF", "m = 0.0f")), "m_starts_too_high", "-100"),
    Wrong("no maximum", one(M_NEW, ("fmaxf(m, score)", "0.0f")), "no_max", "+100"),
    Wrong("exp2", one(FACTORS, ("exp_shifted(score, m_new)", "exp2f(score - m_new)")), "exp_exp2_mix", "exp2"),
    Wrong("never divided", one(OUT, ("acc / l", "acc")), "no_division", "plain sum"),
    Wrong("0 / 0", one(OUT, ("l > 0.0f ? acc / l : 0.0f", "acc / l")), "empty_sequence", "no token"),
    Wrong("lse in base 2", one(LSE, ("logf", "log2f")), "lse_base_2", "natural"),
    Wrong("lse without m", one(LSE, ("m + ", "")), "lse_without_max", ""),
]
