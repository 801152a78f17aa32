"""The kernels of chapter 01: a copy and a transpose whose values are right from the start and whose traffic is not.

May import: spec, protocol, inputs, the shared readings of traffic.
"""

import torch

from ..exercise.spec import Case, Exercise
from ..processes.protocol import Ref, Run
from . import traffic_readings as readings

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")
PER_THREAD = 8  # numbers of a thread, as the kernel says
COPY_BLOCK = readings.WHOLE_COPY // PER_THREAD  # threads of a block while the copy is graded
TILE = readings.TILE


def _places(count, gen):
    """The numbers 0 … count - 1 in random order, as floats: each value says where it came from, exactly."""
    return torch.randperm(count, generator=gen).float()


def _copy_case(name, num_values, *schedules):
    return Case(name, {"n": num_values}, "places", schedules=schedules)


def _copy_inputs(case, gen):
    return {"x": _places(case.sizes["n"], gen)}


def _copy_run(case, tensors):
    count = tensors["x"].numel()
    grid = -(-count // (COPY_BLOCK * PER_THREAD))
    return Run(
        case.name,
        tensors,
        {"out": ((count,), "float32")},
        (Ref("x"), Ref("out"), count),
        grid=(grid, 1, 1),
        block=(COPY_BLOCK, 1, 1),
    )


COPY = Exercise(
    id="01.2",
    title="Mend an uncoalesced copy",
    language="cuda",
    entry="copy_kernel",
    signature='extern "C" __global__ void copy_kernel(const float* x, float* out, int n)',
    contract=(
        "x (n,) float, out like x: out[i] = x[i]. Any n >= 1, ceil(n / (block * PER_THREAD)) blocks of any multiple of "
        "32 threads. Loads and stores touch at most 1.3 times the fewest sectors that hold n numbers."
    ),
    size_lines=1,
    minutes=10,
    solution="kernels_cu/copy/02_interleaved.cu",
    cases=(
        _copy_case("one number", 1, *ALL_SCHEDULES),
        _copy_case("less than a block", 255, "forward", "reverse"),
        _copy_case("exactly one block", COPY_BLOCK * PER_THREAD, "forward"),
        _copy_case("one above a block", COPY_BLOCK * PER_THREAD + 1, *ALL_SCHEDULES),
        _copy_case("ragged", 1000, "random"),
        _copy_case("several blocks", 4096, "forward"),
        _copy_case("many", 100_003),
    ),
    make_inputs=_copy_inputs,
    make_run=_copy_run,
    oracle=lambda case, tensors: {"out": tensors["x"].double()},
    baseline=lambda case, tensors: {"out": tensors["x"].clone()},
    rules={"out": "exact"},
    hints=(
        "Write down, for k = 0, which number each of the lanes 0, 1, 2, 3 takes. How many bytes lie between them?",
        "A block has blockDim.x * PER_THREAD numbers to copy. In one step of the loop its threads should take "
        "blockDim.x neighbouring ones. Where does the next step begin?",
        "Step k begins at first + k * blockDim.x, and thread threadIdx.x takes the number that far behind it.",
    ),
    explanation=(
        "Only the order of the work has changed: each thread still copies PER_THREAD numbers, and each number is still "
        "copied once. But the 32 numbers that a warp asks for in one request now lie side by side, so that every "
        "sector that travels is used up at once. A CPU core wants its numbers in one piece, because a cache line "
        "serves its next steps; a warp wants them spread over its lanes, because a sector serves its neighbours."
    ),
    diagnose=readings.diagnose_places,
    ledger_rule=readings.copy_traffic,
    bound_bytes=lambda case: (8 * case.sizes["n"], f"{case.sizes['n']:,} numbers of 4 bytes read once, written once"),
    usual_bytes=lambda case: 8 * case.sizes["n"],
)


def _matrix_case(name, num_rows, num_cols, *schedules):
    return Case(name, {"num_rows": num_rows, "num_cols": num_cols}, "places", schedules=schedules)


def _matrix_inputs(case, gen):
    num_rows, num_cols = case.sizes.values()
    return {"x": _places(num_rows * num_cols, gen).reshape(num_rows, num_cols)}


def _transpose_run(case, tensors):
    num_rows, num_cols = tensors["x"].shape
    return Run(
        case.name,
        tensors,
        {"out": ((num_cols, num_rows), "float32")},
        (Ref("x"), Ref("out"), num_rows, num_cols),
        grid=(-(-num_cols // TILE), -(-num_rows // TILE), 1),
        block=(TILE, TILE, 1),
    )


def _transpose_bound(case):
    count = case.sizes["num_rows"] * case.sizes["num_cols"]
    return 8 * count, f"{count:,} numbers of 4 bytes read once, written once"


TRANSPOSE = Exercise(
    id="01.3",
    title="Mend a 32-way bank conflict",
    language="cuda",
    entry="transpose_kernel",
    signature='extern "C" __global__ void transpose_kernel(const float* x, float* out, int num_rows, int num_cols)',
    contract=(
        "x (num_rows, num_cols) float, contiguous; out (num_cols, num_rows), out[c][r] = x[r][c]. Any sizes >= 1, "
        "blocks of (32, 32) threads, one 32 x 32 tile each. No bank conflict in shared memory, and on whole tiles at "
        "most 1.3 times the fewest sectors in global memory."
    ),
    size_lines=1,
    minutes=10,
    solution="kernels_cu/transpose/03_conflict_free.cu",
    cases=(
        _matrix_case("one number", 1, 1, *ALL_SCHEDULES),
        _matrix_case("less than a tile", 5, 7, "forward", "reverse"),
        _matrix_case("exactly one tile", TILE, TILE, "forward", "reverse"),
        _matrix_case("one above a tile", TILE + 1, TILE + 1, "random"),
        _matrix_case("wide", 3, 70, "forward"),
        _matrix_case("whole tiles", TILE, 2 * TILE, "forward"),
        _matrix_case("tall", 45, 20, "resident"),
        _matrix_case("many tiles", 131, 203),
    ),
    make_inputs=_matrix_inputs,
    make_run=_transpose_run,
    oracle=lambda case, tensors: {"out": tensors["x"].double().T.contiguous()},
    baseline=lambda case, tensors: {"out": tensors["x"].T.contiguous()},
    rules={"out": "exact"},
    hints=(
        "Number the words of the tile as they lie in memory. In which bank does tile_smem[0][0] lie, and "
        "tile_smem[1][0], tile_smem[2][0]?",
        "The bank of a word is its number modulo 32, and the rows of the tile are 32 words long: a whole column "
        "lies in one bank. What if the rows had another length?",
        "Declare the tile with one column more than is used: then tile_smem[r][c] is word 33 * r + c, and stepping "
        "down a column moves on by one bank.",
    ),
    explanation=(
        "With rows of 33 words, neighbours in a row are one bank apart and neighbours in a column are 33 banks apart, "
        "which is again one. Any odd row length does it. The price is 128 bytes of shared memory; a swizzle, "
        "tile_smem[r][c ^ r], costs none, and the fast attention kernels of chapter 07 use that."
    ),
    diagnose=readings.diagnose_places,
    ledger_rule=readings.transpose_traffic,
    bound_bytes=_transpose_bound,
    usual_bytes=lambda case: _transpose_bound(case)[0],
    tile=lambda case: (TILE, TILE),
)
