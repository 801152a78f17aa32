"""Right answers to 10.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

LOOP = "for (int key = 0; key < seq_len; ++key) {"
PAGE = "const long long page = pages[key / page_size];  // 64 bits: a pool may have more than 2^31 numbers"
OFFSET = (
    "const long long offset = page * stride_page + key % page_size * stride_slot + kv_head * stride_kv_head + lane;"
)

ANSWERS = [
    Right(
        "page by page",
        (
            (
                f"{LOOP}\n        {PAGE}\n        {OFFSET}",
                "for (int first = 0; first < seq_len; first += page_size)\n"
                "    for (int slot = 0; slot < min(page_size, seq_len - first); ++slot) {\n"
                "        const long long start = pages[first / page_size] * stride_page + kv_head * stride_kv_head;\n"
                "        const long long offset = start + slot * stride_slot + lane;",
            ),
        ),
    ),
    Right(
        "from the last token to the first",
        (("for (int key = 0; key < seq_len; ++key) {", "for (int key = seq_len - 1; key >= 0; --key) {"),),
    ),
    Right(
        "two walks: the maximum first",
        (
            (
                "    for (int key = 0; key < seq_len; ++key) {",
                "    for (int turn = 0; turn < 2; ++turn)\n    for (int key = 0; key < seq_len; ++key) {",
            ),
            (
                "        const float m_new = fmaxf(m, score);\n",
                "        if (turn == 0) {\n            m = fmaxf(m, score);\n            continue;\n        }\n",
            ),
            (
                "const float alpha = exp_shifted(m, m_new), weight = exp_shifted(score, m_new);",
                "const float weight = exp2f((score - m) * LOG2_E);",
            ),
            ("l = l * alpha + weight;", "l += weight;"),
            ("acc = acc * alpha + weight * v_pages[offset];\n        m = m_new;", "acc += weight * v_pages[offset];"),
        ),
    ),
    Right(
        "page looked up once",
        (
            (
                (
                    "    for (int key = 0; key < seq_len; ++key) {\n"
                    "        const long long page = pages[key / page_size];  // 64 bits: a pool may have "
                    "more than 2^31 numbers"
                ),
                (
                    "    long long page = 0;\n"
                    "    for (int key = 0; key < seq_len; ++key) {\n"
                    "        if (key % page_size == 0) page = pages[key / page_size];"
                ),
            ),
        ),
    ),
    Right(
        "log2 domain",
        (
            (
                "        const float score = warp_sum(q_reg * k_pages[offset]) * softmax_scale;",
                (
                    "        const float score = warp_sum(q_reg * k_pages[offset]) * (softmax_scale * "
                    "1.4426950408889634f);"
                ),
            ),
            (
                "        const float alpha = exp_shifted(m, m_new), weight = exp_shifted(score, m_new);",
                ("        const float alpha = m == NEG_INF ? 0.0f : exp2f(m - m_new), weight = exp2f(score - m_new);"),
            ),
            (
                "    if (lane == 0) lse[row] = l > 0.0f ? m + logf(l) : NEG_INF;",
                "    if (lane == 0) lse[row] = l > 0.0f ? (m + log2f(l)) * 0.6931471805599453f : NEG_INF;",
            ),
        ),
    ),
    Right(
        "a lane a key",
        (
            (
                "    for (int key = 0; key < seq_len; ++key) {",
                (
                    "    for (int first = 0; first < seq_len; first += WARP_SIZE) {\n"
                    "    float mine = NEG_INF;\n"
                    "    const int last = min(WARP_SIZE, seq_len - first);\n"
                    "    if (lane < last) {\n"
                    "        const int key = first + lane;\n"
                    "        const long long start = pages[key / page_size] * stride_page + key % "
                    "page_size * stride_slot + kv_head * stride_kv_head;\n"
                    "        mine = 0.0f;\n"
                    "        for (int d = 0; d < HEAD_DIM; ++d) mine += q[row * HEAD_DIM + d] * "
                    "k_pages[start + d];\n"
                    "        mine *= softmax_scale;\n"
                    "    }\n"
                    "    for (int i = 0; i < last; ++i) {\n"
                    "        const int key = first + i;"
                ),
            ),
            (
                "        const float score = warp_sum(q_reg * k_pages[offset]) * softmax_scale;",
                "        const float score = __shfl_sync(0xffffffffu, mine, i);",
            ),
            ("        m = m_new;", ("        m = m_new;\n    }")),
        ),
    ),
]
