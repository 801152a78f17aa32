"""02.5 Find the missing barrier: what the judge runs."""

from dataclasses import replace

import torch

from course_lib.grading.exercise.spec import Case, Probe, exercise
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.softmax import cases

from .diagnostics import diagnose_centre

THREADS = 64  # of a block, where a case does not say otherwise
BLOCKS = 2  # of the grid, where a case does not say otherwise: fewer than rows, so that a block takes several


def centre_rows(case, gen):
    """{"x"}: for the probe "constant rows" row r holds nothing but r + 1."""
    if case.values == "constant_rows":
        rows = torch.arange(1.0, case.sizes["num_rows"] + 1.0)
        return {"x": rows[:, None].repeat(1, case.sizes["num_cols"])}
    return cases.score_rows(case, gen)


def centre_run(case, tensors):
    threads = case.options.get("threads", THREADS)
    run = cases.rows_run(case, tensors, threads=threads, constants={"BLOCK": threads})
    return replace(run, grid=(case.options.get("blocks", BLOCKS), 1, 1))


def _case(name, num_rows, num_cols, values="normal", schedules=(), **options):
    return Case(name, {"num_rows": num_rows, "num_cols": num_cols}, values, options=options, schedules=schedules)


def same_work(case, ledger):
    """Diagnosis or None: the traffic of the kernel as given, and each thread's share of it."""
    num_rows, num_cols = case.sizes.values()
    why = "the kernel as given reads x twice and writes out once"
    found = moved(case, ledger, read=8 * num_rows * num_cols, written=4 * num_rows * num_cols, why=why)
    rows, cols = (
        -(-num_rows // case.options.get("blocks", BLOCKS)),
        -(-num_cols // case.options.get("threads", THREADS)),
    )
    return found or share(case, ledger, stored=4 * rows * cols, why=f"{rows} rows with {cols} columns each at most")


def centred(x):
    return {"out": x - x.mean(dim=1, keepdim=True)}


def rows_of_out(_inputs, outputs):
    """The rows of out, as lists."""
    return outputs["out"].tolist()


def _constant_rows(name, threads):
    case = Case(name, {"num_rows": 5, "num_cols": 37}, "constant_rows", options={"threads": threads})
    return Probe(name, case, rows_of_out)


EXERCISE = exercise(
    __file__,
    cases=(
        cases.rows_case("one element", 1, 1, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("one row a block", 2, 65, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("two rows a block", 4, 64, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("rows shorter than the block", 5, 37, schedules=cases.ALL_SCHEDULES),
        _case("numbers near +100", 7, 129, "plus_100", schedules=("forward", "reverse"), blocks=1),
        _case("numbers near -100", 6, 100, "minus_100", schedules=("random",), blocks=5),
        _case("rising numbers, blocks of 256", 3, 203, "rising", schedules=("forward",), threads=256),
        _case("long rows", 2, 9000, blocks=1),
        _case("many rows, blocks of 128", 61, 300, blocks=7, threads=128),
    ),
    make_inputs=centre_rows,
    make_run=centre_run,
    oracle=lambda _case, tensors: centred(tensors["x"].double()),
    baseline=lambda _case, tensors: centred(tensors["x"]),
    rules={"out": "forward"},
    probes=(
        _constant_rows("constant rows", THREADS),
        *(_constant_rows(f"constant rows, blocks of {threads}", threads) for threads in (128, 256)),
    ),
    diagnose=diagnose_centre,
    ledger_rule=same_work,
    bound_bytes=lambda case: (
        8 * case.sizes["num_rows"] * case.sizes["num_cols"],
        "every number read once and written once, 4 bytes each",
    ),
    usual_bytes=lambda case: 12 * case.sizes["num_rows"] * case.sizes["num_cols"],
    tile=lambda case: (1, THREADS),
)
