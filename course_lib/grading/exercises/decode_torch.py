"""The exercise of chapter 09 in torch: partial results of splits, combined.

May import: spec, magnitude, protocol, decode_partials, the names that are off.
"""

from ..exercise import magnitude
from ..exercise.spec import Exercise
from ..processes.protocol import Ref, Run
from ..subjects.decode import partials as cases
from .softmax_torch import LIBRARY_SOFTMAX


def _run(case, tensors):
    return Run(case.name, tensors, cases.outputs(case), (Ref("partial_out"), Ref("partial_lse")))


COMBINE_TORCH = Exercise(
    id="09.1",
    title="Combine the splits, in torch",
    language="python",
    entry="combine",
    signature="combine(partial_out, partial_lse) -> (out, lse)",
    contract=(
        "partial_out (num_splits, num_rows, head_dim), partial_lse (num_splits, num_rows), float32, natural log: "
        "attention over the keys of each split alone. Returns out (num_rows, head_dim) and lse (num_rows,), attention "
        "over all of them. An empty split has partial_lse -inf, and its partial_out may be anything, NaN too. A row "
        "whose splits are all empty: out 0, lse -inf. torch's softmax and logsumexp are off."
    ),
    size_lines=8,
    minutes=15,
    solution="solutions/answers/09_1.py",
    cases=(
        cases.case("one split, one row, width 1", 1, 1, 1),
        cases.case("two splits", 2, 3, 4),
        cases.case("ragged", 7, 5, 20),
        cases.case("many splits", 53, 3, 8),
        cases.case("rising from split to split", 9, 4, 8, "rising"),
        cases.case("falling from split to split", 9, 4, 8, "falling"),
        cases.case("log-sum-exps near +100", 5, 4, 8, "plus_100"),
        cases.case("log-sum-exps near -100", 5, 4, 8, "minus_100"),
        cases.case("one split of 120", 6, 4, 8, "spikes"),
        cases.case("rows far apart", 4, 5, 8, far=True),
        cases.case("some splits empty", 8, 6, 8, "leading_masked"),
        cases.case("some splits empty, one row without keys", 7, 6, 20, "masked"),
        cases.case("every third row without keys", 3, 7, 4, empty_rows=True),
        cases.case("no key at all", 2, 1, 3, empty_rows=True),
    ),
    make_inputs=cases.partials,
    make_run=_run,
    oracle=cases.oracle,
    baseline=cases.baseline,
    rules={"out": "weights", "lse": "lse"},
    largest_score=magnitude.of_inputs("partial_lse"),
    hints=(
        "A split's out is a mean over its keys. What must each split be multiplied by so that adding them up gives the "
        "sum over all keys, and where have you stored that number?",
        "exp(partial_lse) is the sum of the exponentials of a split's scores. Take the row's largest partial_lse away "
        "first, as chapter 03 did with scores, and think of the rows for which that is -inf.",
        "weights = torch.exp(partial_lse - shift); l = weights.sum(dim=0); out = (weights[:, :, None] * "
        "torch.where(weights[:, :, None] > 0, partial_out, 0)).sum(dim=0) / l, lse = shift + torch.log(l); where l is "
        "0 divide by 1.",
    ),
    explanation=(
        "This is chapter 03's merge of states, (m, l, acc), with l and acc folded into (lse, out): two numbers a row "
        "less to store, and the same operation. It is associative and has an identity, (anything, -inf), so the splits "
        "may come in any order and as many as you like, and an empty one changes nothing."
    ),
    probes=cases.combine_probes(),
    diagnose=cases.diagnose_combine,
    forbidden=LIBRARY_SOFTMAX,
)
