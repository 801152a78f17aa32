"""Wrong answers to 06.3, each an edit of kernels_cu/attention/07_flash_attention_1_rows.cu."""

from course_lib.grading.exercise.submissions import Wrong

BEFORE_LOAD = "__syncthreads();  // separates the last reads of the old tile from the loads of the new one"
AFTER_LOAD = "__syncthreads();  // separates the writes of the tiles from their reads"
NUM_KEYS = "const int num_keys = min(BLOCK_N, seq_len_kv - kv_start);"
IS_THERE = "const bool is_there = i < num_keys * HEAD_DIM;"
LOAD_V = "v_smem[i] = is_there ? v[(size_t)kv_start * HEAD_DIM + i] : 0.0f;"
Q_LOOP = "for (int q_row = threadIdx.x; q_row < seq_len_q; q_row += BLOCK_M) {\n            float probs"
MASKED = "probs[tile_key] = tile_key < num_keys ? probs[tile_key] * softmax_scale : NEG_INF;"
M_OLD = "const float m_old = kv_start > 0 ? m[q_row] : NEG_INF;"
M_START = "float m_new = m_old;"
OLD = "const float old_sum = l_old * exp_shifted(m_old, m_new);"
L_START = "float l_new = old_sum;"
ACC = "float acc = kv_start > 0 ? out[(size_t)q_row * HEAD_DIM + d] * old_sum : 0.0f;"
STORE = "out[(size_t)q_row * HEAD_DIM + d] = acc / l_new;"
LSE = "lse[q_row] = m[q_row] + logf(l[q_row]);"
KV_HEAD = "(size_t)blockIdx.y * (gridDim.x / num_q_per_kv) + blockIdx.x / num_q_per_kv;"
KV_LOOP = "for (int kv_start = 0; kv_start < seq_len_kv; kv_start += BLOCK_N) {"

ANSWERS = [
    # the old state
    Wrong("O not rescaled", ((ACC, ACC.replace("* old_sum", "* l_old")),), "o_not_rescaled", "old out"),
    Wrong("l not rescaled", ((L_START, "float l_new = l_old;"),), "l_not_rescaled", "old l"),
    Wrong("neither rescaled", ((OLD, "const float old_sum = l_old;"),), "o_not_rescaled", "and so was l"),
    Wrong(
        "alpha inverted",
        ((OLD, "const float old_sum = kv_start > 0 ? l_old * expf(m_new - m_old) : 0.0f;"),),
        "inverse_factor",
        "exp(m_new - m)",
    ),
    Wrong("alpha with exp2", ((OLD, "const float old_sum = l_old * exp2f(m_old - m_new);"),), "exp_exp2_mix", "-1"),
    Wrong(
        "divided at every tile, never multiplied back",
        ((ACC, ACC.replace("* old_sum", "* exp_shifted(m_old, m_new)")),),
        "old_sum_missing",
        "mean already",
    ),
    Wrong(
        "final division missing",
        ((ACC, ACC.replace("* old_sum", "* exp_shifted(m_old, m_new)")), (STORE, STORE.replace(" / l_new", ""))),
        "no_division",
        "1431",
    ),
    Wrong("old O thrown away", ((ACC, "float acc = 0.0f;"),), "old_state_lost", "thrown away"),
    Wrong("old state of the first tile read", ((M_OLD, "const float m_old = m[q_row];"),), "uninitialised_read", "m"),
    # the tail
    Wrong("tail counted", ((MASKED, "probs[tile_key] *= softmax_scale;"),), "tail_counted", "64"),
    Wrong(
        "tail dropped",
        ((KV_LOOP, "for (int kv_start = 0; kv_start + BLOCK_N <= seq_len_kv; kv_start += BLOCK_N) {"),),
        "uninitialised_read",
        "m[0]",
    ),
    Wrong(
        "tail dropped after the first tile",
        (
            (
                KV_LOOP,
                "for (int kv_start = 0; kv_start == 0 || kv_start + BLOCK_N <= seq_len_kv; kv_start += BLOCK_N) {",
            ),
        ),
        "tail_dropped",
        "the last 5 keys are missing",
    ),
    Wrong(
        "last key of every tile dropped", ((NUM_KEYS, NUM_KEYS.replace("BLOCK_N,", "BLOCK_N - 1,")),), "lse_wrong", "50"
    ),
    Wrong("tail read past the end", ((IS_THERE, "const bool is_there = true;"),), "out_of_bounds", ""),
    Wrong("tail of V not zeroed: 0 * NaN", ((LOAD_V, "if (is_there) " + LOAD_V),), "uninitialised_read", "v_smem"),
    # barriers
    Wrong("barrier missing after the load", ((AFTER_LOAD, ""),), "race", "smem"),
    Wrong("barrier missing before the next load", ((BEFORE_LOAD, ""),), "race", "smem"),
    Wrong("barrier inside the rows", ((M_START, "__syncthreads();\n            " + M_START),), "divergent_barrier", ""),
    # the scale, the maximum, lse
    Wrong("scale missing", ((MASKED, MASKED.replace(" * softmax_scale", "")),), "scale_missing", "too large"),
    Wrong(
        "scale twice",
        ((MASKED, MASKED.replace("* softmax_scale", "* softmax_scale * softmax_scale")),),
        "scale_twice",
        "too small",
    ),
    Wrong(
        "scale from the tile",
        ((MASKED, MASKED.replace("* softmax_scale", "* rsqrtf((float)BLOCK_N)")),),
        "scale_wrong",
        "0.25",
    ),
    Wrong(
        "no maximum",
        ((M_START, "float m_new = 0.0f;"), ("m_new = fmaxf(m_new, probs[tile_key]);", "")),
        "no_max",
        "+100",
    ),
    Wrong("m starts at 0", ((M_START, "float m_new = fmaxf(m_old, 0.0f);"),), "m_starts_too_high", "-100"),
    Wrong("lse in base 2", ((LSE, LSE.replace("logf", "log2f")),), "lse_base_2", "natural"),
    Wrong("lse without the maximum", ((LSE, "lse[q_row] = logf(l[q_row]);"),), "lse_without_max", "m + log(l)"),
    Wrong("lse not stored", ((LSE, ""),), "unwritten", "lse"),
    # heads, rows
    Wrong(
        "heads by modulo",
        ((KV_HEAD, "(size_t)blockIdx.y * (gridDim.x / num_q_per_kv) + blockIdx.x % (gridDim.x / num_q_per_kv);"),),
        "gqa_modulo",
        "% 2",
    ),
    Wrong(
        "batch stride", ((KV_HEAD, "(size_t)blockIdx.y * gridDim.x + blockIdx.x / num_q_per_kv;"),), "out_of_bounds", ""
    ),
    Wrong("batch forgotten", ((KV_HEAD, "blockIdx.x / num_q_per_kv;"),), "batch_stride", "batch 1"),
    Wrong(
        "first tile of queries alone",
        (
            (
                Q_LOOP,
                Q_LOOP.replace(
                    "for (int q_row = threadIdx.x; q_row < seq_len_q; q_row += BLOCK_M)",
                    "if (const int q_row = threadIdx.x; q_row < seq_len_q)",
                ),
            ),
        ),
        "uninitialised_read",
        "",
    ),
    Wrong(
        "out kept in half between tiles",
        (
            (STORE, STORE.replace("acc / l_new", "__half2float(__float2half(acc / l_new))")),
            ('#include "common/softmax_state.cuh"', '#include <cuda_fp16.h>\n#include "common/softmax_state.cuh"'),
        ),
        "low_precision",
        "compute in float",
    ),
    Wrong("lse with l, not its logarithm", ((LSE, "lse[q_row] = m[q_row] + l[q_row];"),), "lse_without_log", "53"),
    Wrong(
        "plain mean",
        (("probs[tile_key] += q_d * k_smem", "probs[tile_key] += 0.0f * q_d * k_smem"),),
        "ignores_scores",
        "plain mean",
    ),
    Wrong(
        "copy of q", ((STORE, STORE.replace("acc / l_new", "q[(size_t)q_row * HEAD_DIM + d]")),), "copy_of_input", "q"
    ),
    Wrong("zeros", ((STORE, STORE.replace("acc / l_new", "0.0f")),), "all_zeros", ""),
]
