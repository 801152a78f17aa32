"""The matrix product of chapter 04 in Triton.

May import: spec, protocol, matmul_cases, matmul_readings, verdict.
"""

from dataclasses import replace

from ..exercise.spec import Exercise
from ..subjects.matmul import cases as cases
from ..subjects.matmul.diagnostics import diagnose_matmul

TILE = (16, 32)
BLOCK_K = 16
CONSTANTS = {"BLOCK_M": TILE[0], "BLOCK_N": TILE[1], "BLOCK_K": BLOCK_K, "GROUP_M": 2}
BOTH = ("forward", "reverse")


def _case(name, size_m, size_n, size_k, values="normal", schedules=("forward",)):
    return cases.case(name, size_m, size_n, size_k, values, schedules, dtype="float16")


def _run(case, tensors):
    """One program a tile, in a row."""
    run = cases.run(case, tensors, tile=TILE, block=(1,), out_dtype="float16", constants=CONSTANTS)
    return replace(run, grid=(run.grid[0] * run.grid[1], 1, 1))


TRITON = Exercise(
    id="04.4",
    title="A matrix product in Triton",
    language="triton",
    entry="matmul_kernel",
    signature="matmul_kernel(a_ptr, b_ptr, out_ptr, size_m, size_n, size_k, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M)",
    contract=(
        "a (size_m, size_k), b (size_k, size_n), out (size_m, size_n) = a b, half, contiguous, any sizes >= 1; "
        "products "
        "summed in float and rounded once. The grid has one dimension, with ceil(size_m / BLOCK_M) * "
        "ceil(size_n / BLOCK_N) programs, one a tile. Which program has which tile is yours to choose; GROUP_M is "
        "there "
        "for the grouped order."
    ),
    size_lines=17,
    minutes=30,
    solution="solutions/answers/04_4.py#matmul_kernel",
    cases=(
        _case("one number", 1, 1, 1, "whole numbers", schedules=BOTH),
        _case("less than a tile", 5, 7, 3, schedules=BOTH),
        _case("exactly one tile", 16, 32, 16),
        _case("one above a tile", 17, 33, 17, schedules=BOTH),
        _case("tall, three rows of tiles", 40, 9, 20),
        _case("wide", 3, 100, 8),
        _case("long sums", 20, 20, 203),
        _case("long sums of positive numbers", 4, 8, 600, "positive"),
        _case("whole tiles", 32, 64, 32),
        _case("ragged, five rows of tiles", 70, 90, 45),
    ),
    make_inputs=cases.inputs,
    make_run=_run,
    oracle=cases.oracle,
    baseline=cases.baseline("float16"),
    rules={"out": "forward"},
    hints=(
        "Begin with row-major order: tile_n = program % tiles_n, tile_m = program // tiles_n, where the numbers of "
        "tiles are rounded up. Then rows (BLOCK_M, 1), cols (1, BLOCK_N), and a loop over k.",
        "In the loop: k = k_start + tl.arange(0, BLOCK_K); the mask of a is (rows < size_m) & (k[None, :] < size_k), "
        "that of b (k[:, None] < size_k) & (cols < size_n), both with other=0.0. acc is a float32 tile.",
        "acc = tl.dot(a, b, acc); behind the loop tl.store(out_ptr + rows * size_n + cols, acc.to(tl.float16), "
        "mask=(rows < size_m) & (cols < size_n)). Grouped: the last group has min(tiles_m - first_m, GROUP_M) rows.",
    ),
    explanation=(
        "No shared memory, no barrier, no fragment: the compiler places all three, from the shape of the tiles and "
        "from num_warps and num_stages. What stayed with you is what no compiler can know: which tile belongs to which "
        "program, where the matrices end, and in which type sums are kept."
    ),
    probes=cases.probes(19, 37, 37, dtype="float16"),
    diagnose=lambda evidence: diagnose_matmul(evidence, BLOCK_K),
    bound_bytes=lambda case: cases.fewest_bytes(case, 2, 2),
    usual_bytes=lambda case: cases.tiled_bytes(case, TILE, 2, 2),
    question="Which numbers does a program read that no tile of it needs?",
    tile=lambda case: TILE,
)
