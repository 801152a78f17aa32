"""Wrong answers to 07.3, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

END = "kv_end = tl.minimum(q_start + BLOCK_M, seq_len_q) + offset"
VISIBLE = "visible = (keys[None, :] < seq_len_kv) & (keys[None, :] <= rows[:, None] + offset)"
LOOP = "for kv_start in range(0, kv_end, BLOCK_N):"
HIDE = 'scores = tl.where(visible, scores, -float("inf"))'
SHIFT = 'shift = tl.where(m_new == -float("inf"), 0.0, m_new)'
SAFE = "l_safe = tl.where(l > 0.0, l, 1.0)"
LSE = "m + tl.log(l_safe), mask=rows < seq_len_q)"

ANSWERS = [
    # the mask
    Wrong("strictly causal", ((VISIBLE, VISIBLE.replace("<= rows", "< rows")),), "causal_off_by_one", "one too few"),
    Wrong(
        "one key of the future",
        ((VISIBLE, VISIBLE.replace("+ offset", "+ offset + 1")), (END, END + " + 1")),
        "causal_off_by_one",
        "future",
    ),
    Wrong(
        "top left, mask and loop",
        ((VISIBLE, VISIBLE.replace(" + offset", "")), (END, "kv_end = tl.minimum(q_start + BLOCK_M, seq_len_kv)")),
        "causal_top_left",
        "top left",
    ),
    Wrong("top left, mask alone", ((VISIBLE, VISIBLE.replace(" + offset", "")),), "causal_top_left", "top left"),
    Wrong(
        "not causal",
        ((VISIBLE, "visible = keys[None, :] < seq_len_kv"), (END, "kv_end = seq_len_kv")),
        "causal_missing",
        "future",
    ),
    Wrong(
        "tiles skipped, nothing masked",
        ((VISIBLE, "visible = keys[None, :] < seq_len_kv"),),
        "mask_in_tile",
        "diagonal",
    ),
    Wrong(
        "masked scores 0",
        ((HIDE, "scores = tl.where(visible, scores, 0.0)"),),
        "mask_in_tile",
        "-inf",
    ),
    Wrong(
        "tail counted",
        ((VISIBLE, "visible = (keys[None, :] >= seq_len_kv) | (keys[None, :] <= rows[:, None] + offset)"),),
        "tail_counted",
        "beyond the last key",
    ),
    # the loop
    Wrong("no tile skipped", ((END, "kv_end = seq_len_kv"),), "no_tile_skipped", "18 tiles of keys were read"),
    Wrong("two tiles late", ((END, END + " + 2 * BLOCK_N"),), "no_tile_skipped", "only 12"),
    Wrong(
        "skipped by masking the loads away",
        (
            (END, "kv_end = seq_len_kv"),
            (HIDE, HIDE + "\n        scores = tl.where(kv_start <= q_start + BLOCK_M + offset, scores, -float('inf'))"),
        ),
        "no_tile_skipped",
        "were read",
    ),
    Wrong(
        "loop ends at the first query",
        ((END, "kv_end = q_start + offset + 1"),),
        "tile_skipped",
        "too early",
    ),
    Wrong(
        "last tile cut off", ((LOOP, LOOP.replace("kv_end", "kv_end // BLOCK_N * BLOCK_N")),), "tile_skipped", "cut off"
    ),
    Wrong("one key short", ((END, END + " - 1"),), "tile_skipped", "saw 32"),
    Wrong(
        "loop ends as if top left",
        ((END, "kv_end = tl.minimum(q_start + BLOCK_M, seq_len_kv)"),),
        "tile_skipped",
        "seq_len_kv - seq_len_q",
    ),
    Wrong(
        "the program's index in place of its tile's",
        ((END, "kv_end = tl.minimum(tl.program_id(0) * BLOCK_M + BLOCK_M, seq_len_q) + offset"),),
        "tile_skipped",
        "too early",
    ),
    # rows that see nothing
    Wrong("-1e9 for masked scores", ((HIDE, HIDE.replace('-float("inf")', "-1e9")),), "masked_row", "sees no key"),
    Wrong("-inf minus -inf", ((SHIFT, "shift = m_new"),), "masked_row", "sees no key"),
    Wrong("0 / 0", ((SAFE, "l_safe = l"),), "masked_row", "0 / 0"),
    Wrong(
        "lse 0 for an empty row",
        ((LSE, "tl.where(l > 0.0, m + tl.log(l_safe), 0.0), mask=rows < seq_len_q)"),),
        "masked_row",
        "lse",
    ),
]
