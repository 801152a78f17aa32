"""06.2 FlashAttention-1 in torch tiles: what the judge runs."""

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.softmax.library import LIBRARY_SOFTMAX

EXERCISE = exercise(
    __file__,
    cases=(
        *cases.head_cases(
            many_keys=("5,000 keys", 18, 5000, 4, 18, 128),
            many_queries=("1,040 queries", 1040, 3, 4, 64, 4),
            long=("long", 53, 203, 16, 32, 24),
        ),
        cases.head_case("one query, tiles of one", 1, 5, 1, 1, 1),
        cases.head_case("a head of one column", 5, 9, 1, 3, 4),
        cases.head_case("scores far below 0", 5, 45, values="minus_16000"),
        cases.head_case("scores far above 0", 5, 45, values="plus_16000"),
    ),
    make_inputs=cases.head_inputs,
    make_run=cases.head_run,
    **cases.judged(),
    probes=diagnostics.tile_probes(cases.one_torch_head),
    diagnose=diagnostics.diagnose_head,
    ledger_rule=diagnostics.one_tile_of_scores,
    forbidden=LIBRARY_SOFTMAX,
    tile=lambda case: (case.sizes["block_m"], case.sizes["head_dim"]),
)
