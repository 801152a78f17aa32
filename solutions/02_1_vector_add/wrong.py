"""Wrong answers to 02.1, each an edit of kernels_cu/vector/02_tail.cu."""

from course_lib.grading.exercise.submissions import Wrong

PLACE = "const int i = blockIdx.x * blockDim.x + threadIdx.x;"
GUARD = "if (i < num_elements) {"
WORK = "out[i] = x[i] + y[i];"

ANSWERS = [
    # the guard
    Wrong("no guard", ((GUARD, "{"),), "out_of_bounds", "x"),
    Wrong(
        "read before the guard",
        ((GUARD, "const float sum = x[i] + y[i];\n    " + GUARD), (WORK, "out[i] = sum;")),
        "out_of_bounds",
        "x",
    ),
    Wrong("one too many", ((GUARD, "if (i <= num_elements) {"),), "out_of_bounds", "x"),
    Wrong(
        "guard round the reads alone",
        ((WORK, "out[i] = i < num_elements ? x[i] + y[i] : 0.0f;"), (GUARD, "{")),
        "out_of_bounds",
        "out",
    ),
    Wrong("one too few", ((GUARD, "if (i < num_elements - 1) {"),), "unwritten", "Nothing was written"),
    Wrong(
        "rounded down to whole blocks",
        ((GUARD, "if (i < num_elements / blockDim.x * blockDim.x) {"),),
        "unwritten",
        "Nothing was written",
    ),
    Wrong(
        "guard on the block",
        ((GUARD, "if (blockIdx.x < num_elements / blockDim.x) {"),),
        "unwritten",
        "Nothing was written",
    ),
    Wrong("guard on the thread", ((GUARD, "if (threadIdx.x < num_elements) {"),), "out_of_bounds", "x"),
    Wrong(
        "guard in place of the last element",
        ((GUARD, "if (i >= num_elements) out[num_elements - 1] = 0.0f; else {"),),
        "race",
        "out",
    ),
    # the place
    Wrong("place in the block alone", ((PLACE, "const int i = threadIdx.x;"),), "unwritten", "element 64"),
    Wrong("number of the block alone", ((PLACE, "const int i = blockIdx.x;"),), "unwritten", "elements 1 to 62"),
    Wrong(
        "blocks of 32 taken for granted",
        ((PLACE, "const int i = blockIdx.x * 32 + threadIdx.x;"),),
        "unwritten",
        "elements",
    ),
    Wrong(
        "gridDim for blockDim",
        ((PLACE, "const int i = blockIdx.x * gridDim.x + threadIdx.x;"),),
        "unwritten",
        "elements",
    ),
    Wrong(
        "counted from one",
        ((PLACE, "const int i = blockIdx.x * blockDim.x + threadIdx.x + 1;"),),
        "unwritten",
        "Nothing was written",
    ),
    Wrong("neighbour's element", ((WORK, "out[i] = x[i] + y[i ? i - 1 : 0];"),), "wrong_values", ""),
    Wrong("writes backwards", ((WORK, "out[num_elements - 1 - i] = x[i] + y[i];"),), "wrong_place", "another thread"),
    # the work
    Wrong("subtracts", ((WORK, "out[i] = x[i] - y[i];"),), "wrong_operation", "subtracted"),
    Wrong("multiplies", ((WORK, "out[i] = x[i] * y[i];"),), "wrong_operation", "product"),
    Wrong("x twice", ((WORK, "out[i] = x[i] + x[i];"),), "input_ignored", "y does not enter"),
    Wrong("adds onto the output", ((WORK, "out[i] += x[i] + y[i];"),), "uninitialised_read", "out"),
    Wrong(
        "rounded to half",
        (
            ('extern "C"', '#include <cuda_fp16.h>\nextern "C"'),
            (WORK, "out[i] = __half2float(__float2half(x[i] + y[i]));"),
        ),
        "low_precision",
        "half",
    ),
    # not the task
    Wrong("copy of x", ((WORK, "out[i] = x[i];"),), "copy_of_input", "input x"),
    Wrong("zeros", ((WORK, "out[i] = 0.0f;"),), "all_zeros", "nothing was computed"),
    Wrong("nothing stored", ((WORK, ""),), "unwritten", "Nothing was written"),
    Wrong("semicolon missing", ((WORK, "out[i] = x[i] + y[i]"),), "compile_error", ""),
    Wrong("another name", (("add_tail_kernel(", "add_kernel("),), "missing_function", "add_tail_kernel"),
]
