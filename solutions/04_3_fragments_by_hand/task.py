"""04.3 A matrix product on tensor cores, fragments by hand: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise
from course_lib.grading.subjects.limits import by_limit
from course_lib.grading.subjects.matmul import cases as cases

from .diagnostics import diagnose_fragments
from .work import as_promised

TILE = (16, 8)


def _case(name, size_m, size_n, size_k, values="normal", schedules=("forward",)):
    return cases.case(name, size_m, size_n, size_k, values, schedules, dtype="float16")


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one product", 16, 8, 16, schedules=ALL_SCHEDULES),
        _case("two steps of k", 16, 8, 32, schedules=("forward", "random")),
        _case("two tiles side by side", 16, 16, 16),
        _case("two tiles above each other", 32, 8, 16),
        _case("all sizes different", 32, 24, 48, schedules=("forward", "reverse")),
        _case("sums that cancel", 16, 8, 208, "cancelling"),
        _case("long sums of positive numbers", 16, 16, 912, "positive", schedules=()),
        _case("subnormal halves", 16, 8, 16, "subnormal halves", schedules=()),
        _case("beyond the range of half", 16, 8, 16, "beyond 65504", schedules=()),
        _case("infinities that meet", 16, 8, 48, "infinities that meet", schedules=()),
        _case("tiles of zeros", 16, 8, 64, "tiles of zeros", schedules=()),
        _case("many tiles", 96, 72, 64, schedules=()),
        _case("longest sum", 16, 8, 4112, schedules=()),
    ),
    make_inputs=cases.inputs,
    make_run=lambda case, tensors: cases.run(case, tensors, tile=TILE, block=(32,), sizes=("size_n", "size_k")),
    oracle=cases.oracle,
    baseline=cases.tensor_core_baseline,
    rules={"out": "forward"},
    probes=cases.probes(16, 8, 48, dtype="float16", square=48),
    diagnose=lambda evidence: by_limit(evidence, size_k="numbers of k") or diagnose_fragments(evidence),
    ledger_rule=as_promised,
    bound_bytes=lambda case: cases.fewest_bytes(case, in_bytes=2),
    tile=lambda case: TILE,
)
