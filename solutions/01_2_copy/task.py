"""01.2 Mend an uncoalesced copy: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, Case, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.subjects.memory import traffic

PER_THREAD = 8  # numbers of a thread, as the kernel says

COPY_BLOCK = traffic.WHOLE_COPY // PER_THREAD  # threads of a block while the copy is graded


def _copy_case(name, num_values, *schedules):
    return Case(name, {"n": num_values}, "places", schedules=schedules)


def _copy_inputs(case, gen):
    return {"x": traffic.places(case.sizes["n"], gen)}


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


EXERCISE = exercise(
    __file__,
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
    diagnose=traffic.diagnose_places,
    ledger_rule=traffic.copy_traffic,
    bound_bytes=lambda case: (8 * case.sizes["n"], f"{case.sizes['n']:,} numbers of 4 bytes read once, written once"),
    usual_bytes=lambda case: 8 * case.sizes["n"],
)
