"""Right answers to 09.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

NEXT_KEY = """    for (int key = first; key < end; ++key) {
"""
TWO_KEYS = """    int key = first;
    for (; key + 1 < end; key += 2) {
        const float2 k0 = __half22float2(k_rows[(size_t)key * WARP_SIZE + lane]);
        const float2 k1 = __half22float2(k_rows[(size_t)(key + 1) * WARP_SIZE + lane]);
        const float2 v0 = __half22float2(v_rows[(size_t)key * WARP_SIZE + lane]);
        const float2 v1 = __half22float2(v_rows[(size_t)(key + 1) * WARP_SIZE + lane]);
        const float s0 = warp_sum(q_reg.x * k0.x + q_reg.y * k0.y) * softmax_scale;
        const float s1 = warp_sum(q_reg.x * k1.x + q_reg.y * k1.y) * softmax_scale;
        const float m_new = fmaxf(m, fmaxf(s0, s1));
        const float alpha = exp_shifted(m, m_new), w0 = exp_shifted(s0, m_new), w1 = exp_shifted(s1, m_new);
        l = l * alpha + w0 + w1;
        acc.x = acc.x * alpha + w0 * v0.x + w1 * v1.x;
        acc.y = acc.y * alpha + w0 * v0.y + w1 * v1.y;
        m = m_new;
    }
    for (; key < end; ++key) {
"""
SCORE = "const float score = warp_sum(q_reg.x * k_reg.x + q_reg.y * k_reg.y) * softmax_scale;"
ALPHA = "const float alpha = exp_shifted(m, m_new), weight = exp_shifted(score, m_new);"
LSE = "partial_lse[offset] = m + logf(l);"

ANSWERS = [
    Right("every lane writes lse, all the same number", (("if (lane == 0) partial_lse", "partial_lse"),)),
    Right("two keys at a time", ((NEXT_KEY, TWO_KEYS),)),
    Right("last key first", (("int key = first; key < end; ++key", "int key = end - 1; key >= first; --key"),)),
    Right("offsets in int", (("k_rows[(size_t)key *", "k_rows[key *"), ("v_rows[(size_t)key *", "v_rows[key *"))),
    Right(
        "the lowest float as the first maximum",
        (
            ("const size_t kv_head", "m = -3.4e38f;\n    const size_t kv_head"),
            (ALPHA, "const float alpha = expf(m - m_new), weight = expf(score - m_new);"),
        ),
    ),
    Right(
        "base 2",
        (
            (SCORE, SCORE.replace("* softmax_scale", "* (softmax_scale * LOG2_E)")),
            (ALPHA, "const float alpha = exp2f(m - m_new), weight = exp2f(score - m_new);"),
            (LSE, "partial_lse[offset] = (m + log2f(l)) * LN_2;"),
        ),
    ),
    Right(
        "lanes in another order",
        (("const int lane = threadIdx.x, split", "const int lane = threadIdx.x ^ 5, split"),),
    ),
]
