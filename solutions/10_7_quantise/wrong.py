"""Wrong answers to 10.7, each an edit of answer.cu."""

from course_lib.grading.exercise.submissions import Wrong, one

GUARD = "if (slot < 0) return;"
ROW = "const long long row = slot * num_kv_heads + kv_head;"
VALUE = "const float value = x[((long long)token * num_kv_heads + kv_head) * HEAD_DIM + lane];"
LARGEST = "const float largest = warp_max(fabsf(value));"
SCALE = "const float scale = largest / 127.0f;"
SMALL = "const float small = largest > 0.0f ? rintf(value / scale) : 0.0f;"
STORE = "pages[row * HEAD_DIM + lane] = (signed char)small;"
STORE_SCALE = "if (lane == 0) scales[row] = scale;"


ANSWERS = [
    # the scale
    Wrong("without the magnitude", one(LARGEST, ("fabsf(value)", "value")), "signed_maximum", "fabsf"),
    Wrong(
        "each lane its own", one(LARGEST, ("warp_max(fabsf(value))", "fabsf(value)")), "lane_alone", "largest of all 32"
    ),
    Wrong("by 255", one(SCALE, ("127.0f", "255.0f")), "scale_unsigned", "-127 to 127"),
    Wrong("by 100", one(SCALE, ("127.0f", "100.0f")), "error_too_large", "half a scale"),
    Wrong("up to 128", one(SCALE, ("127.0f", "128.0f")), "wrapped", "wrapped round"),
    Wrong(
        "the scale turned round", one(STORE_SCALE, ("= scale", "= 1.0f / scale")), "scale_inverse", "must give x again"
    ),
    Wrong("the largest as the scale", one(STORE_SCALE, ("= scale", "= largest")), "scale_largest", "divide by 127"),
    Wrong("a scale of 1", one(SCALE, ("largest / 127.0f", "1.0f")), "error_too_large", "half a scale"),
    Wrong(
        "scale cut to 64ths",
        one(STORE_SCALE, ("= scale", "= (float)(int)(scale * 64.0f) / 64.0f")),
        "error_too_large",
        "half a scale",
    ),
    # the rounding
    Wrong("cut off", one(SMALL, ("rintf(value / scale)", "value / scale")), "truncated", "cut off"),
    Wrong("rounded down", one(SMALL, ("rintf(", "floorf(")), "truncated", "Rounded down"),
    Wrong(
        "sign lost", one(SMALL, ("rintf(value / scale)", "rintf(fabsf(value) / scale)")), "sign_lost", "lost their sign"
    ),
    Wrong(
        "0 / 0 in the scale",
        one(SCALE, ("largest / 127.0f", "largest * largest / (largest * 127.0f)")),
        "zero_row",
        "0 / 0",
    ),
    # the slot
    Wrong("the token's own number", one(ROW, ("slot *", "token *")), "wrong_place", "to which no token is mapped"),
    Wrong("slots without heads", one(ROW, ("slot * num_kv_heads + kv_head", "slot")), "race", "pages"),
    Wrong(
        "heads first",
        one(ROW, ("slot * num_kv_heads + kv_head", "kv_head * 12 + slot")),
        "wrong_place",
        "to which no token is mapped",
    ),
    Wrong(
        "scale by token",
        one(STORE_SCALE, ("scales[row]", "scales[token * num_kv_heads + kv_head]")),
        "wrong_place",
        "the scale of that slot",
    ),
    Wrong("no scale", one(STORE_SCALE, (STORE_SCALE, "")), "not_written", "the scale of that slot"),
    Wrong("no bytes", one(STORE, (STORE, "")), "not_written", "the bytes of that slot"),
    Wrong("head 0 alone", one(VALUE, (" + kv_head", "")), "wrong_row", "head 0 is stored"),
    Wrong("slot -1 written", one(GUARD, (GUARD, "")), "out_of_bounds", "pages"),
    Wrong(
        "slot -1 as slot 0",
        ((GUARD, ""), (ROW, ROW.replace("slot *", "max(slot, 0LL) *"))),
        "padding_written",
        "negative slot",
    ),
    Wrong(
        "lane 0 leaves first",
        one(GUARD, (GUARD, GUARD + "\n    if (lane == 0) { scales[slot * num_kv_heads + kv_head] = 0.0f; return; }")),
        "bad_shuffle",
        "lane 0",
    ),
]
