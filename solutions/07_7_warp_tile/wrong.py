"""Wrong answers to 07.7, each an edit of kernels_cu/flash_attention_2_warp/01_warp_tile.cu."""

from course_lib.grading.exercise.submissions import Wrong

KV_HEAD = "const size_t kv_head = (size_t)blockIdx.z * (gridDim.y / num_q_per_kv) + blockIdx.y / num_q_per_kv;"
GUARD = "if (first + tile_row < num_rows) {"
PLACE = "*reinterpret_cast<uint4*>(tile_smem + swizzle_offset<HEAD_DIM * 2>(tile_row, chunk)) = numbers;"
KV_LOOP = "for (int kv_start = 0; kv_start < seq_len_kv; kv_start += TILE) {"
BEFORE = "__syncwarp();  // separates the last reads of the old tile from the writes of the new one"
AFTER = "__syncwarp();  // separates the writes from the reads"
LOAD_V = "load_tile(v_smem, v, kv_start, seq_len_kv);"
K_AT = "(lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));"
MMA_K = "mma_m16n8k16_f32_f16(scores[n], q_reg[step], k_reg[n], scores[n]);"
M_START = "float m[2] = {NEG_INF, NEG_INF}"
M_FIRST = "float m_new = m[half];"
KEY = "const int key = kv_start + n * 8 + lane % 4 * 2 + i % 2;"
MASK = "scores[n][i] = key < seq_len_kv ? scores[n][i] * softmax_scale : NEG_INF;"
M_MAX = "m_new = fmaxf(m_new, scores[n][i]);"
QUAD_MAX = "m_new = quad_max(m_new);"
ALPHA = "const float alpha = exp_shifted(m[half], m_new);"
PROBS = "scores[n][i] = exp_shifted(scores[n][i], m_new);"
L = "l[half] = l[half] * alpha + quad_sum(tile_sum);"
ACC_0, ACC_1 = "acc[j][2 * half] *= alpha;", "acc[j][2 * half + 1] *= alpha;"
M_KEPT = "m[half] = m_new;"
PACK = "return __half_as_ushort(__float2half(first)) | (unsigned)__half_as_ushort(__float2half(second)) << 16;"
FRAGMENT_1, FRAGMENT_2 = "pack(scores[0][2], scores[0][3])", "pack(scores[1][0], scores[1][1])"
V_LOAD = "ldmatrix_x4_trans("
V_AT = "(lane % 16, j + lane / 16));"
MMA_V = "mma_m16n8k16_f32_f16(acc[j + n], probs, v_reg[n], acc[j + n]);"
Q_ROW = "const int q_row = q_start + lane / 4 + half * 8;"
ROW_GUARD = "if (q_row >= seq_len_q) continue;"
PAIR = "__floats2half2_rn(acc[j][2 * half] / l[half], acc[j][2 * half + 1] / l[half]);"
COLUMN = "+ j * 8 + lane % 4 * 2) = pair;"
LSE = "if (lane % 4 == 0) lse[q_row] = m[half] + logf(l[half]);"

ANSWERS = [
    # the state
    Wrong("acc not rescaled", ((ACC_0, ""), (ACC_1, "")), "o_not_rescaled", "not multiplied"),
    Wrong("l not rescaled", ((L, L.replace(" * alpha", "")),), "l_not_rescaled", "not multiplied"),
    Wrong("neither rescaled", ((ALPHA, "const float alpha = 1.0f;"),), "o_not_rescaled", "and so was l"),
    Wrong("alpha inverted", ((ALPHA, "const float alpha = expf(m_new - m[half]);"),), "nan_from_the_start", "infinite"),
    Wrong(
        "alpha inverted, with a guard",
        ((ALPHA, "const float alpha = kv_start > 0 ? expf(m_new - m[half]) : 0.0f;"),),
        "inverse_factor",
        "exp(m_new - m)",
    ),
    Wrong("alpha with exp2", ((ALPHA, "const float alpha = exp2f(m[half] - m_new);"),), "exp_exp2_mix", "2 to the -1"),
    Wrong("m not kept", ((M_KEPT, ""),), "old_state_lost", "never kept"),
    Wrong("l not added up", ((L, "l[half] = quad_sum(tile_sum);"),), "old_state_lost", "old l was thrown away"),
    Wrong("never divided", ((PAIR, PAIR.replace(" / l[half]", "")),), "no_division", "division by l"),
    Wrong("m starts at 0", ((M_START, "float m[2] = {0.0f, 0.0f}"),), "m_starts_too_high", "-100"),
    Wrong("no maximum", ((M_FIRST, "float m_new = 0.0f;"), (M_MAX, "")), "no_max", "+100"),
    Wrong("maximum of the tile alone", ((M_FIRST, "float m_new = NEG_INF;"),), "tile_local_max", "never fall"),
    Wrong(
        "acc rounded to half",
        ((ACC_0, ACC_0 + "\n acc[j][2 * half] = __half2float(__float2half(acc[j][2 * half]));"),),
        "half_accumulator",
        "acc",
    ),
    Wrong(
        "l rounded to half",
        ((L, L + "\n l[half] = __half2float(__float2half(l[half]));"),),
        "half_accumulator",
        "l stayed",
    ),
    # four lanes a row
    Wrong("maximum of a lane", ((QUAD_MAX, ""),), "quad_max_missing", "one maximum"),
    Wrong("sum of a lane", ((L, L.replace("quad_sum(tile_sum)", "tile_sum")),), "quad_sum_missing", "must be added"),
    # fragments
    Wrong("v not transposed", ((V_LOAD, "ldmatrix_x4("),), "v_not_turned", "ldmatrix_x4_trans"),
    Wrong("k transposed", (("ldmatrix_x4(k_reg", "ldmatrix_x4_trans(k_reg"),), "fragment_layout", "wrong place"),
    Wrong(
        "k taken as an a fragment", ((K_AT, "(lane % 16, 2 * step + lane / 16));"),), "fragment_layout", "wrong place"
    ),
    Wrong(
        "the same columns of k in every step",
        ((K_AT, K_AT.replace("2 * step + ", "")),),
        "fragment_layout",
        "wrong place",
    ),
    Wrong(
        "the same columns of q in every step",
        ((MMA_K, MMA_K.replace("q_reg[step]", "q_reg[0]")),),
        "fragment_layout",
        "",
    ),
    Wrong(
        "v taken as k", ((V_AT, "(lane % 8 + lane / 16 * 8, j + lane / 8 % 2));"),), "fragment_layout", "wrong place"
    ),
    Wrong(
        "the same columns of v for both tiles",
        ((MMA_V, MMA_V.replace("v_reg[n]", "v_reg[0]")),),
        "fragment_layout",
        "column",
    ),
    Wrong(
        "second and third register of the weights exchanged",
        (
            (f"{FRAGMENT_1},\n", f"{FRAGMENT_2},\n"),
            (f"                                   {FRAGMENT_2}", f"                                   {FRAGMENT_1}"),
        ),
        "fragment_layout",
        "wrong place",
    ),
    Wrong(
        "the first half of a pair above",
        ((PACK, PACK.replace("(first)", "(third)").replace("(second)", "(first)").replace("(third)", "(second)")),),
        "pair_exchanged",
        "low one",
    ),
    Wrong(
        "columns 2 t and 2 t + 1 exchanged",
        ((PAIR, "__floats2half2_rn(acc[j][2 * half + 1] / l[half], acc[j][2 * half] / l[half]);"),),
        "pair_exchanged",
        "columns",
    ),
    Wrong(
        "rows g and g + 8 exchanged", ((Q_ROW, Q_ROW.replace("half * 8", "(1 - half) * 8")),), "rows_exchanged", "g + 8"
    ),
    Wrong("one row of two stored", ((Q_ROW, Q_ROW.replace("half * 8", "0 * half")),), "unwritten", ""),
    Wrong("columns lane % 4", ((COLUMN, COLUMN.replace(" * 2", "")),), "misaligned", ""),
    # the tail
    Wrong("tail counted", ((MASK, "scores[n][i] *= softmax_scale;"),), "tail_counted", "64"),
    Wrong(
        "tail masked by the wrong lane",
        ((KEY, KEY.replace("lane % 4 * 2", "lane / 4")),),
        "fragment_layout",
        "which lane holds what",
    ),
    Wrong(
        "tail dropped",
        ((KV_LOOP, KV_LOOP.replace("kv_start < seq_len_kv", "kv_start + TILE <= seq_len_kv")),),
        "tail_dropped",
        "48",
    ),
    Wrong(
        "first tile alone",
        ((KV_LOOP, KV_LOOP.replace("kv_start < seq_len_kv", "kv_start < 1")),),
        "one_tile",
        "first tile",
    ),
    Wrong("keys read past the end", ((GUARD, "{"),), "out_of_bounds", ""),
    Wrong(
        "tail of v not zeroed: 0 * NaN",
        ((PLACE, "if (first + tile_row < num_rows) " + PLACE),),
        "uninitialised_read",
        "smem",
    ),
    # barriers of the warp
    Wrong("no barrier before the next tile", ((BEFORE, ""),), "race", "smem"),
    Wrong("no barrier after the loads", ((AFTER, ""),), "race", "smem"),
    Wrong("barrier for some lanes", ((AFTER, "if (lane < 16) " + AFTER),), "deadlock", ""),
    # the scale, lse, heads, rows
    Wrong("scale missing", ((MASK, MASK.replace(" * softmax_scale", "")),), "scale_missing", "too large"),
    Wrong(
        "scale twice",
        ((MASK, MASK.replace("* softmax_scale", "* softmax_scale * softmax_scale")),),
        "scale_twice",
        "too small",
    ),
    Wrong("scale from the tile", ((MASK, MASK.replace("* softmax_scale", "* 0.25f")),), "scale_wrong", "times 0.2"),
    Wrong(
        "weights by exp2", ((PROBS, "scores[n][i] = exp2f(scores[n][i] - m_new);"),), "exp_exp2_mix", "2 to the power"
    ),
    Wrong("lse in base 2", ((LSE, LSE.replace("logf", "log2f")),), "lse_base_2", "natural"),
    Wrong("lse without the maximum", ((LSE, LSE.replace("m[half] + ", "")),), "lse_without_max", "m + log(l)"),
    Wrong("lse not stored", ((LSE, ""),), "unwritten", "lse"),
    Wrong(
        "heads by modulo",
        ((KV_HEAD, KV_HEAD.replace("blockIdx.y / num_q_per_kv;", "blockIdx.y % (gridDim.y / num_q_per_kv);")),),
        "gqa_modulo",
        "h / 2",
    ),
    Wrong(
        "batch stride", ((KV_HEAD, KV_HEAD.replace("(gridDim.y / num_q_per_kv)", "gridDim.y")),), "out_of_bounds", ""
    ),
    Wrong(
        "batch forgotten", ((KV_HEAD, "const size_t kv_head = blockIdx.y / num_q_per_kv;"),), "batch_stride", "batch 1"
    ),
    Wrong("rows stored past the end", ((ROW_GUARD, ""),), "out_of_bounds", ""),
    Wrong("zeros", ((PAIR, "__floats2half2_rn(0.0f, 0.0f);"),), "all_zeros", "out"),
]
