"""Right answers to 09.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# Every thread makes the weights again for itself: no shared memory, no barrier, one walk over the splits.
NO_BARRIER = """#include "common/softmax_state.cuh"
#define HEAD_DIM 128

extern "C" __global__ void __launch_bounds__(64)
combine_kernel(const float* partial_out, const float* partial_lse, float* out, float* lse, int num_splits,
               int num_rows) {
    const size_t row = blockIdx.x;
    for (int d = threadIdx.x; d < HEAD_DIM; d += blockDim.x) {
        float m = NEG_INF, l = 0.0f, acc = 0.0f;
        for (int s = num_splits - 1; s >= 0; --s) {
            const float one = partial_lse[s * num_rows + row];
            if (one == NEG_INF) continue;
            const float m_new = fmaxf(m, one), alpha = exp_shifted(m, m_new), weight = expf(one - m_new);
            acc = acc * alpha + weight * partial_out[(s * num_rows + row) * HEAD_DIM + d];
            l = l * alpha + weight;
            m = m_new;
        }
        out[row * HEAD_DIM + d] = l > 0.0f ? acc / l : 0.0f;
        if (d == 0) lse[row] = l > 0.0f ? m + logf(l) : NEG_INF;
    }
}
"""

WALK = "for (int s = threadIdx.x; s < num_splits; s += WARP_SIZE)"

ANSWERS = [
    Right("no shared memory, last split first", text=NO_BARRIER),
    Right(
        "divided at the end",
        (
            (f"{WALK} weight_smem[s] /= l > 0.0f ? l : 1.0f;", ""),
            ("float acc = 0.0f;", "float acc = 0.0f, l = 0.0f;"),
            ("if (weight > 0.0f) acc", "l += weight;\n            if (weight > 0.0f) acc"),
            ("= acc;", "= l > 0.0f ? acc / l : 0.0f;"),
        ),
    ),
    Right(
        "weights in base 2, from lse itself",
        (
            (
                "exp_shifted(partial_lse[s * (size_t)num_rows + row], m)",
                "m == NEG_INF ? 0.0f : exp2f((partial_lse[s * (size_t)num_rows + row] - m) * LOG2_E)",
            ),
        ),
    ),
]
