"""Wrong answers to 06.4, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

FIRST = "first_row = tl.where(kv_start > 0, tl.maximum(kv_start - offset, 0), 0)"
VISIBLE = "visible = (keys[None, :] < seq_len_kv) & (keys[None, :] <= rows[:, None] + offset)"
FLOOR = "range(first_row // BLOCK_M * BLOCK_M, seq_len_q, BLOCK_M)"

ANSWERS = [
    Wrong("strictly causal", ((VISIBLE, VISIBLE.replace("<= rows", "< rows")),), "causal_off_by_one", "one too few"),
    Wrong(
        "one key of the future",
        ((VISIBLE, VISIBLE.replace("+ offset", "+ offset + 1")),),
        "causal_off_by_one",
        "future",
    ),
    Wrong(
        "top left",
        ((VISIBLE, VISIBLE.replace(" + offset", "")), (FIRST, FIRST.replace(" - offset", ""))),
        "causal_top_left",
        "top left",
    ),
    Wrong(
        "not causal",
        ((VISIBLE, "visible = keys[None, :] < seq_len_kv"), (FIRST, "first_row = 0")),
        "causal_missing",
        "future",
    ),
    Wrong(
        "tail counted",
        ((VISIBLE, "visible = (keys[None, :] <= rows[:, None] + offset) | (keys[None, :] >= seq_len_kv)"),),
        "tail_counted",
        "",
    ),
    Wrong(
        "a tile skipped too early",
        ((FLOOR, "range((first_row + BLOCK_M - 1) // BLOCK_M * BLOCK_M, seq_len_q, BLOCK_M)"),),
        "tile_skipped",
        "round",
    ),
    Wrong(
        "a tile skipped a whole tile too early",
        ((FIRST, FIRST.replace("kv_start - offset, 0)", "kv_start - offset + BLOCK_M, 0)")),),
        "tile_skipped",
        "row 3 may see 17 keys and saw 16",
    ),
    Wrong(
        "0 * NaN from V beyond the end",
        (("tl.load(v_ptr + kv_offsets, mask=kv_mask, other=0.0)", "tl.load(v_ptr + kv_offsets, mask=kv_mask)"),),
        "nan_from_the_tail",
        "Load 0 there",
    ),
    Wrong(
        "heads by modulo",
        (("+ tl.program_id(0) // num_q_per_kv\n", "+ tl.program_id(0) % (num_heads // num_q_per_kv)\n"),),
        "gqa_modulo",
        "h % 2",
    ),
    Wrong(
        "batch stride of one head",
        (("tl.program_id(1).to(tl.int64) * (num_heads // num_q_per_kv) +", "tl.program_id(1).to(tl.int64) +"),),
        "batch_stride",
        "batch 1 reads head",
    ),
    Wrong("scale missing", ((" * softmax_scale", ""),), "scale_missing", "sqrt(20)"),
    Wrong("scale twice", ((" * softmax_scale", " * softmax_scale * softmax_scale"),), "scale_twice", "too small"),
    Wrong("scale from the tile", ((" * softmax_scale", " * BLOCK_N**-0.5"),), "scale_wrong", "0.25"),
    Wrong("no division", (("acc / l_safe[:, None]", "acc"),), "no_division", ""),
    Wrong("lse in base 2", (("lse = m + tl.log(", "lse = m + tl.log2("),), "lse_base_2", "natural"),
    Wrong("skipped as if top left", ((FIRST, FIRST.replace(" - offset", "")),), "tile_skipped", "kv_start - offset"),
    Wrong(
        "skipped in the first tile, too",
        ((FIRST, "first_row = tl.maximum(kv_start - offset, 0)"),),
        "uninitialised_read",
        "l_ptr",
    ),
    Wrong(
        "-1e9 for masked scores",
        (('tl.where(visible, scores, -float("inf"))', "tl.where(visible, scores, -1e9)"),),
        "masked_row",
        "sees no key",
    ),
    Wrong(
        "-inf minus -inf",
        (('shift = tl.where(m_new == -float("inf"), 0.0, m_new)', "shift = m_new"),),
        "masked_row",
        "sees no key",
    ),
    Wrong("0 / 0", (("tl.where(l_new > 0.0, l_new, 1.0)", "l_new"),), "masked_row", "0 / 0"),
    Wrong(
        "lse 0 for an empty row",
        (
            (
                "lse = m + tl.log(tl.where(l > 0.0, l, 1.0))",
                "lse = tl.where(l > 0.0, m + tl.log(tl.where(l > 0.0, l, 1.0)), 0.0)",
            ),
        ),
        "masked_row",
        "lse",
    ),
    Wrong(
        "mask multiplied into the weights alone",
        (('scores = tl.where(visible, scores, -float("inf"))', "scores = tl.where(visible, scores, 0.0)"),),
        "mask_in_tile",
        "-inf",
    ),
    Wrong(
        "tiles skipped, nothing masked",
        ((VISIBLE, "visible = keys[None, :] < seq_len_kv"),),
        "mask_in_tile",
        "diagonal",
    ),
]
