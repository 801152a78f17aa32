"""Wrong answers to 05.1, each an edit of kernels_cu/attention/03_row_in_block.cu."""

from course_lib.grading.exercise.submissions import Wrong

HEAD = "const size_t batch_head = (size_t)batch * num_heads + head;"
SCORE = "probs_row[key] = dot * softmax_scale;"
DOT = "dot += q_vec[d] * k_head[(size_t)key * head_dim + d];"
KEYS = "for (int key = threadIdx.x; key < seq_len_kv; key += BLOCK) {"
MAX_BARRIER = "__syncthreads();  // separates all reads of the maximum from the first write of the sum\n"
WEIGHTS_BARRIER = "__syncthreads();  // separates each thread's weights from the reads of all weights\n"
EXPONENTIAL = "probs_row[key] = expf(probs_row[key] - m);"
DIVIDE = "probs_row[key] /= l;"
SUM = "acc += probs_row[key] * v_head[(size_t)key * head_dim + d];"
ALL_KEYS = "for (int key = 0; key < seq_len_kv; ++key) acc"
COLUMNS = "for (int d = threadIdx.x; d < head_dim; d += BLOCK) {"

ANSWERS = [
    Wrong("scale missing", ((SCORE, "probs_row[key] = dot;"),), "scale_missing", "8 times too large"),
    Wrong("scale twice", ((SCORE, SCORE.replace(";", " * softmax_scale;")),), "scale_twice", "8 times too small"),
    Wrong("divided by the scale", ((SCORE, "probs_row[key] = dot / softmax_scale;"),), "scale_inverse", "multiplied"),
    Wrong(
        "scale from the number of keys",
        ((SCORE, "probs_row[key] = dot * rsqrtf((float)seq_len_kv);"),),
        "scale_wrong",
        "1 / sqrt(64)",
    ),
    Wrong(
        "scale on the weights",
        ((SCORE, "probs_row[key] = dot;"), (DIVIDE, "probs_row[key] *= softmax_scale / l;")),
        "scale_outside",
        "before the softmax",
    ),
    Wrong(
        "no division", ((f"    {KEYS[:-1]}{DIVIDE}\n", "    if (l < 0.0f) return;\n"),), "no_division", "never divided"
    ),
    Wrong("exp2 for exp", ((EXPONENTIAL, EXPONENTIAL.replace("expf", "exp2f")),), "exp_exp2_mix", "log2(e)"),
    Wrong("no maximum", ((EXPONENTIAL, "probs_row[key] = expf(probs_row[key] + 0.0f * m);"),), "no_max", "exp(88.7)"),
    Wrong(
        "one key short", ((ALL_KEYS, ALL_KEYS.replace("seq_len_kv", "seq_len_kv - 1")),), "weights_sum", "add up to 1"
    ),
    Wrong("one key too many", ((ALL_KEYS, ALL_KEYS.replace("key < ", "key <= ")),), "out_of_bounds", "probs"),
    Wrong("batch forgotten", ((HEAD, "const size_t batch_head = head + 0 * batch;"),), "race", "two blocks"),
    Wrong(
        "k and v of the first batch entry",
        (
            ("const float* k_head = k + batch_head *", "const float* k_head = k + (size_t)head *"),
            ("const float* v_head = v + batch_head *", "const float* v_head = v + (size_t)head *"),
        ),
        "batch_forgotten",
        "batch * num_kv_heads",
    ),
    Wrong(
        "v of the first head",
        (("v + batch_head * seq_len_kv", "v + batch * num_heads * seq_len_kv"),),
        "head_forgotten",
        "first head",
    ),
    Wrong(
        "batch stride of one head",
        (("v + batch_head * seq_len_kv", "v + (size_t)(batch + head) * seq_len_kv"),),
        "batch_stride",
        "further",
    ),
    Wrong("no barrier before the sum", ((MAX_BARRIER, "\n"),), "race", "reduce_smem"),
    Wrong("no barrier before the weights", ((WEIGHTS_BARRIER, "\n"),), "race", "probs"),
    Wrong(
        "one stride of keys",
        ((f"{KEYS}\n        float dot", "if (const int key = threadIdx.x; key < seq_len_kv) {\n        float dot"),),
        "uninitialised_read",
        "has not been written",
    ),
    Wrong(
        "one stride of columns", ((COLUMNS, "if (const int d = threadIdx.x; d < head_dim) {"),), "unwritten", "column"
    ),
    Wrong(
        "k and v confused",
        ((DOT, DOT.replace("k_head", "v_head")), (SUM, SUM.replace("v_head", "k_head"))),
        "k_v_swapped",
        "rows of v",
    ),
    Wrong(
        "half accumulator",
        (
            ("float acc = 0.0f;", "__half acc = __float2half(0.0f);"),
            (SUM, f"acc = __float2half(__half2float(acc) + {SUM[7:-1]});"),
            ("out_row[d] = acc;", "out_row[d] = __half2float(acc);"),
            ('#include "common/constants.cuh"', '#include <cuda_fp16.h>\n#include "common/constants.cuh"'),
        ),
        "low_precision",
        "compute in float",
    ),
    Wrong(
        "maximum starts at 0",
        (("float m_thread = NEG_INF;", "float m_thread = 0.0f;"),),
        "m_starts_too_high",
        "near -100",
    ),
    Wrong("plain mean", ((SCORE, "probs_row[key] = 0.0f * dot;"),), "ignores_scores", "plain mean"),
]
