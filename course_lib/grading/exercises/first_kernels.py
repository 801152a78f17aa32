"""Kernels of chapter 02 that are no softmax: vector add with a tail, sum of rows by shuffles, the missing barrier.

May import: spec, protocol, the shared cases of softmax, the readings of these exercises.
"""

import torch

from ..exercise.spec import Case, Exercise, Probe
from ..processes.protocol import Ref, Run
from ..subjects.softmax import cases as cases
from . import first_readings as readings

THREADS = 64  # of a block, while 02.1 and 02.5 are graded
EXTRA_BLOCKS = 3  # more than needed, in one case of 02.1
BLOCKS_IN_TURN = 2  # of 02.5: fewer than rows, so that a block takes one row after the other


def vector_case(name, num_elements, values="normal", schedules=(), **options):
    return Case(name, {"num_elements": num_elements}, values, options=options, schedules=schedules)


def vectors(case, gen):
    """{"x", "y": (num_elements,)}; for the probes 0, 1, 2, … beside 0 ("places"), or 0 beside 1 ("ones")."""
    count = case.sizes["num_elements"]
    if case.values == "places":
        return {"x": torch.arange(float(count)), "y": torch.zeros(count)}
    if case.values == "ones":
        return {"x": torch.zeros(count), "y": torch.ones(count)}
    return {"x": torch.randn(count, generator=gen), "y": torch.randn(count, generator=gen)}


def vector_run(case, tensors):
    count = case.sizes["num_elements"]
    blocks = -(-count // THREADS) + case.options.get("extra_blocks", 0)
    arguments = (Ref("x"), Ref("y"), Ref("out"), count)
    return Run(case.name, tensors, {"out": ((count,), "float32")}, arguments, (blocks, 1, 1), (THREADS, 1, 1))


ADD_TAIL = Exercise(
    id="02.1",
    title="Vector add with a tail",
    language="cuda",
    entry="add_tail_kernel",
    signature=(
        'extern "C" __global__ void\nadd_tail_kernel(const float* x, const float* y, float* out, int num_elements)'
    ),
    contract=(
        "x, y, out (num_elements,) float, contiguous; out = x + y. Any num_elements >= 1. The grid has at least "
        "as many threads as there are elements, and may have more: a thread without an element touches nothing."
    ),
    size_lines=4,
    minutes=10,
    solution="kernels_cu/vector/02_tail.cu",
    cases=(
        vector_case("one element", 1, schedules=cases.ALL_SCHEDULES),
        vector_case("one below a block", THREADS - 1, schedules=("forward", "reverse")),
        vector_case("exactly one block", THREADS, schedules=("forward",)),
        vector_case("one above a block", THREADS + 1, schedules=cases.ALL_SCHEDULES),
        vector_case("more blocks than needed", 300, schedules=("forward", "random"), extra_blocks=EXTRA_BLOCKS),
        vector_case("sixteen blocks and a tail", 16 * THREADS + 5, schedules=("forward",)),
        vector_case("many elements", 100_003),
    ),
    make_inputs=vectors,
    make_run=vector_run,
    oracle=lambda _case, tensors: {"out": (tensors["x"] + tensors["y"]).double()},  # one rounding: the same everywhere
    baseline=lambda _case, tensors: {"out": tensors["x"] + tensors["y"]},
    rules={"out": "exact"},
    hints=(
        "Two questions for every thread: which element is mine, and does it exist?",
        "The place is the number of threads in all blocks before mine, plus my number in my block. The last block "
        "reaches beyond the end of the arrays when num_elements is no multiple of the block.",
        "const int i = blockIdx.x * blockDim.x + threadIdx.x; and everything else inside if (i < num_elements) { … }.",
    ),
    explanation=(
        "The grid is rounded up, so that no element is left out, and the guard takes back what was rounded. On a GPU a "
        "forgotten guard often goes unnoticed: the memory behind an array usually belongs to some other array, "
        "which is then silently overwritten."
    ),
    probes=(
        Probe("places", vector_case("places", 3 * THREADS, "places"), readings.list_of_out),
        Probe("ones", vector_case("ones", 3 * THREADS, "ones"), readings.list_of_out),
    ),
    diagnose=readings.diagnose_add,
    bound_bytes=lambda case: (
        12 * case.sizes["num_elements"],
        f"x and y read once, out written once: 3 x {case.sizes['num_elements']:,} numbers of 4 bytes",
    ),
    usual_bytes=lambda case: 12 * case.sizes["num_elements"],
    tile=lambda case: (1, THREADS),
)


def sum_rows(case, gen):
    """{"x"}: for the probe "lanes" row r holds a single 1, in column r."""
    if case.values == "lanes":
        return {"x": torch.eye(case.sizes["num_rows"], case.sizes["num_cols"])}
    return cases.score_rows(case, gen)


def sequential_sum(x):
    """Sums in float32, one number after the other: from the left or from the right, whichever is further off.

    Any order is right, and a single one may happen to round to the very result: it would refuse the others.
    """
    exact = x.double().sum(dim=1)
    left, right = torch.zeros(len(x)), torch.zeros(len(x))
    for col in range(x.shape[1]):
        left, right = left + x[:, col], right + x[:, -1 - col]
    return torch.where((left - exact).abs() >= (right - exact).abs(), left, right)


ROW_SUM = Exercise(
    id="02.2",
    title="Sum of each row by warp shuffles",
    language="cuda",
    entry="row_sum_warp_kernel",
    signature='extern "C" __global__ void row_sum_warp_kernel(const float* x, float* out, int num_rows, int num_cols)',
    contract=(
        "x (num_rows, num_cols) float, contiguous; out (num_rows,) float: the sum of every row. Any num_rows, num_cols "
        ">= 1. One warp a row: its 32 lanes share the columns and add up by shuffles. No shared memory, no "
        "atomics, and one lane writes: the ledger is read. The last block may have warps without a row."
    ),
    size_lines=12,
    minutes=15,
    solution="kernels_cu/reduction/03_warp_rows.cu",
    cases=(
        cases.rows_case("one element", 1, 1, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("one below a warp", 3, 31, schedules=("forward", "reverse")),
        cases.rows_case("exactly one warp", 4, 32, schedules=("forward",)),
        cases.rows_case("one above a warp", 5, 33, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("numbers near -100", 7, 45, "minus_100", schedules=("forward",)),
        cases.rows_case("numbers near +100", 7, 45, "plus_100", schedules=("forward",)),
        cases.rows_case("rising numbers", 6, 77, "rising", schedules=("forward", "random")),
        cases.rows_case("whole strides", 8, 128, schedules=("forward",)),
        cases.rows_case("many rows", 113, 203),
    ),
    make_inputs=sum_rows,
    make_run=lambda case, tensors: cases.rows_run(
        case,
        tensors,
        output="sums",
        rows_per_block=readings.WARPS_PER_BLOCK,
        threads=readings.WARPS_PER_BLOCK * cases.WARP_SIZE,
    ),
    oracle=lambda _case, tensors: {"sums": tensors["x"].double().sum(dim=1)},
    baseline=lambda _case, tensors: {"sums": sequential_sum(tensors["x"])},
    rules={"sums": "forward"},
    hints=(
        "Three steps: each lane adds up its own columns in a register; five shuffles bring the 32 sums together; one "
        "lane writes.",
        "__shfl_down_sync(ALL_LANES, sum, offset) returns the sum of the lane `offset` further on. With offset 16, 8, "
        "4, 2, 1 lane 0 ends up with everything. All 32 lanes must arrive at each shuffle.",
        "for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(ALL_LANES, sum, offset); and in "
        "the end if (lane == 0) out[row] = sum;",
    ),
    explanation=(
        "Five shuffles replace five steps of a tree in shared memory and the five barriers between them. Lanes without "
        "a column take part with a sum of 0, the neutral element of addition. This loop, with a maximum or with "
        "a merge in place of the sum, stands in every kernel of the chapters that follow."
    ),
    probes=(
        Probe("count", cases.rows_case("count", 4, 85, "ones"), readings.first_sum),
        Probe("lanes", cases.rows_case("lanes", 32, 32, "lanes"), readings.list_of_sums),
    ),
    diagnose=readings.diagnose_row_sum,
    ledger_rule=readings.only_shuffles,
    bound_bytes=lambda case: readings.row_sum_bound(case),
    usual_bytes=lambda case: readings.row_sum_bound(case)[0],
    tile=lambda case: (1, 1),
)


def centre_rows(case, gen):
    """{"x"}: for the probe "constant rows" row r holds nothing but r + 1."""
    if case.values == "constant_rows":
        rows = torch.arange(1.0, case.sizes["num_rows"] + 1.0)
        return {"x": rows[:, None].repeat(1, case.sizes["num_cols"])}
    return cases.score_rows(case, gen)


def centre_run(case, tensors):
    run = cases.rows_run(case, tensors, threads=THREADS, constants={"BLOCK": THREADS})
    return Run(
        run.name, run.inputs, run.outputs, run.arguments, (BLOCKS_IN_TURN, 1, 1), run.block, constants=run.constants
    )


def centred(x):
    return {"out": x - x.mean(dim=1, keepdim=True)}


CENTRE_ROWS = Exercise(
    id="02.5",
    title="Find the missing barrier",
    language="cuda",
    entry="centre_rows_kernel",
    signature='extern "C" __global__ void centre_rows_kernel(const float* x, float* out, int num_rows, int num_cols)',
    contract=(
        "x (num_rows, num_cols) float, contiguous; out like x: every row minus its mean. Any num_rows, num_cols >= 1. "
        "The grid has fewer blocks than there are rows: block b takes the rows b, b + gridDim.x, … in turn. The given "
        "kernel has a race: mend it without changing what it computes."
    ),
    size_lines=1,
    minutes=15,
    solution="kernels_cu/reduction/04_rows_in_turn.cu",
    cases=(
        cases.rows_case("one element", 1, 1, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("one row a block", 2, 65, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("two rows a block", 4, 64, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("rows shorter than the block", 5, 37, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("numbers near +100", 7, 129, "plus_100", schedules=("forward", "reverse")),
        cases.rows_case("numbers near -100", 6, 100, "minus_100", schedules=("random",)),
        cases.rows_case("rising numbers", 3, 203, "rising", schedules=("forward",)),
        cases.rows_case("many rows", 61, 300),
    ),
    make_inputs=centre_rows,
    make_run=centre_run,
    oracle=lambda _case, tensors: centred(tensors["x"].double()),
    baseline=lambda _case, tensors: centred(tensors["x"]),
    rules={"out": "forward"},
    hints=(
        "The verdict names the two lines that race, as soon as the TODO line is gone. Which of the two comes first, "
        "and in which turn of the loop over rows?",
        "A fast thread finishes its row and begins the next one while a slow thread has not yet read the mean of the "
        "old one. Both use the same place in shared memory.",
        "A __syncthreads() that every thread reaches, after the last read of sum_smem[0] and before the next "
        "sum_smem[threadIdx.x] = sum;.",
    ),
    explanation=(
        "Shared memory that is used again needs a barrier on both sides: between write and read, which everybody "
        "remembers, and between the last read and the next write, which is the one that is forgotten. With one row a "
        "block the kernel was right, and a test with few rows would have passed for ever."
    ),
    probes=(Probe("constant rows", cases.rows_case("constant rows", 5, 37, "constant_rows"), readings.rows_of_out),),
    diagnose=readings.diagnose_centre,
    bound_bytes=lambda case: (
        8 * case.sizes["num_rows"] * case.sizes["num_cols"],
        "every number read once and written once, 4 bytes each",
    ),
    usual_bytes=lambda case: 12 * case.sizes["num_rows"] * case.sizes["num_cols"],
    tile=lambda case: (1, THREADS),
)
