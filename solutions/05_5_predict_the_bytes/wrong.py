"""Wrong answers to 05.5, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

KEYS = "keys = batch_size * num_kv_heads * seq_len_kv * head_dim * itemsize"
NEVER = "never = 2 * queries + 2 * keys"
FUSED = "fused = never + 4 * matrix"
NAIVE = "naive = never + 8 * matrix"
RETURN = "return naive, fused, never"

ANSWERS = [
    Wrong(
        "k and v with all heads", ((KEYS, KEYS.replace("num_kv_heads", "num_heads")),), "heads_not_grouped", "have 2"
    ),
    Wrong("k and v as long as q", ((NEVER, "never = 4 * queries"),), "lengths_equal", "seq_len_q"),
    Wrong("result forgotten", ((NEVER, "never = queries + 2 * keys"),), "result_forgotten", "as many bytes as q"),
    Wrong("scale and mask for free", ((NAIVE, "naive = never + 4 * matrix"),), "trips", "there are 8"),
    Wrong("scale and mask write only", ((NAIVE, "naive = never + 6 * matrix"),), "trips", "6 trips"),
    Wrong("fused saves everything", ((FUSED, "fused = never"),), "trips", "0 trips"),
    Wrong("fused without the weights", ((FUSED, "fused = never + 2 * matrix"),), "trips", "weights written"),
    Wrong(
        "in numbers",
        ((RETURN, "return naive // itemsize, fused // itemsize, never // itemsize"),),
        "in_numbers",
        "each has 4",
    ),
    Wrong(
        "always four bytes",
        ((RETURN, "return [n // itemsize * 4 for n in (naive, fused, never)]"),),
        "itemsize_ignored",
        "has 2",
    ),
    Wrong(
        "one batch entry",
        ((RETURN, "return [n // batch_size for n in (naive, fused, never)]"),),
        "batch_forgotten",
        "one of 2",
    ),
    Wrong("two numbers", ((RETURN, "return naive, fused"),), "wrong_return"),
]
