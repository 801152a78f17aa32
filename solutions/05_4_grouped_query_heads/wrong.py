"""Wrong answers to 05.4, each an edit of kernels_cu/attention/05_grouped_query.cu."""

from course_lib.grading.exercise.submissions import Wrong

MAP = "const int kv_head = head / num_q_per_kv;"
FIRST = "const size_t first = ((size_t)batch * num_kv_heads + kv_head) * seq_len_kv * head_dim;"
MASK = "if (causal) num_visible = max(0, q_row + seq_len_kv - seq_len_q + 1);"


def visible_keys(count):
    return ((MASK, f"if (causal) num_visible = {count};"),)


ANSWERS = [
    Wrong("modulo", ((MAP, "const int kv_head = head % num_kv_heads;"),), "head_modulo", "head % num_kv_heads"),
    Wrong(
        "divided by num_kv_heads",
        ((MAP, "const int kv_head = head / num_kv_heads;"),),
        "out_of_bounds",
        "k has",
    ),
    Wrong("the query head itself", ((MAP, "const int kv_head = head;"),), "out_of_bounds", "k"),
    Wrong("always the first head", ((MAP, "const int kv_head = 0;"),), "head_forgotten", "first head"),
    Wrong(
        "batch forgotten",
        ((FIRST, FIRST.replace("(size_t)batch * num_kv_heads + kv_head", "(size_t)kv_head")),),
        "batch_forgotten",
        "first one",
    ),
    Wrong(
        "batch stride of one head",
        ((FIRST, FIRST.replace("batch * num_kv_heads +", "batch +")),),
        "batch_stride",
        "further",
    ),
    Wrong(
        "batch stride of the query heads",
        ((FIRST, FIRST.replace("num_kv_heads + kv_head", "num_heads + kv_head")),),
        "out_of_bounds",
        "k",
    ),
    Wrong(
        "strictly causal", visible_keys("max(0, q_row + seq_len_kv - seq_len_q)"), "causal_off_by_one", "own position"
    ),
    Wrong(
        "one key of the future",
        visible_keys("max(0, min(q_row + seq_len_kv - seq_len_q + 2, seq_len_kv))"),
        "causal_off_by_one",
        "future",
    ),
    Wrong("top left", visible_keys("min(q_row + 1, seq_len_kv)"), "causal_top_left", "top left"),
    Wrong("mask forgotten", ((MASK, ""),), "causal_missing", "future"),
    Wrong("mask always", ((MASK, MASK.replace("if (causal) ", "")),), "mask_always", "causal = 0"),
    Wrong("at least one key", visible_keys("max(1, q_row + seq_len_kv - seq_len_q + 1)"), "masked_row", "sees no key"),
]
