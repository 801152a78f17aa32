"""The kernels of chapter 04 in CUDA on floats: tiles with tails, and rows that lie apart.

May import: spec, matmul_cases, matmul_readings, matmul_traffic.
"""

from ..exercise.spec import Exercise
from ..subjects.matmul import cases as cases
from ..subjects.matmul.diagnostics import diagnose_matmul
from .matmul_traffic import conflicts, reuse

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")
FLAT = (8, 32)  # rows and columns of the result of a block of 04.1
SQUARE = (32, 32)  # the same for 04.2
BLOCK_K = 32  # in both

TAILS = Exercise(
    id="04.1",
    title="A tile with tails",
    language="cuda",
    entry="tile_matmul_kernel",
    signature=(
        'extern "C" __global__ void tile_matmul_kernel(const float* a, const float* b, float* out, int size_m,\n'
        "                                              int size_n, int size_k)"
    ),
    contract=(
        "a (size_m, size_k), b (size_k, size_n), out (size_m, size_n) = a b, float, contiguous, any sizes >= 1. A "
        "block "
        "of (32, 8) threads has a tile of BLOCK_M = 8 rows and BLOCK_N = 32 columns of out, grid "
        "(ceil(size_n / 32), ceil(size_m / 8)). Tiles of a and b of BLOCK_K = 32 numbers of k go through a_smem and "
        "b_smem; a block reads each number that it needs from global memory once."
    ),
    size_lines=13,
    minutes=25,
    solution="kernels_cu/matmul_exercises/01_tile_with_tails.cu",
    cases=(
        cases.case("one number", 1, 1, 1, "whole numbers", schedules=ALL_SCHEDULES),
        cases.case("less than a tile", 5, 7, 3, schedules=ALL_SCHEDULES),
        cases.case("exactly one tile", 8, 32, 32, schedules=("forward", "reverse")),
        cases.case("one above a tile", 9, 33, 33, schedules=ALL_SCHEDULES),
        cases.case("one below a tile", 7, 31, 31, schedules=("random",)),
        cases.case("tall", 45, 3, 20, schedules=("forward",)),
        cases.case("wide", 3, 70, 5, schedules=("forward",)),
        cases.case("long sums", 6, 9, 203, schedules=("reverse",)),
        cases.case("positive numbers", 4, 40, 300, "positive"),
        cases.case("whole tiles", 16, 64, 64, schedules=("forward",)),
        cases.case("ragged", 67, 101, 53),
    ),
    make_inputs=cases.inputs,
    make_run=lambda case, tensors: cases.run(case, tensors, tile=FLAT, block=(32, 8)),
    oracle=cases.oracle,
    baseline=cases.baseline(),
    rules={"out": "forward"},
    hints=(
        "A tile of a has 8 x 32 numbers, one for each thread. A tile of b has 32 x 32, four for each thread. In "
        "either, "
        "what lies beyond the matrix is 0, and every thread takes part in the loads, those outside of out as well.",
        "Load, barrier, 32 products, barrier, next tile; out is written once, behind the loop. a needs two conditions "
        "(row < size_m, k < size_k), b two (k < size_k, col < size_n), out two (row < size_m, col < size_n).",
        "for (int tile_k = tile_row; tile_k < BLOCK_K; tile_k += BLOCK_M) b_smem[tile_k][tile_col] = k_start + tile_k "
        "< "
        "size_k && col < size_n ? b[(size_t)(k_start + tile_k) * size_n + col] : 0.0f;",
    ),
    explanation=(
        "The 0 in the tails lets every thread run the same 32 products, so no condition stands in the inner loop, and "
        "no thread leaves before a barrier that the others wait at.\n\n"
        "A flat tile of 8 x 32 reads each number of a once for 32 columns, but each number of b again for every 8 "
        "rows: "
        "2 * 8 * 32 / (8 + 32) / 4 = 3.2 FLOP for each byte. A square tile of the same 256 threads has 4."
    ),
    probes=cases.probes(11, 37, 69, square=37),
    diagnose=lambda evidence: diagnose_matmul(evidence, BLOCK_K),
    ledger_rule=lambda case, ledger: reuse(case, ledger, FLAT),
    bound_bytes=cases.fewest_bytes,
    usual_bytes=lambda case: cases.tiled_bytes(case, FLAT),
    question="Which numbers does a block read twice?",
    tile=lambda case: FLAT,
)


def _padded_rule(case, ledger):
    whole = case.sizes["size_m"] % SQUARE[0] == 0 and case.sizes["size_n"] % SQUARE[1] == 0
    return conflicts(case, ledger) or reuse(case, ledger, SQUARE) if whole else None


PADDED = Exercise(
    id="04.2",
    title="Pad away the bank conflict",
    language="cuda",
    entry="matmul_transposed_kernel",
    signature=(
        'extern "C" __global__ void matmul_transposed_kernel(const float* a, const float* b, float* out, int size_m,\n'
        "                                                    int size_n, int size_k)"
    ),
    contract=(
        "a (size_m, size_k), b (size_n, size_k), out (size_m, size_n) = a b^T, float, contiguous; size_k is a multiple "
        "of 4. Blocks of (32, 8) threads, one 32 x 32 tile of out each. No bank conflict in shared memory, neither "
        "in loads nor in stores."
    ),
    size_lines=1,
    minutes=10,
    solution="kernels_cu/matmul_exercises/02_padded_rows.cu",
    cases=(
        cases.case("one number, four of k", 1, 1, 4, "whole numbers", schedules=ALL_SCHEDULES),
        cases.case("less than a tile", 5, 7, 12, schedules=("forward", "reverse")),
        cases.case("exactly one tile", 32, 32, 32, schedules=("forward", "random")),
        cases.case("one above a tile", 33, 33, 36, schedules=ALL_SCHEDULES),
        cases.case("wide", 3, 70, 8, schedules=("forward",)),
        cases.case("whole tiles", 64, 64, 64, schedules=("forward",)),
        cases.case("ragged", 67, 101, 52),
    ),
    make_inputs=cases.transposed_inputs,
    make_run=lambda case, tensors: cases.run(case, tensors, tile=SQUARE, block=(32, 8)),
    oracle=cases.transposed_oracle,
    baseline=cases.baseline(transposed=True),
    rules={"out": "forward"},
    hints=(
        "Lane 0 reads b_smem[0][k], lane 1 b_smem[1][k]. How many words lie between them, and in which banks do the "
        "four words of a float4 lie?",
        "A float4 of a warp is served in four rounds of eight lanes. Eight lanes want 8 * 4 = 32 words: there is no "
        "conflict when they lie in 32 different banks. And a float4 must start at a multiple of 16 bytes.",
        "The distance between two rows must be a multiple of 4 words, and not a multiple of 8: then eight rows begin "
        "at the banks 0, 4, 8, … in some order. Declare b_smem with BLOCK + 4 columns.",
    ),
    explanation=(
        "One column more, the cure of 01.3, would break the alignment of the float4. Four columns more keep it: row r "
        "begins in bank 4 r mod 32, so that eight rows begin in eight different groups of four banks.\n\n"
        "b_smem is what q k^T needs as well: keys lie in memory as rows, and each lane wants a row. The swizzle of "
        "common/swizzle.cuh gets the same without the 512 bytes, and that is what the tensor core kernels do."
    ),
    probes=cases.probes(35, 37, 68, square=36),
    diagnose=lambda evidence: diagnose_matmul(evidence, BLOCK_K),
    ledger_rule=_padded_rule,
    bound_bytes=cases.fewest_bytes,
    usual_bytes=lambda case: cases.tiled_bytes(case, SQUARE),
    question="Which numbers does a block read twice?",
    tile=lambda case: SQUARE,
)
