"""06.1 The (m, l, O) update of one tile: what the judge runs."""

import torch

from course_lib.grading.exercise import inputs, magnitude
from course_lib.grading.exercise.spec import Case, Probe, exercise
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.flash_attention import cases as cases
from course_lib.grading.subjects.flash_attention import diagnostics as diagnostics
from course_lib.grading.subjects.softmax.diagnostics import by_shift
from course_lib.grading.subjects.softmax.library import LIBRARY_SOFTMAX
from course_lib.reference import softmax as reference

NEG_INF = float("-inf")

_EMPTY = {"empty", "masked", "mixed"}  # options of cases in which a state or a tile has seen nothing
_FAR_BELOW = ("minus_12000", "below_1e9")
ARGUMENTS = ("m", "l", "out", "scores", "values")


def _state(case, gen):
    """A state (m, l, out) of keys that are gone, and the scores and values of one tile."""
    num_rows, block_n, head_dim = case.sizes.values()
    m = inputs.normal((num_rows,), "float32", gen) + case.options.get("m", 0.0)
    l = (1.0 + 30.0 * torch.rand(num_rows, generator=gen)) * case.options.get("many", 1.0)
    out, values = (inputs.normal(shape, "float32", gen) for shape in ((num_rows, head_dim), (block_n, head_dim)))
    scores = inputs.scores(case.values, (num_rows, block_n), "float32", gen)
    tensors = dict(zip(ARGUMENTS, (m, l, out, scores, values), strict=True))
    if case.options.get("empty"):
        m.fill_(NEG_INF)
        l.zero_()
        out.zero_()
    if case.options.get("masked"):
        scores.fill_(NEG_INF)
    if case.options.get("mixed"):  # rows 0, 2, …: nothing seen yet; rows 0, 1, 4, 5, …: nothing visible now
        rows = torch.arange(num_rows)
        m[rows % 2 == 0], l[rows % 2 == 0], out[rows % 2 == 0] = NEG_INF, 0.0, 0.0
        scores[rows % 4 < 2] = NEG_INF
    return tensors | {name: torch.tensor(value) for name, value in case.options.get("fixed", {}).items()}


def _updated(tensors):
    """{"m", "l", "out"} in the dtype of the tensors."""
    m, l, out, scores, values = (tensors[name] for name in ARGUMENTS)
    tile_m = scores.amax(dim=1)
    shift = torch.where(tile_m == NEG_INF, torch.zeros_like(tile_m), tile_m)
    probs = torch.exp(scores - shift[:, None])
    m_new, l_new = reference.rounded_merge(m, l, tile_m, probs.sum(dim=1))
    new_shift = torch.where(m_new == NEG_INF, torch.zeros_like(m_new), m_new)
    old, new = l * torch.exp(m - new_shift), torch.exp(tile_m - new_shift)
    acc = old[:, None] * out + new[:, None] * (probs @ values)
    return {
        "m_new": m_new,
        "l_new": l_new,
        "out_new": acc / torch.where(l_new > 0, l_new, torch.ones_like(l_new))[:, None],
    }


def _update_case(name, num_rows=5, block_n=16, head_dim=8, values="normal", **options):
    return Case(name, {"num_rows": num_rows, "block_n": block_n, "head_dim": head_dim}, values, options=options)


def _update_run(case, tensors):
    rows = (case.sizes["num_rows"],)
    new = {"m_new": (rows, "float32"), "l_new": (rows, "float32"), "out_new": (tuple(tensors["out"].shape), "float32")}
    return Run(case.name, tensors, new, tuple(Ref(name) for name in ARGUMENTS))


def _largest_score(case, tensors):
    """The largest of m and the scores; 0 where all scores are equal: no rounding of them moves a weight."""
    return 0.0 if case.values == "below_1e9" else magnitude.of_inputs("m", "scores")(case, tensors)


_OLD_SUM = 5.0

_STEP = _update_case(
    "step",
    1,
    diagnostics.TILE,
    2,
    fixed={
        "m": [0.0],
        "l": [_OLD_SUM],
        "out": [[1.0, 0.0]],
        "scores": [[1.0] * diagnostics.TILE],
        "values": [[0.0, 1.0]] * diagnostics.TILE,
    },
)


def _diagnose_update(evidence):
    """Diagnosis of a wrong update, or None."""
    step = evidence.readings.get("step")
    start = f"A state of {_OLD_SUM:g} keys with score 0 and a tile of {diagnostics.TILE} with score 1:"
    found = None
    if step is not None and step["m"] == 1.0:
        found = diagnostics.say_factors(*step["out"], _OLD_SUM, start)
        right = _OLD_SUM * diagnostics.ALPHA + diagnostics.TILE
        if found is None and abs(step["l"] - right) > 1e-2:
            return Diagnosis("l_wrong", f"{start} out is right, l must be {right:.4g} and is {step['l']:.4g}.")
    found = found or _by_m(evidence, step, start) or _by_low_scores(evidence)
    return found or by_shift(evidence) or _by_empty(evidence)


def _by_m(evidence, step, start):
    if step is not None and step["m"] != 1.0:
        return Diagnosis("m_wrong", f"{start} m must be max(0, 1) = 1 and is {step['m']:.4g}.")
    return next((_say_m(case, start) for case in evidence.failing() if not case.comparisons["m_new"].passed), None)


def _say_m(case, start):
    """Diagnosis of a wrong m_new by what came instead: the tile's maximum, the same number in every row, or neither."""
    wrong, got = case.comparisons["m_new"].wrong, case.first.outputs["m_new"]
    tile = case.inputs["scores"].amax(dim=1)
    row = int(wrong.nonzero()[0, 0])
    right = case.ref["m_new"][row].item()
    if torch.equal(got[wrong], tile[wrong]):
        return Diagnosis(
            "tile_local_max",
            f"{start} right. When the old m is the larger one, m is wrong: it must never fall, m_new = max(m, maximum "
            "of the tile).",
        )
    same = " in every row" if len(got) > 1 and bool((got == got[0]).all()) else ""
    return Diagnosis(
        "m_wrong",
        f"{start} right. In the case {case.case.name!r} m_new[{row}] is {got[row].item():.6g}{same}; the larger one of "
        f"the old m and the row's largest score is {right:.6g}. Each row has its own maximum, however low.",
    )


def _by_low_scores(evidence):
    """Only scores below -1e4 fail, and m is right there."""
    failing = evidence.failing()
    if not failing or not evidence.passing() or any(case.case.values not in _FAR_BELOW for case in failing):
        return None
    if any(case.comparisons["m_new"].wrong is not None for case in failing if not case.comparisons["m_new"].passed):
        return None
    case = failing[0]
    name = case.first_wrong[0]
    comparison = case.comparisons[name]
    return Diagnosis(
        "finite_for_inf",
        f"Right for scores near 0, -100 and +100; far below (case {case.case.name!r}) m_new is right and {name} is "
        f"{comparison.got:.4g} instead of {comparison.expected:.4g}. Is a number such as -1e4 taken for -inf? Only "
        "-inf itself is.",
    )


def _by_empty(evidence):
    failing = evidence.failing()
    if not failing or any(not _EMPTY & case.case.options.keys() for case in failing):
        return None
    if all(case.case.options.get("mixed") for case in failing):
        return Diagnosis(
            "rows_mixed",
            "Right where all rows have seen keys and where none has; wrong where some have (case "
            f"{failing[0].case.name!r}). Each row has a state of its own: no condition holds for all of them.",
        )
    both = [case.case.options.get("empty") and case.case.options.get("masked") for case in failing]
    if all(one or case.case.options.get("mixed") for one, case in zip(both, failing, strict=True)):
        return Diagnosis(
            "masked_row",
            "Nothing seen before and nothing visible now: m stays -inf, l and out stay 0. -inf - -inf and 0 / 0 are "
            "NaN.",
        )
    return Diagnosis("empty_state", f"Wrong in the case {failing[0].case.name!r}: exp(-inf - -inf) is NaN there.")


EXERCISE = exercise(
    __file__,
    cases=(
        _update_case("one row, one key", 1, 1, 1),
        _update_case("a tile", 5, 16, 8),
        _update_case("a wide tile", 7, 40, 20),
        _update_case("scores near -100", values="minus_100", m=-100.0),
        _update_case("scores near +100", values="plus_100", m=100.0),
        _update_case("scores near -12000", values="minus_12000", m=-12000.0),
        _update_case("a head of one column", 5, 16, 1),
        _update_case("one score of 120, a wide head", 2, 6, 300, "spikes"),
        _update_case("some scores masked", 6, 20, 5, "masked"),
        _update_case("rows that start masked", 6, 21, 5, "leading_masked"),
        _update_case("first tile, scores far below 0", values="below_1e9", empty=True),
        _update_case("one row of 3,000 keys", 1, 3000, 3),
        _update_case("old maximum far above", m=200.0),
        _update_case("old maximum far below", m=-200.0),
        _update_case("millions of keys before, scores 17 below", m=-17.5, many=2e6),
        _update_case("the first tile", empty=True),
        _update_case("a masked tile", masked=True),
        _update_case("nothing seen yet, masked tile", empty=True, masked=True),
        _update_case("rows with and without a past", 8, 16, 8, mixed=True),
    ),
    make_inputs=_state,
    make_run=_update_run,
    oracle=lambda case, tensors: _updated({name: tensor.double() for name, tensor in tensors.items()}),
    baseline=lambda case, tensors: _updated(tensors),
    rules={"m_new": "exact", "l_new": "weights", "out_new": "weights"},
    largest_score=_largest_score,
    probes=(
        Probe(
            "step",
            _STEP,
            lambda _inputs, outputs: {
                "m": outputs["m_new"].item(),
                "l": outputs["l_new"].item(),
                "out": outputs["out_new"].double()[0].tolist(),
            },
        ),
    ),
    diagnose=_diagnose_update,
    forbidden=LIBRARY_SOFTMAX,
)
