"""06.2 FlashAttention-1 in torch tiles: what the judge runs."""

from course_lib.grading.exercise import magnitude
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.limits import by_limit
from course_lib.grading.subjects.softmax.library import LIBRARY_SOFTMAX


def _diagnose(evidence):
    limited = by_limit(evidence, seq_len_q="queries", seq_len_kv="keys")
    return limited or diagnostics.diagnose_tiles(evidence)


EXERCISE = exercise(
    __file__,
    cases=(
        cases.head_case("one query, one key", 1, 1),
        cases.head_case("exactly one tile", 8, 16),
        cases.head_case("one below a tile", 7, 15),
        cases.head_case("one above a tile", 9, 17),
        cases.head_case("tiles of one", 3, 5, block_m=1, block_n=1),
        cases.head_case("ragged", 37, 53, 20),
        cases.head_case("more queries than keys", 50, 20),
        cases.head_case("narrow tiles of queries", 11, 20, 12, 3, 7),
        cases.head_case("tiles wider than the head has rows", 5, 9, 4, 64, 128),
        cases.head_case("1,500 keys", 18, 1500, 4, 16, 64),
        cases.head_case("1,040 queries", 1040, 3, 4, 64, 4),
        cases.head_case("one query", 1, 45),
        cases.head_case("rising scores", 9, 53, values="rising"),
        cases.head_case("falling scores", 9, 53, values="falling"),
        cases.head_case("scores near -100", 5, 45, values="minus_100"),
        cases.head_case("scores near -12000", 5, 45, values="minus_12000"),
        cases.head_case("scores near +100", 5, 45, values="plus_100"),
        cases.head_case("one score of 120", 9, 50, values="spikes"),
        cases.head_case("long", 53, 203, 16, 32, 24),
    ),
    make_inputs=cases.head_inputs,
    make_run=cases.head_run,
    oracle=cases.oracle(),
    baseline=cases.baseline(),
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_attention(),
    probes=diagnostics.tile_probes(cases.one_torch_head),
    diagnose=_diagnose,
    ledger_rule=diagnostics.one_tile_of_scores,
    forbidden=LIBRARY_SOFTMAX,
    tile=lambda case: (case.sizes["block_m"], case.sizes["head_dim"]),
)
