"""03.3 Softmax times values, in tiles: what the judge runs."""

from course_lib.grading.exercise import inputs, magnitude
from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.subjects.softmax.library import LIBRARY_SOFTMAX
from course_lib.reference import softmax as reference

from . import diagnostics


def _tiles(case, gen):
    """{"scores": (num_rows, num_cols), "values": (num_cols, head_dim)}."""
    sizes = case.sizes
    shape = (sizes["num_rows"], sizes["num_cols"])
    scores = inputs.scores(case.values, shape, case.dtype, gen, at=case.options.get("at", 0))
    values = inputs.normal((sizes["num_cols"], sizes["head_dim"]), case.dtype, gen)
    values *= case.options.get("value_scale", 1.0)
    columns = case.options.get("value_columns")
    return {"scores": scores, "values": values if columns is None else columns(sizes["num_cols"])}


def _tiles_run(case, tensors):
    shape = (tensors["scores"].shape[0], tensors["values"].shape[1])
    arguments = (Ref("scores"), Ref("values"), case.sizes["block_n"])
    return Run(case.name, tensors, {"out": (shape, "float32")}, arguments)


def _tiles_case(name, num_rows, num_cols, head_dim, block_n, values="normal", **options):
    sizes = {"num_rows": num_rows, "num_cols": num_cols, "head_dim": head_dim, "block_n": block_n}
    return Case(name, sizes, values, options=options)


EXERCISE = exercise(
    __file__,
    cases=(
        _tiles_case("one element", 1, 1, 1, 16),
        _tiles_case("exactly one tile", 3, 16, 4, 16),
        _tiles_case("one below a tile", 3, 15, 4, 16),
        _tiles_case("one above a tile", 5, 33, 8, 16),
        _tiles_case("row shorter than a tile", 4, 9, 5, 32),
        _tiles_case("tiles of one column", 3, 7, 4, 1),
        _tiles_case("tiles of three columns", 4, 9, 5, 3),
        _tiles_case("rising scores", 5, 53, 8, 8, "rising"),
        _tiles_case("falling scores", 5, 53, 8, 8, "falling"),
        _tiles_case("scores near -100", 4, 45, 8, 16, "minus_100"),
        _tiles_case("scores near -3000", 4, 45, 8, 16, "minus_3000"),
        _tiles_case("scores near -60000", 4, 45, 8, 16, "minus_60000"),
        _tiles_case("scores near +60000", 4, 45, 8, 16, "plus_60000"),
        _tiles_case("scores near +100", 4, 45, 8, 16, "plus_100"),
        _tiles_case("rows of different height", 10, 45, 8, 16, "mixed_rows"),
        _tiles_case("one large score a row", 5, 50, 8, 16, "spikes"),
        _tiles_case("masked scores", 6, 50, 8, 16, "masked"),
        _tiles_case("rows that start masked", 5, 50, 8, 16, "leading_masked"),
        _tiles_case("ragged", 37, 203, 20, 24),
        _tiles_case("large values", 4, 45, 8, 16, value_scale=1e6),
        _tiles_case("many columns", 1, 40_000, 2, 200, "ending"),
    ),
    make_inputs=_tiles,
    make_run=_tiles_run,
    oracle=lambda case, tensors: {"out": reference.weighted_sum(**tensors)},
    baseline=lambda case, tensors: {"out": reference.rounded_weighted_sum(**tensors)},
    rules={"out": "weights"},
    largest_score=magnitude.of_inputs("scores"),
    probes=diagnostics.tile_probes(),
    diagnose=diagnostics.diagnose_tiles,
    ledger_rule=diagnostics.one_tile_of_weights,
    forbidden=LIBRARY_SOFTMAX,
)
