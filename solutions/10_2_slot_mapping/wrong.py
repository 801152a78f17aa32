"""Wrong answers to 10.2, each an edit of answer.cu."""

from course_lib.grading.exercise.submissions import Wrong

SLOT = "const long long slot = slot_mapping[token];"
GUARD = "if (slot < 0) return;"
OFFSET = "const long long page = slot / page_size, offset = slot % page_size;"
START = "const long long start = page * stride_page + offset * stride_slot + kv_head * stride_kv_head;"
K_ROW = "const int* k_row = k + token * stride_k_token + kv_head * head_dim;"
V_ROW = "const int* v_row = v + token * stride_v_token + kv_head * head_dim;"
LOOP = "for (int d = threadIdx.x; d < head_dim; d += WARP_SIZE) {"
K_STORE, V_STORE = "k_pages[start + d] = k_row[d];", "v_pages[start + d] = v_row[d];"


def one(find, text):
    """One edit."""
    return ((find, text),)


def start(text):
    """Another start of the row."""
    return one(START, f"const long long start = {text};")


ANSWERS = [
    # the slot
    Wrong("slot in an int", one(SLOT, "const int slot = (int)slot_mapping[token];"), "int32_overflow", "long long"),
    Wrong("slot -1 written", one(GUARD, ""), "out_of_bounds", "k_pages"),
    Wrong(
        "slot -1 as slot 0",
        ((GUARD, ""), (OFFSET, OFFSET.replace("slot /", "max(slot, 0LL) /").replace("slot %", "max(slot, 0LL) %"))),
        "padding_written",
        "is not stored",
    ),
    Wrong(
        "slot -1 as the last slot",
        (
            (GUARD, ""),
            (OFFSET, "const long long page = slot / page_size, offset = (slot + page_size) % page_size;"),
        ),
        "padding_written",
        "is not stored",
    ),
    Wrong("slot 0 not stored either", one(GUARD, "if (slot <= 0) return;"), "pool_untouched", "nothing in k_pages"),
    Wrong("the token's own number", one(SLOT, "const long long slot = token;"), "token_as_slot", "own number"),
    Wrong(
        "padding ends the batch",
        one(GUARD, "for (int t = 0; t <= token; ++t) {\n        if (slot_mapping[t] < 0) return;\n    }"),
        "padding_stops",
        "left out with it",
    ),
    # page and offset
    Wrong(
        "page and offset swapped",
        one(OFFSET, "const long long page = slot % page_size, offset = slot / page_size;"),
        "out_of_bounds",
        "k_pages",
    ),
    Wrong("page alone", start("page * stride_page + kv_head * stride_kv_head"), "race", "k_pages"),
    Wrong("slots side by side", start("slot * stride_slot + kv_head * stride_kv_head"), "out_of_bounds", "2^31"),
    Wrong("pages in a row", start("(slot * gridDim.x + kv_head) * head_dim"), "out_of_bounds", "2^31"),
    Wrong(
        "strides swapped",
        start("page * stride_page + offset * stride_kv_head + kv_head * stride_slot"),
        "out_of_bounds",
        "k_pages",
    ),
    Wrong("no head", start("page * stride_page + offset * stride_slot"), "race", "k_pages"),
    # the rows
    Wrong("k with v's stride", one(K_ROW, K_ROW.replace("stride_k", "stride_v")), "out_of_bounds", "k["),
    Wrong("v with k's stride", one(V_ROW, V_ROW.replace("stride_v", "stride_k")), "token_stride", "stride_v_token"),
    Wrong(
        "tokens without gaps",
        one(K_ROW, K_ROW.replace("stride_k_token", "gridDim.x * head_dim")),
        "token_stride",
        "apart",
    ),
    Wrong("the slot's row of k", one(K_ROW, K_ROW.replace("token *", "slot *")), "out_of_bounds", "k["),
    Wrong("always head 0", one(K_ROW, K_ROW.replace(" + kv_head * head_dim", "")), "wrong_head", "head 0"),
    Wrong(
        "k and v swapped",
        ((K_STORE, "k_pages[start + d] = v_row[d];"), (V_STORE, "v_pages[start + d] = k_row[d];")),
        "pools_swapped",
        "the one of v",
    ),
    Wrong("k twice", one(V_STORE, "v_pages[start + d] = k_row[d];"), "pools_swapped", "the one of k"),
    Wrong("v forgotten", one(V_STORE, ""), "pool_untouched", "v_pages"),
    # the loop
    Wrong("one turn", one(LOOP, "if (const int d = threadIdx.x; d < head_dim) {"), "columns_left", "32 lanes"),
    Wrong(
        "no guard",
        one(LOOP, "for (int d = threadIdx.x; d - (int)threadIdx.x < head_dim; d += WARP_SIZE) {"),
        "out_of_bounds",
        "k[",
    ),
    Wrong(
        "the last column left",
        one(LOOP, LOOP.replace("d < head_dim", "d < head_dim - (head_dim > 1)")),
        "columns_left",
        "its old contents",
    ),
    # other slots
    Wrong(
        "a token that is not stored clears slot 0",
        one(
            GUARD,
            "if (slot < 0) {\n        k_pages[kv_head * stride_kv_head + threadIdx.x] = 0;\n        return;\n    }",
        ),
        "neighbours_touched",
        "No token is mapped to it",
    ),
]
