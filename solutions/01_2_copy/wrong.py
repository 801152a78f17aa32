"""Wrong answers to 01.2, each an edit of kernels_cu/copy/02_interleaved.cu."""

from course_lib.grading.exercise.submissions import Wrong

FIRST = "const int first = blockIdx.x * blockDim.x * PER_THREAD;"
LOOP = "for (int k = 0; k < PER_THREAD; ++k) {"
PLACE = "const int i = first + k * blockDim.x + threadIdx.x;"
COPY = "if (i < n) out[i] = x[i];"


def place(text):
    """The solution with another number for thread and step."""
    return ((PLACE, f"const int i = {text};"),)


VIA_SHARED = """__shared__ float run_smem[1024 * PER_THREAD];
    for (int k = 0; k < PER_THREAD; ++k) {
        const int i = first + k * blockDim.x + threadIdx.x;
        if (i < n) run_smem[i - first] = x[i];
    }
    __syncthreads();
    for (int k = 0; k < PER_THREAD; ++k) {
        const int i = first + threadIdx.x * PER_THREAD + k;
        if (i < n) out[i] = run_smem[i - first];
    }
    for (int k = 0; k < 0; ++k) {"""

ANSWERS = [
    # right values, wrong way
    Wrong("as it was given", place("first + threadIdx.x * PER_THREAD + k"), "uncoalesced", "a sector to itself"),
    Wrong(
        "lanes two numbers apart",
        place("first + k / 2 * 2 * blockDim.x + 2 * threadIdx.x + k % 2"),
        "uncoalesced",
        "8 sectors for one request",
    ),
    Wrong(
        "lanes four numbers apart",
        place("first + k / 4 * 4 * blockDim.x + 4 * threadIdx.x + k % 4"),
        "uncoalesced",
        "16 sectors for one request",
    ),
    Wrong(
        "eight lanes at a time",
        place("first + threadIdx.x % 8 * 64 + threadIdx.x / 8 * 8 + k"),
        "uncoalesced",
        "32 sectors for one request of 32 numbers",
    ),
    Wrong("only the loads mended", ((LOOP, VIA_SHARED),), "uncoalesced_store", "The loads are in order"),
    Wrong(
        "one lane for the warp",
        (
            (
                COPY,
                "for (int lane = 0; lane < 32 && threadIdx.x % 32 == 0; ++lane)\n"
                "            if (i + lane < n) out[i + lane] = x[i + lane];",
            ),
        ),
        "few_lanes",
        "only 1 of 32 lanes",
    ),
    Wrong(
        "everything twice",
        (
            (LOOP, "for (int k = 0; k < 2 * PER_THREAD; ++k) {"),
            (PLACE, "const int i = first + k / 2 * blockDim.x + threadIdx.x;"),
        ),
        "extra_traffic",
        "each is read 2 times",
    ),
    # wrong values
    Wrong("steps of a warp", place("first + k * 32 + threadIdx.x"), "unwritten"),
    Wrong("the step forgotten", place("first + threadIdx.x"), "unwritten"),
    Wrong("steps of the whole grid", place("first + k * gridDim.x * blockDim.x + threadIdx.x"), "unwritten"),
    Wrong("the step in the wrong place", place("first + k + threadIdx.x"), "unwritten"),
    Wrong("the block's start forgotten", place("k * blockDim.x + threadIdx.x"), "unwritten"),
    Wrong("blocks without their runs", ((FIRST, "const int first = blockIdx.x * blockDim.x;"),), "unwritten"),
    Wrong("half of the steps", ((LOOP, "for (int k = 0; k < PER_THREAD / 2; ++k) {"),), "unwritten", "never written"),
    Wrong("the guard taken away", ((COPY, "out[i] = x[i];"),), "out_of_bounds", "x"),
    Wrong("one too many", ((COPY, "if (i <= n) out[i] = x[i];"),), "out_of_bounds", "x"),
    Wrong("turned round", ((COPY, "if (i < n) out[i] = x[n - 1 - i];"),), "wrong_place", "out[0] holds x["),
    Wrong("a letter lost", ((COPY, "if (i < n) out[i] = x[j];"),), "compile_error", "j"),
]
