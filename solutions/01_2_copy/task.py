"""01.2 Mend an uncoalesced copy: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, Case, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.subjects.memory import special, traffic

PER_THREAD = 8  # numbers of a thread, as the kernel says

BLOCK = 64  # threads of a block, where a case does not say otherwise
MOST = 2 * PER_THREAD  # numbers of one thread: another walk may give some threads more and others less


def _copy_case(name, num_values, *schedules, block=BLOCK, **options):
    return Case(name, {"n": num_values}, "places", options={"block": block, **options}, schedules=schedules)


def _copy_inputs(case, gen):
    x = traffic.places(case.sizes["n"], gen)
    return {"x": special.put(x, gen) if "special" in case.options else x}


def _copy_run(case, tensors):
    count, block = tensors["x"].numel(), case.options["block"]
    grid = -(-count // (block * PER_THREAD))
    return Run(
        case.name,
        tensors,
        {"out": ((count,), "float32")},
        (Ref("x"), Ref("out"), count),
        grid=(grid, 1, 1),
        block=(block, 1, 1),
    )


EXERCISE = exercise(
    __file__,
    cases=(
        _copy_case("one number", 1, *ALL_SCHEDULES),
        _copy_case("less than a block of 32", 255, "forward", "reverse", block=32),
        _copy_case("exactly one block", BLOCK * PER_THREAD, "forward"),
        _copy_case("one above a block", BLOCK * PER_THREAD + 1, *ALL_SCHEDULES),
        _copy_case("ragged, blocks of 96", 1000, "random", block=96),
        _copy_case("0, -0, infinities, NaN and subnormal numbers", 600, "forward", special=True),
        _copy_case("several blocks", 4096, "forward"),
        _copy_case("many, blocks of 1024", 9 * 1024 * PER_THREAD, block=1024),
    ),
    make_inputs=_copy_inputs,
    make_run=_copy_run,
    oracle=lambda case, tensors: {"out": tensors["x"].double()},
    baseline=lambda case, tensors: {"out": tensors["x"].clone()},
    rules={"out": "bits"},
    diagnose=traffic.diagnose_places,
    ledger_rule=lambda case, ledger: traffic.copy_traffic(case, ledger, MOST),
    bound_bytes=lambda case: (8 * case.sizes["n"], f"{case.sizes['n']:,} numbers of 4 bytes read once, written once"),
    usual_bytes=lambda case: 8 * case.sizes["n"],
)
