"""08.5 The overlap loop: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise, late

from . import diagnostics, walk
from .findings import explain
from .timeline import overlap_rule
from .walk import BROAD, DEEP, FULL, SMALL, WIDE, case

EXERCISE = exercise(
    __file__,
    cases=(
        case("one query, one key", (1, 1, 1, 1, 1), SMALL, schedules=ALL_SCHEDULES),
        case("exactly one tile", (1, 1, 1, 128, 32), SMALL),
        case("two tiles", (1, 1, 1, 70, 64), SMALL, schedules=ALL_SCHEDULES),
        case("one key above a tile", (1, 1, 1, 37, 33), SMALL),
        case("nine tiles, the last not full", (1, 1, 1, 40, 280), SMALL, "rising", schedules=("random", "resident")),
        case("six whole tiles", (1, 1, 1, 64, 768), BROAD, timeline=True),
        case("three tiles through one stage", (1, 1, 1, 129, 113), WIDE, "plus_100", schedules=("reverse", "random")),
        late(case("causal, grouped heads", (2, 4, 2, 37, 203), WIDE, causal=True)),
        case("causal, rows without keys", (1, 2, 1, 300, 50), SMALL, causal=True, schedules=("forward", "reverse")),
        late(case("causal, more keys than queries", (1, 3, 1, 113, 239), DEEP, causal=True)),
        case("scores near -100", (1, 1, 1, 5, 75), DEEP, "minus_100", causal=True),
        case("one score of 120", (1, 1, 1, 1, 200), DEEP, "spikes"),
        case("falling scores, another scale", (1, 1, 1, 21, 96), DEEP, "falling", softmax_scale=0.31),
        late(case("three whole tiles, causal, head_dim 128", (1, 1, 1, 64, 288), FULL, causal=True, timeline=True)),
        case("rows in another order in memory", (2, 3, 3, 20, 70), SMALL, strided=True),
    ),
    make_inputs=walk.inputs,
    make_run=walk.run,
    oracle=walk.oracle,
    baseline=walk.baseline,
    rules={"out": "weights", "lse": "lse"},
    largest_score=walk.largest_score,
    probes=diagnostics.probes(),
    diagnose=diagnostics.diagnose,
    explain=explain,
    ledger_rule=overlap_rule,
    tile=lambda case: (64 * case.options["consumers"], 8),
)
