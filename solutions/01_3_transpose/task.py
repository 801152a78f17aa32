"""01.3 Mend a 32-way bank conflict: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, Case, exercise, late
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.subjects.memory import special, traffic

TILE = traffic.TILE
MOST = 4  # numbers of one thread: a float4


def _matrix_case(name, num_rows, num_cols, *schedules, **options):
    return Case(name, {"num_rows": num_rows, "num_cols": num_cols}, "places", options=options, schedules=schedules)


def _matrix_inputs(case, gen):
    num_rows, num_cols = case.sizes.values()
    x = traffic.places(num_rows * num_cols, gen).reshape(num_rows, num_cols)
    return {"x": special.put(x, gen) if "special" in case.options else x}


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


EXERCISE = exercise(
    __file__,
    cases=(
        _matrix_case("one number", 1, 1, *ALL_SCHEDULES),
        _matrix_case("less than a tile", 5, 7, "forward", "reverse"),
        _matrix_case("exactly one tile", TILE, TILE, "forward", "reverse"),
        _matrix_case("one above a tile", TILE + 1, TILE + 1, "random"),
        _matrix_case("wide", 3, 70, "forward"),
        late(_matrix_case("very wide", 2, 5000)),
        late(_matrix_case("very tall", 4500, 3)),
        _matrix_case("tall, whole tiles", 2 * TILE, TILE, "forward"),
        _matrix_case("tall", 45, 20, "resident"),
        _matrix_case("0, -0, infinities, NaN and subnormal numbers", 20, 37, "forward", special=True),
        late(_matrix_case("many tiles", 69, 203)),
        _matrix_case("many whole tiles", 5 * TILE, 3 * TILE),
    ),
    make_inputs=_matrix_inputs,
    make_run=_transpose_run,
    oracle=lambda case, tensors: {"out": tensors["x"].double().T.contiguous()},
    baseline=lambda case, tensors: {"out": tensors["x"].T.contiguous()},
    rules={"out": "bits"},
    diagnose=traffic.diagnose_places,
    ledger_rule=lambda case, ledger: traffic.transpose_traffic(case, ledger, MOST),
    bound_bytes=_transpose_bound,
    usual_bytes=lambda case: _transpose_bound(case)[0],
    tile=lambda case: (TILE, TILE),
)
