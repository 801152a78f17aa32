"""Right answers to 02.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

HEAD = """extern "C" __global__ void
add_tail_kernel(const float* x, const float* y, float* out, int num_elements) {
"""

ANSWERS = [
    Right(
        "leaves early",
        text=HEAD
        + """    const int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= num_elements) return;
    out[i] = y[i] + x[i];
}
""",
    ),
    Right(
        "a loop over the grid",
        text=HEAD
        + """    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < num_elements; i += gridDim.x * blockDim.x) {
        out[i] = x[i] + y[i];
    }
}
""",
    ),
    Right(
        "from the last element to the first",
        text=HEAD
        + """    const int from_end = blockIdx.x * blockDim.x + threadIdx.x;
    const int i = num_elements - 1 - from_end;
    if (i >= 0) out[i] = x[i] + y[i];
}
""",
    ),
    Right(
        "neighbouring elements far apart",
        text=HEAD
        + """    const int i = threadIdx.x * gridDim.x + blockIdx.x;
    if (i < num_elements) out[i] = x[i] + y[i];
}
""",
        remark="neighbouring lanes",
    ),
    Right(
        "four elements a thread",
        text=HEAD
        + """    const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < num_elements) {
        const float4 a = *(const float4*)(x + i), b = *(const float4*)(y + i);
        *(float4*)(out + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    } else {
        for (int rest = i; rest < num_elements; ++rest) out[rest] = x[rest] + y[rest];
    }
}
""",
    ),
    Right("added in double", (("out[i] = x[i] + y[i];", "out[i] = (float)((double)x[i] + (double)y[i]);"),)),
]
