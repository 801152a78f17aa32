"""Right answers to 05.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# Everything by one warp's worth of steps: thread 0 reduces alone, q times k with a thread a column is not needed.
ONE_THREAD = """extern "C" __global__ void
naive_attention_kernel(const float* q, const float* k, const float* v, float* probs, float* out, int num_heads,
                       int seq_len_q, int seq_len_kv, int head_dim, float softmax_scale) {
    __shared__ float m_smem, l_smem;
    const long long head = (long long)blockIdx.z * num_heads + blockIdx.y, row = head * seq_len_q + blockIdx.x;
    float* weights = probs + row * seq_len_kv;
    for (int key = threadIdx.x; key < seq_len_kv; key += blockDim.x) {
        float dot = 0.0f;
        for (int d = head_dim - 1; d >= 0; --d)
            dot = fmaf(q[row * head_dim + d] * softmax_scale, k[(head * seq_len_kv + key) * head_dim + d], dot);
        weights[key] = dot;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float m = weights[0], l = 0.0f;
        for (int key = 1; key < seq_len_kv; ++key) m = fmaxf(m, weights[key]);
        for (int key = 0; key < seq_len_kv; ++key) l += expf(weights[key] - m);
        m_smem = m;
        l_smem = l;
    }
    __syncthreads();
    const float m = m_smem, l = l_smem;
    for (int key = threadIdx.x; key < seq_len_kv; key += blockDim.x) weights[key] = expf(weights[key] - m) / l;
    __syncthreads();
    for (int d = threadIdx.x; d < head_dim; d += blockDim.x) {
        float acc = 0.0f;
        for (int key = seq_len_kv - 1; key >= 0; --key)
            acc += weights[key] * v[(head * seq_len_kv + key) * head_dim + d];
        out[row * head_dim + d] = acc;
    }
}
"""

ANSWERS = [
    Right("one thread reduces", text=ONE_THREAD),
    Right("base 2", (("dot * softmax_scale;", "dot * (softmax_scale * 1.4426950408889634f);"), ("expf(", "exp2f("))),
    Right(
        "divided at the end",
        (
            ("acc += probs_row[key] * v_head", "acc += (probs_row[key] * 4.0f) * v_head"),
            ("out_row[d] = acc;", "out_row[d] = acc / 4.0f;"),
        ),
    ),
    Right(
        "a warp for each score",
        (
            (
                "    for (int key = threadIdx.x; key < seq_len_kv; key += BLOCK) {\n        float dot = 0.0f;\n"
                "        for (int d = 0; d < head_dim; ++d) dot",
                "    const int lane = threadIdx.x % 32;\n"
                "    for (int key = threadIdx.x / 32; key < seq_len_kv; key += BLOCK / 32) {\n"
                "        float dot = 0.0f;\n        for (int d = lane; d < head_dim; d += 32) dot",
            ),
            (
                "        probs_row[key] = dot * softmax_scale;\n"
                "        m_thread = fmaxf(m_thread, probs_row[key]);\n    }",
                "        for (int step = 16; step > 0; step /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, step);\n"
                "        if (lane == 0) probs_row[key] = dot * softmax_scale;\n"
                "        m_thread = fmaxf(m_thread, dot * softmax_scale);\n    }\n    __syncthreads();",
            ),
        ),
    ),
    Right(
        "columns from the last one, weights times 1 / l",
        (
            (
                "for (int d = threadIdx.x; d < head_dim; d += BLOCK) {",
                "for (int d = head_dim - 1 - (int)threadIdx.x; d >= 0; d -= BLOCK) {",
            ),
            ("probs_row[key] /= l;", "probs_row[key] *= 1.0f / l;"),
        ),
    ),
    Right(
        "one thread adds up the exponentials",
        (
            (
                "    const float l = block_sum(l_thread, reduce_smem);\n",
                "    __syncthreads();\n    if (threadIdx.x == 0) {\n        l_thread = 0.0f;\n"
                "        for (int key = 0; key < seq_len_kv; ++key) l_thread += probs_row[key];\n"
                "        reduce_smem[0] = l_thread;\n    }\n    __syncthreads();\n"
                "    const float l = reduce_smem[0];\n",
            ),
        ),
    ),
]
