"""03.4 Online softmax in Triton, any width: what the judge runs."""

from course_lib.grading.exercise import probes
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.softmax import bounds, cases
from course_lib.grading.subjects.softmax.diagnostics import diagnose_softmax
from course_lib.grading.subjects.softmax.one_size import by_size, size_probes

BLOCK_N = 32  # columns of a tile, in probes and in the cases whose names speak of a tile
OTHERS = (64, 16, 32, 512, 64, 16, 32, 256, 64, 32, 16, 16, 128)  # in the other cases, in turn
BLOCKS_N = (16, 32, 64, 128, 256, 512, 1024)
WIDE, WIDE_BLOCK_N = 12_500, 1024
MANY_TILES = cases.rows_case("many tiles", 1, 1_500)


def _cases():
    found = cases.row_cases("tile", BLOCK_N, schedules=("forward", "reverse", "random"), rows=3, many=7)
    found += cases.wider_cases(BLOCK_N, WIDE, rows=3)
    named = tuple(case for case in found if "tile" in case.name)
    named += cases.with_options((MANY_TILES,), "block_n", (16,))
    others = tuple(case for case in found if "tile" not in case.name)
    others = cases.with_options(others[:-1], "block_n", OTHERS) + cases.with_options(
        others[-1:], "block_n", (WIDE_BLOCK_N,)
    )
    return named + others


def _block_n(case):
    return case.options.get("block_n", BLOCK_N)


def judge_way(case, ledger):
    """Refuses right weights with more traffic than the contract allows, wider tiles, or one program for all rows."""
    row = 4 * case.sizes["num_cols"]
    return (
        bounds.two_sweeps(case, ledger)
        or _wide_tile(case, ledger)
        or share(case, ledger, loaded=2 * row, stored=row, why="a program takes one row", unit="program")
    )


def _wide_tile(case, ledger):
    block_n = _block_n(case)
    for kind, verb in (("global_load", "tl.load"), ("global_store", "tl.store")):
        counts = ledger[kind]
        if counts["bytes"] > 4 * block_n * counts["requests"]:
            return Diagnosis(
                "wide_tile",
                f"Every value is right (case {case.name!r}), but a {verb} touches "
                f"{counts['bytes'] / 4 / counts['requests']:,.0f} numbers on average, and a tile has at most BLOCK_N = "
                f"{block_n}. Walk over the row in tiles of BLOCK_N columns.",
            )
    return None


EXERCISE = exercise(
    __file__,
    cases=_cases(),
    **cases.SOFTMAX,
    make_run=lambda case, tensors: cases.rows_run(case, tensors, constants={"BLOCK_N": _block_n(case)}),
    probes=(
        probes.count({"num_rows": 4, "num_cols": 85}),
        probes.step("step between tiles", {"num_rows": 4, "num_cols": 64}, 32),
        probes.step("step within a tile", {"num_rows": 4, "num_cols": 32}, 16),
        *size_probes("block_n", BLOCKS_N),
    ),
    diagnose=lambda evidence: by_size(evidence, "BLOCK_N") or diagnose_softmax(evidence, stride=BLOCK_N, unit="tile"),
    ledger_rule=judge_way,
    bound_bytes=bounds.softmax_bound,
    usual_bytes=bounds.two_reads,
    tile=lambda case: (1, _block_n(case)),
)
