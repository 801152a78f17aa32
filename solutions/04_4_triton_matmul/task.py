"""04.4 A matrix product in Triton: what the judge runs."""

from dataclasses import replace

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.limits import by_limit
from course_lib.grading.subjects.matmul import cases as cases
from course_lib.grading.subjects.matmul.diagnostics import by_rounded_sums, diagnose_matmul

NAMES = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")
USUAL, FLAT, DEEP = (16, 32, 16, 2), (64, 16, 32, 3), (32, 128, 64, 1)  # sets of constants
HIGH, DEEPEST = (16, 32, 16, 16), (16, 16, 128, 5)  # groups of many rows of tiles; the longest step of k
BOTH = ("forward", "reverse")


def _case(name, size_m, size_n, size_k, values="normal", schedules=("forward",), constants=USUAL):
    made = cases.case(name, size_m, size_n, size_k, values, schedules, dtype="float16")
    return replace(made, options=dict(zip(NAMES, constants, strict=True)))


def _tile(case):
    """Rows and columns of a tile of a case; a probe has the usual ones."""
    return case.options.get("BLOCK_M", USUAL[0]), case.options.get("BLOCK_N", USUAL[1])


def _run(case, tensors):
    """One program for each tile, in a grid of one dimension."""
    constants = case.options or dict(zip(NAMES, USUAL, strict=True))
    run = cases.run(case, tensors, tile=_tile(case), block=(1,), out_dtype="float16", constants=constants)
    return replace(run, grid=(run.grid[0] * run.grid[1], 1, 1))


def _as_promised(case, ledger):
    """Diagnosis or None: each program writes the numbers of one tile, once."""
    size_m, size_n, _ = case.sizes.values()
    (block_m, block_n), once = _tile(case), 2 * size_m * size_n
    written = moved(case, ledger, written=once, why="each number of out is written once")
    tile = min(once, 2 * block_m * block_n)
    return written or share(case, ledger, stored=tile, why="one tile of out", unit="program")


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one number", 1, 1, 1, "whole numbers", schedules=BOTH),
        _case("less than a tile", 5, 7, 3, schedules=BOTH),
        _case("exactly one tile", 16, 32, 16),
        _case("one above a tile", 17, 33, 17, schedules=BOTH),
        _case("one infinite number", 3, 5, 37, "one infinite", constants=DEEP),
        _case("one infinite number in b", 3, 5, 37, "one infinite in b", constants=DEEP),
        _case("infinities that meet", 3, 5, 37, "infinities that meet"),
        _case("eighteen rows of tiles", 281, 40, 5, constants=HIGH),
        _case("wide", 3, 300, 8, constants=FLAT),
        _case("sums that cancel", 5, 20, 2040, "cancelling", constants=DEEPEST),
        _case("long sums of positive numbers", 4, 8, 510, "positive", constants=DEEP),
        _case("whole tiles", 32, 64, 32),
        _case("ragged, five rows of tiles", 70, 90, 45),
        _case("other tiles, four rows of them", 200, 40, 70, constants=FLAT),
        _case("longest sum", 1, 2, 8500, constants=DEEPEST),
    ),
    make_inputs=cases.inputs,
    make_run=_run,
    oracle=cases.oracle,
    baseline=cases.baseline("float16"),
    rules={"out": "forward"},
    probes=cases.probes(19, 37, 37, dtype="float16"),
    diagnose=lambda evidence: (
        by_rounded_sums(evidence) or by_limit(evidence, size_k="numbers of k") or diagnose_matmul(evidence, USUAL[2])
    ),
    ledger_rule=_as_promised,
    bound_bytes=lambda case: cases.fewest_bytes(case, 2, 2),
    usual_bytes=lambda case: cases.tiled_bytes(case, _tile(case), 2, 2),
    question="Which numbers does a program read that no tile of it needs?",
    tile=_tile,
)
