"""Right answers to 11.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

SUM = (
    "for (int i = 0; i < COLS; ++i) acc[i] = acc[i] * alpha + weight * part_out[row * HEAD_DIM + lane + i * WARP_SIZE];"
)

LOOP = """    float m = NEG_INF, l = 0.0f, acc[COLS] = {};  // acc (COLS,)
    for (int part = first; part < end; ++part) {
        const int row = part * num_heads + head;
        const float score = part_lse[row];
        if (score == NEG_INF) continue;  // no key: its part_out is undefined
        const float m_new = fmaxf(m, score), alpha = expf(m - m_new), weight = expf(score - m_new);
        l = l * alpha + weight;
        {SUM}
        m = m_new;
    }
""".replace("{SUM}", SUM)

TWO_SWEEPS = """    float m = NEG_INF, l = 0.0f, acc[COLS] = {};
    for (int part = first; part < end; ++part) m = fmaxf(m, part_lse[part * num_heads + head]);
    for (int part = end - 1; part >= first; --part) {
        const int row = part * num_heads + head;
        const float weight = m == NEG_INF ? 0.0f : expf(part_lse[row] - m);
        if (weight == 0.0f) continue;
        l += weight;
        for (int i = 0; i < COLS; ++i) acc[i] += weight * part_out[row * HEAD_DIM + lane + i * WARP_SIZE];
    }
"""

LANES = """    float m = NEG_INF, l = 0.0f, acc[COLS] = {};
    for (int start = first; start < end; start += 32) {
        const float mine = start + lane < end ? part_lse[(start + lane) * num_heads + head] : NEG_INF;
        for (int i = 0; i < min(32, end - start); ++i) {
            const float score = __shfl_sync(~0u, mine, i);
            if (score == NEG_INF) continue;
            const float m_new = fmaxf(m, score), alpha = expf(m - m_new), weight = expf(score - m_new);
            const float* row = part_out + ((start + i) * num_heads + head) * HEAD_DIM;
            for (int d = 0; d < COLS; ++d) acc[d] = acc[d] * alpha + weight * row[lane + 32 * d];
            l = l * alpha + weight;
            m = m_new;
        }
    }
"""

ANSWERS = [
    Right("the maximum first, then the parts from the last", ((LOOP, TWO_SWEEPS),)),
    Right("a part's lse a lane, handed round by shuffles", ((LOOP, LANES),)),
    Right("every lane writes lse", (("if (lane == 0) lse[row]", "lse[row]"),)),
    Right(
        "in base 2",
        (
            ("const float score = part_lse[row];", "const float score = part_lse[row] * LOG2_E;"),
            (
                "alpha = expf(m - m_new), weight = expf(score - m_new)",
                "alpha = exp2f(m - m_new), weight = exp2f(score - m_new)",
            ),
            ("lse[row] = m + logf(l)", "lse[row] = (m + log2f(l)) * LN_2"),
        ),
    ),
    Right(
        "neighbouring columns a lane",
        (
            ("part_out[row * HEAD_DIM + lane + i * WARP_SIZE]", "part_out[row * HEAD_DIM + lane * COLS + i]"),
            ("out[row * HEAD_DIM + lane + i * WARP_SIZE] =", "out[row * HEAD_DIM + lane * COLS + i] ="),
        ),
    ),
    Right(
        "acc is the mean so far",
        (
            ("l = l * alpha + weight;", "const float l_new = l * alpha + weight, old = l * alpha / l_new;"),
            ("acc[i] = acc[i] * alpha + weight * part_out", "acc[i] = acc[i] * old + weight / l_new * part_out"),
            ("m = m_new;", "m = m_new;\n        l = l_new;"),
            ("acc[i] / l :", "acc[i] :"),
        ),
    ),
]
