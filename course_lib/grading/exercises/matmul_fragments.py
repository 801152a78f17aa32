"""The exercise of chapter 04 on tensor cores: fragments fetched by hand.

May import: spec, matmul_cases, fragment_readings.
"""

from ..exercise.spec import Exercise
from ..subjects.matmul import cases as cases
from .fragment_readings import diagnose_fragments

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")
TILE = (16, 8)


def _case(name, size_m, size_n, size_k, values="normal", schedules=("forward",)):
    return cases.case(name, size_m, size_n, size_k, values, schedules, dtype="float16")


FRAGMENTS = Exercise(
    id="04.3",
    title="Fragments by hand",
    language="cuda",
    entry="fragment_matmul_kernel",
    signature=(
        'extern "C" __global__ void fragment_matmul_kernel(const __half* a, const __half* b, float* out, int size_n,\n'
        "                                                  int size_k)"
    ),
    contract=(
        "a (size_m, size_k) half, b (size_k, size_n) half, out (size_m, size_n) float = a b, contiguous; size_m and "
        "size_k are multiples of 16, size_n of 8. One warp has one tile of 16 x 8, grid (size_n / 8, size_m / 16). "
        "The products are done by mma_m16n8k16_f32_f16(d, a, b, c), summed in float."
    ),
    size_lines=16,
    minutes=30,
    solution="kernels_cu/matmul_exercises/03_fragments.cu",
    cases=(
        _case("one product", 16, 8, 16, schedules=ALL_SCHEDULES),
        _case("two steps of k", 16, 8, 32, schedules=("forward", "random")),
        _case("two tiles side by side", 16, 16, 16),
        _case("two tiles above each other", 32, 8, 16),
        _case("all sizes different", 32, 24, 48, schedules=("forward", "reverse")),
        _case("long sums", 16, 8, 640),
        _case("long sums of positive numbers", 16, 16, 1024, "positive", schedules=()),
        _case("many tiles", 96, 72, 64, schedules=()),
    ),
    make_inputs=cases.inputs,
    make_run=lambda case, tensors: cases.run(case, tensors, tile=TILE, block=(32,), sizes=("size_n", "size_k")),
    oracle=cases.oracle,
    baseline=cases.tensor_core_baseline,
    rules={"out": "forward"},
    hints=(
        "Take lane 5: g = 1, t = 1. Write down its eight numbers of a, its four of b and its four of out, and only "
        "then turn the three lists into formulas of g and t.",
        "a[0] row g, k 2t and 2t + 1; a[1] row g + 8; a[2] row g, k 2t + 8 and 2t + 9; a[3] row g + 8 and those k. "
        "b[0] column g, k 2t and 2t + 1; b[1] k 2t + 8 and 2t + 9. Two rows of b lie size_n numbers apart.",
        "for (int i = 0; i < 4; ++i) { const int row = g + i % 2 * 8, k = k_start + 2 * t + i / 2 * 8; a_reg[i] = "
        "pack(a[row * size_k + k], a[row * size_k + k + 1]); } and acc[i] goes to row g + i / 2 * 8, column "
        "2 * t + i % 2.",
    ),
    explanation=(
        "Every lane holds 8 numbers of a, 4 of b and 4 of the result, and no number is held twice: 32 * 8 = 16 * 16. "
        "The layout looks arbitrary, but two numbers of a register are neighbours in k, so that one register is one "
        "32-bit word of a row of a.\n\n"
        "For b the two are not neighbours in memory, which costs two loads of 16 bits each: ldmatrix with .trans does "
        "that turn for a whole tile. And out in registers looks like a in registers, twice: this is why attention can "
        "use the result of q k^T as the left factor of the next product without moving it (chapter 07)."
    ),
    probes=cases.probes(16, 8, 48, dtype="float16", square=48),
    diagnose=diagnose_fragments,
    bound_bytes=lambda case: cases.fewest_bytes(case, in_bytes=2),
    tile=lambda case: TILE,
)
