"""Right answers to 01.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

PLACE = "const int i = first + k * blockDim.x + threadIdx.x;"

VECTORS = """extern "C" __global__ void copy_kernel(const float* x, float* out, int n) {
    const int stride = gridDim.x * blockDim.x;
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const float4* x4 = (const float4*)x;
    float4* out4 = (float4*)out;
    for (int i = thread; i < n / 4; i += stride) out4[i] = x4[i];
    for (int i = n / 4 * 4 + thread; i < n; i += stride) out[i] = x[i];
}
"""
RUNS_OF_VECTORS = """extern "C" __global__ void copy_kernel(const float* x, float* out, int n) {
    const int first = blockIdx.x * blockDim.x * 8;
    for (int k = 0; k < 2; ++k) {
        const int i = first + 4 * (k * blockDim.x + threadIdx.x);
        if (i + 3 < n) {
            *(float4*)(out + i) = *(const float4*)(x + i);
        } else {
            for (int j = i; j < n; ++j) out[j] = x[j];
        }
    }
}
"""

ANSWERS = [
    Right(
        "steps of the whole grid",
        ((PLACE, "const int i = k * gridDim.x * blockDim.x + blockIdx.x * blockDim.x + threadIdx.x;"),),
    ),
    Right(
        "each warp its own 256", ((PLACE, "const int i = first + threadIdx.x / 32 * 256 + k * 32 + threadIdx.x % 32;"),)
    ),
    Right(
        "from the end to the start",
        ((PLACE, "const int i = first + (PER_THREAD - 1 - k) * blockDim.x + blockDim.x - 1 - threadIdx.x;"),),
    ),
    Right("four numbers a lane", text=VECTORS),
    Right("eight numbers a lane in two vectors", text=RUNS_OF_VECTORS),
    Right(
        "lanes turned on by one", ((PLACE, "const int i = first + k * blockDim.x + (threadIdx.x + 1) % blockDim.x;"),)
    ),
    Right("lanes in pairs exchanged", ((PLACE, "const int i = first + k * blockDim.x + (threadIdx.x ^ 1);"),)),
]
