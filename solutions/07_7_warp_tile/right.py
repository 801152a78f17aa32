"""Right answers to 07.7 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

MASK = "scores[n][i] = key < seq_len_kv ? scores[n][i] * softmax_scale : NEG_INF;"
ALPHA = "const float alpha = exp_shifted(m[half], m_new);"
PROBS = "scores[n][i] = exp_shifted(scores[n][i], m_new);"
LSE = "lse[q_row] = m[half] + logf(l[half]);"
L = "l[half] = l[half] * alpha + quad_sum(tile_sum);"
LOOP = "for (int kv_start = 0; kv_start < seq_len_kv; kv_start += TILE) {"

# Keys by plain loads: a b fragment is two neighbouring halves of a row of k.
PLAIN_LOADS = """for (int n = 0; n < 2; ++n) {
                for (int high = 0; high < 2; ++high) {
                    const int chunk = 2 * step + high;
                    k_reg[n][high] = *reinterpret_cast<const unsigned*>(
                        k_smem + swizzle_offset<HEAD_DIM * 2>(n * 8 + lane / 4, chunk) + lane % 4 * 4);
                }
            }"""
LDMATRIX = """ldmatrix_x4(k_reg[0][0], k_reg[0][1], k_reg[1][0], k_reg[1][1],
                        k_smem + swizzle_offset<HEAD_DIM * 2>(lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));"""

ANSWERS = [
    Right("k by plain loads", ((LDMATRIX, PLAIN_LOADS),)),
    Right(
        "base 2",
        (
            (MASK, MASK.replace("* softmax_scale", "* (softmax_scale * LOG2_E)")),
            (ALPHA, "const float alpha = exp2f(m[half] - m_new);"),
            (PROBS, "scores[n][i] = exp2f(scores[n][i] - m_new);"),
            (LSE, "lse[q_row] = (m[half] + log2f(l[half])) * LN_2;"),
        ),
    ),
    Right(
        "l added over the four lanes at the end",
        (
            (L, "l[half] = l[half] * alpha + tile_sum;"),
            (
                "const int q_row = q_start + lane / 4 + half * 8;",
                "l[half] = quad_sum(l[half]);\n        const int q_row = q_start + lane / 4 + half * 8;",
            ),
        ),
    ),
    Right(
        "keys from the last tile to the first",
        ((LOOP, "for (int kv_start = (seq_len_kv - 1) / TILE * TILE; kv_start >= 0; kv_start -= TILE) {"),),
    ),
    Right("a barrier more", ((LOOP, LOOP + "\n        __syncwarp();"),)),
    Right(
        "v loaded after the softmax",
        (
            ("        load_tile(v_smem, v, kv_start, seq_len_kv);\n", ""),
            (
                "        const unsigned probs[4] = {",
                "        load_tile(v_smem, v, kv_start, seq_len_kv);\n        __syncwarp();\n"
                "        const unsigned probs[4] = {",
            ),
        ),
    ),
    Right(
        "rescaled only where the maximum grew",
        (
            ("acc[j][2 * half] *= alpha;", "if (alpha < 1.0f) acc[j][2 * half] *= alpha;"),
            ("acc[j][2 * half + 1] *= alpha;", "if (alpha < 1.0f) acc[j][2 * half + 1] *= alpha;"),
        ),
    ),
]
