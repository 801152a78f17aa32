"""06.3 FlashAttention-1 in CUDA, one thread a query row: what the judge runs."""

from course_lib.grading.exercise import magnitude
from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.flash_attention import masks as masks


def _in_tiles(case):
    """(floats read, floats written) by FlashAttention-1 without a mask."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    tiles = -(-num_kv // cases.BLOCK_N)
    read = 2 * num_kv * head_dim + (2 * tiles - 1) * num_q * head_dim + 2 * tiles * num_q
    written = tiles * num_q * (head_dim + 2) + num_q
    return batch_size * num_heads * read, batch_size * num_heads * written


EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one query, one key", 1, 1, schedules=ALL_SCHEDULES),
        cases.case("exactly one tile", cases.BLOCK_M, cases.BLOCK_N),
        cases.case("one below a tile", cases.BLOCK_M - 1, cases.BLOCK_N - 1),
        cases.case("one above a tile", cases.BLOCK_M + 1, cases.BLOCK_N + 1, schedules=ALL_SCHEDULES),
        cases.case("ragged, grouped heads", 37, 53, schedules=(), heads=(2, 4, 2)),
        cases.case("more queries than keys", 50, 20),
        cases.case("one query", 1, 45),
        cases.case("rising scores", 9, 53, "rising", ("reverse",)),
        cases.case("falling scores", 9, 53, "falling"),
        cases.case("scores near -100", 5, 45, "minus_100"),
        cases.case("scores near +100", 5, 45, "plus_100"),
        cases.case("one score of 120", 9, 50, "spikes"),
        cases.case("several batches", 35, 21, schedules=("random",), heads=(2, 3, 1)),
    ),
    make_inputs=cases.heads_inputs,
    make_run=lambda case, tensors: cases.heads_run(case, tensors, threads=cases.BLOCK_M),
    oracle=cases.oracle(),
    baseline=cases.baseline(),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(),
    probes=(*diagnostics.tile_probes(cases.one_head), masks.head_probe(cases.HEADS)),
    diagnose=diagnostics.diagnose_tiles,
    bound_bytes=cases.bound,
    usual_bytes=lambda case: 4 * sum(_in_tiles(case)),
    question="Which tensor is read once more than it has to be?",
    tile=lambda case: (cases.BLOCK_M, cases.HEAD_DIM),
)
