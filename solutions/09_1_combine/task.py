"""09.1 Combine the splits, in torch: what the judge runs."""

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.subjects.decode import combine
from course_lib.grading.subjects.decode import partials as cases
from course_lib.grading.subjects.softmax.library import LIBRARY_SOFTMAX


def _run(case, tensors):
    return Run(case.name, tensors, cases.outputs(case), (Ref("partial_out"), Ref("partial_lse")))


EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one split, one row, width 1", 1, 1, 1),
        cases.case("two splits", 2, 3, 4),
        cases.case("ragged", 7, 5, 20),
        cases.case("many splits", 53, 3, 8),
        cases.case("300 splits, few with keys", 300, 2, 3, sparse=True),
        cases.case("300 columns", 2, 2, 300),
        cases.case("1500 rows", 2, 1500, 2),
        cases.case("one split among 299 faint ones", 300, 1, 2, faint=True),
        cases.case("large values", 5, 3, 4, large=True),
        cases.case("rising from split to split", 9, 4, 8, "rising"),
        cases.case("falling from split to split", 9, 4, 8, "falling"),
        cases.case("log-sum-exps near +100", 5, 4, 8, "plus_100"),
        cases.case("log-sum-exps near -100", 5, 4, 8, "minus_100"),
        cases.case("log-sum-exps near -12,000", 5, 4, 8, low=True),
        cases.case("log-sum-exps below -1e9", 5, 4, 8, low=True, lowest=True),
        cases.case("one split of 120", 6, 4, 8, "spikes"),
        cases.case("rows far apart", 4, 5, 8, far=True),
        cases.case("some splits empty", 8, 6, 8, "leading_masked"),
        cases.case("some splits empty, one row without keys", 7, 6, 20, "masked"),
        cases.case("every third row without keys", 3, 7, 4, empty_rows=True),
        cases.case("no keys", 2, 1, 3, empty_rows=True),
        cases.case("one split, no keys", 1, 2, 3, empty_rows=True),
    ),
    make_inputs=cases.partials,
    make_run=_run,
    oracle=cases.oracle,
    baseline=cases.baseline,
    rules={"out": "weights", "lse": "lse"},
    largest_score=cases.largest_score,
    unread=cases.unread,
    probes=combine.combine_probes(),
    diagnose=combine.diagnose_combine,
    forbidden=LIBRARY_SOFTMAX,
)
