"""05.2 Scale, mask and softmax in one kernel, in CUDA: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise
from course_lib.grading.subjects.attention.fused_softmax import SHARED, cases, judge_work, run
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.softmax.cases import WARP_SIZE


def _lanes(case, ledger):
    own = -(-case.sizes["seq_len_kv"] // WARP_SIZE)
    return share(case, ledger, loaded=12 * own, stored=4 * (own + 1), why="lanes share the keys of a row")


EXERCISE = exercise(
    __file__,
    cases=cases(ALL_SCHEDULES),
    make_run=lambda case, tensors: run(case, tensors, threads=WARP_SIZE),
    ledger_rule=lambda case, ledger: judge_work(case, ledger) or _lanes(case, ledger),
    **SHARED,
)
