"""Wrong answers to 10.4, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong, one

SEQ_LEN = "seq_len = tl.load(seq_lens_ptr + batch)"
KV_OFFSET = "kv_offset = (head // num_q_per_kv).to(tl.int64) * stride_kv_head"
Q = "q = tl.load(q_ptr + row * HEAD_DIM + d)"
LOOP = "for i in range(0, tl.cdiv(seq_len, PAGE_SIZE)):"
PAGE = "page = tl.load(block_table_ptr + batch * max_pages + i).to(tl.int64)"
MASK = "mask = i * PAGE_SIZE + slots < seq_len"
OFFSETS = "offsets = page * stride_page + kv_offset + slots[:, None] * stride_slot + d[None, :]"
K = "k = tl.load(k_pages_ptr + offsets, mask=mask[:, None], other=0.0)"
V = "v = tl.load(v_pages_ptr + offsets, mask=mask[:, None], other=0.0)"
SCORES = 'scores = tl.where(mask, tl.sum(q[None, :] * k, axis=1) * softmax_scale, -float("inf"))'
M_NEW = "m_new = tl.maximum(m, tl.max(scores, axis=0))"
ALPHA, PROBS = "alpha = tl.exp(m - m_new)", "probs_unnorm = tl.exp(scores - m_new)"
L = "l = l * alpha + tl.sum(probs_unnorm, axis=0)"
ACC = "acc = acc * alpha + tl.sum(probs_unnorm[:, None] * v, axis=0)"
OUT, LSE = "tl.store(out_ptr + row * HEAD_DIM + d, acc / l_safe)", "tl.store(lse_ptr + row, m + tl.log(l_safe))"
L_SAFE = "l_safe = tl.where(l > 0.0, l, 1.0)"


ANSWERS = [
    # the last page
    Wrong("last page in full", one(MASK, ("< seq_len", ">= 0")), "last_page_in_full", "past token"),
    Wrong(
        "last page dropped",
        one(LOOP, ("tl.cdiv(seq_len, PAGE_SIZE)", "seq_len // PAGE_SIZE")),
        "last_page_dropped",
        "not full",
    ),
    Wrong(
        "a page too many",
        one(LOOP, ("tl.cdiv(seq_len, PAGE_SIZE)", "seq_len // PAGE_SIZE + 1")),
        "empty_sequence",
        "no token",
    ),
    Wrong("v without a mask", one(V, (", mask=mask[:, None], other=0.0", "")), "nan_from_unused_slots", "0 times NaN"),
    Wrong("v without other", one(V, (", other=0.0", "")), "undefined_places", "other=0.0"),
    Wrong(
        "scores not masked",
        one(SCORES, ("tl.where(mask, ", ""), (', -float("inf"))', "")),
        "tail_counted",
        "past the end",
    ),
    Wrong("scores masked with 0", one(SCORES, ('-float("inf")', "0.0")), "tail_counted", "-inf, not 0"),
    Wrong(
        "k without a mask, -inf added",
        (
            (K, K.replace(", mask=mask[:, None], other=0.0", "")),
            (SCORES, 'scores = tl.sum(q[None, :] * k, axis=1) * softmax_scale + tl.where(mask, 0.0, -float("inf"))'),
        ),
        "nan_from_unused_slots",
        "NaN plus -inf",
    ),
    Wrong("one slot too many", one(MASK, ("< seq_len", "<= seq_len")), "one_token_too_many", "past token"),
    Wrong("one slot too few", one(MASK, ("< seq_len", "< seq_len - 1")), "last_token_missing", "last token"),
    Wrong(
        "mask of the first page",
        one(MASK, ("i * PAGE_SIZE + slots", "slots")),
        "mask_in_page",
        "compared with seq_len",
    ),
    # the table
    Wrong(
        "logical page as physical",
        one(PAGE, ("tl.load(block_table_ptr + batch * max_pages + i)", "(i + tl.zeros((), tl.int32))")),
        "logical_as_physical",
        "block_table",
    ),
    Wrong("row b begins at b", one(PAGE, ("batch * max_pages", "batch")), "table_stride", "b * max_pages"),
    Wrong("the table of sequence 0", one(PAGE, (" + batch * max_pages", "")), "another_table", "sequence 0"),
    Wrong("the length of sequence 0", one(SEQ_LEN, (" + batch", "")), "another_length", "seq_lens[0]"),
    Wrong("the whole table", one(LOOP, ("tl.cdiv(seq_len, PAGE_SIZE)", "max_pages")), "empty_sequence", "no token"),
    Wrong(
        "rows of a head taken as contiguous",
        one(OFFSETS, ("slots[:, None] * stride_slot", "slots[:, None] * HEAD_DIM")),
        "heads_mixed",
        "stride_slot",
    ),
    # heads, softmax
    Wrong(
        "head by modulo",
        one(KV_OFFSET, ("head // num_q_per_kv", "head % (tl.num_programs(0) // num_q_per_kv)")),
        "head_modulo",
        "num_kv_heads",
    ),
    Wrong("q of sequence 0", one(Q, ("row", "head")), "another_query", "sequence 0"),
    Wrong("k for v", one(V, ("v_pages_ptr", "k_pages_ptr")), "k_v_swapped", "taken of k"),
    Wrong("no scale", one(SCORES, (" * softmax_scale", "")), "scale_missing", "too large"),
    Wrong("acc not rescaled", one(ACC, ("acc * alpha", "acc")), "o_not_rescaled", "not multiplied"),
    Wrong(
        "maximum of the page",
        one(M_NEW, ("tl.maximum(m, tl.max(scores, axis=0))", "tl.max(scores, axis=0)")),
        "tile_local_max",
        "never fall",
    ),
    Wrong("exp2", one(PROBS, ("tl.exp(", "tl.exp2(")), "exp_exp2_mix", "exp2"),
    Wrong("0 / 0", one(L_SAFE, ("tl.where(l > 0.0, l, 1.0)", "l")), "empty_sequence", "no token"),
    Wrong("never divided", one(OUT, (" / l_safe", "")), "no_division", "plain sum"),
    Wrong("lse in base 2", one(LSE, ("tl.log(", "tl.log2(")), "lse_base_2", "natural"),
]
