"""Wrong answers to 10.8, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong, one

SCALE_OFFSETS = "scale_offsets = (page * PAGE_SIZE + slots) * num_kv_heads + kv_head"
OFFSETS = "offsets = scale_offsets[:, None] * HEAD_DIM + d[None, :]"
K = "k = tl.load(k_pages_ptr + offsets, mask=mask[:, None], other=0).to(tl.float32)"
V = "v = tl.load(v_pages_ptr + offsets, mask=mask[:, None], other=0).to(tl.float32)"
K_SCALE = "k_scale = tl.load(k_scales_ptr + scale_offsets, mask=mask, other=0.0)"
V_SCALE = "v_scale = tl.load(v_scales_ptr + scale_offsets, mask=mask, other=0.0)"
SCORES = "scores = tl.sum(q[None, :] * k, axis=1) * k_scale * softmax_scale"
MASK = 'scores = tl.where(mask, scores, -float("inf"))'
L = "l = l * alpha + tl.sum(probs_unnorm, axis=0)"
ACC = "acc = acc * alpha + tl.sum((probs_unnorm * v_scale)[:, None] * v, axis=0)"


ANSWERS = [
    Wrong("k without its scale", one(SCORES, (" * k_scale", "")), "k_scale_missing", "bytes of k"),
    Wrong(
        "v without its scale", one(ACC, ("(probs_unnorm * v_scale)", "probs_unnorm")), "v_scale_missing", "bytes of v"
    ),
    Wrong(
        "no scales",
        ((SCORES, SCORES.replace(" * k_scale", "")), (ACC, ACC.replace("(probs_unnorm * v_scale)", "probs_unnorm"))),
        "scales_missing",
        "without any scale",
    ),
    Wrong(
        "scales swapped",
        ((K_SCALE, K_SCALE.replace("k_scales", "v_scales")), (V_SCALE, V_SCALE.replace("v_scales", "k_scales"))),
        "scales_swapped",
        "are swapped",
    ),
    Wrong("the scale of k for v", one(V_SCALE, ("v_scales", "k_scales")), "one_scale_for_both", "of k for v"),
    Wrong("the scale of v for k", one(K_SCALE, ("k_scales", "v_scales")), "one_scale_for_both", "of v for k"),
    Wrong("scale of v in l", one(L, ("probs_unnorm,", "probs_unnorm * v_scale,")), "v_scale_in_l", "cancels"),
    Wrong(
        "scale of v twice",
        one(ACC, ("probs_unnorm * v_scale", "probs_unnorm * v_scale * v_scale")),
        "scale_squared",
        "twice",
    ),
    Wrong(
        "scales of head 0",
        (
            (K_SCALE, K_SCALE.replace("scale_offsets", "scale_offsets - kv_head")),
            (V_SCALE, V_SCALE.replace("scale_offsets", "scale_offsets - kv_head")),
        ),
        "scale_of_head_0",
        "head 0",
    ),
    Wrong(
        "a scale a page",
        (
            (K_SCALE, K_SCALE.replace("scale_offsets", "scale_offsets - slots * num_kv_heads")),
            (V_SCALE, V_SCALE.replace("scale_offsets", "scale_offsets - slots * num_kv_heads")),
        ),
        "scale_of_the_page",
        "whole page",
    ),
    Wrong(
        "bytes without a sign",
        (
            (K, K.replace(".to(tl.float32)", ".to(tl.uint8, bitcast=True).to(tl.float32)")),
            (V, V.replace(".to(tl.float32)", ".to(tl.uint8, bitcast=True).to(tl.float32)")),
        ),
        "sign_lost",
        "signed",
    ),
    Wrong(
        "scales without a mask", one(V_SCALE, (", mask=mask, other=0.0", "")), "nan_from_unused_slots", "0 times NaN"
    ),
    Wrong("scores not masked", one(MASK, (MASK, "")), "tail_counted", "past the end"),
    Wrong("scales by logical page", one(SCALE_OFFSETS, ("page *", "i *")), "logical_as_physical", "block_table"),
    Wrong("heads forgotten", one(SCALE_OFFSETS, (" * num_kv_heads + kv_head", "")), "heads_mixed", "several heads"),
    Wrong(
        "rows by slot alone",
        one(OFFSETS, ("scale_offsets[:, None] * HEAD_DIM", "(page * PAGE_SIZE + slots)[:, None] * HEAD_DIM")),
        "heads_mixed",
        "several heads",
    ),
    Wrong("no softmax scale", one(SCORES, (" * softmax_scale", "")), "scale_missing", "softmax_scale"),
    Wrong("q rounded too", one(SCORES, ("q[None, :]", "tl.floor(q[None, :] + 0.5)")), "query_rounded", "q rounded"),
]
