"""Diagnosis of FlashAttention-2's loop order: state that leaks from one tile of queries into the next.

May import: spec, verdict, evidence (as data), diagnostics of attention and of FlashAttention-1.
"""

import math

from ...exercise.spec import Probe
from ...report.verdict import Diagnosis
from ..attention.diagnostics import near
from ..flash_attention.cases import BLOCK_N, FIRST, LATER
from ..flash_attention.diagnostics import by_rows_left, diagnose_tiles
from .cases import FARTHER, round_to_half

_BELOW = {"minus_12000": "-1e4", "below_1e9": "-1e9"}  # distribution -> a number that people take for -inf
_HALF_HOLDS = 65_504.0
_FAINT = 0.01  # error where weights of some 1e-4 are missing


def diagnose_forward(evidence):
    """Diagnosis of a failing forward pass in FlashAttention-2's order, or None."""
    looks = (
        _by_undefined,
        _by_fading,
        by_threshold,
        by_rounded_exponent,
        _by_range_of_half,
        by_rounding,
        by_length,
        by_finite_infinity,
        by_parameters,
        by_rows_left,
        by_rows_of_later_tiles,
        by_second_division,
        diagnose_tiles,
    )
    return next((found for look in looks if (found := look(evidence)) is not None), None)


def whole_probe(case, output):
    """A case in which every tile is full. Reading: whether all of `output` is finite."""
    return Probe("whole tiles", case, lambda _inputs, outputs: bool(outputs[output].isfinite().all()))


def _by_undefined(evidence):
    """Diagnosis of NaN where a tile is not full and nowhere else, or None."""
    failing = [c for case in evidence.failing() for c in case.comparisons.values() if not c.passed]
    counter = evidence.readings.get("key counter", math.nan)  # its last tile is not full
    if not evidence.readings.get("whole tiles") or not failing or failing[0].got == failing[0].got:
        return None
    if not math.isnan(counter):
        return None
    return Diagnosis(
        "undefined_places",
        f"NaN in the case {evidence.failing()[0].case.name!r}, and right numbers where all tiles are full. The "
        "masked elements of a load are what `other` says, and undefined without it. Say other=0.0: 0 times NaN or "
        "infinity is NaN.",
    )


def _by_fading(evidence):
    """Wrong in nothing but a long sum of halves whose later terms are small."""
    failing = evidence.failing()
    if not failing or not all({"v_fades", "v_shift"} & case.case.options.keys() for case in failing):
        return None
    failing = [case for case in failing if case.case.options.get("v_fades")]
    if not failing or not all(case.ran for case in failing):
        return None
    num_keys, out = failing[0].case.sizes["seq_len_kv"], failing[0].first.outputs["out"].double().flatten()[0].item()
    if not near(out * num_keys, BLOCK_N * FIRST, 1e-2):
        return None
    return Diagnosis(
        "half_accumulator",
        f"Right everywhere but in a long sum of halves: {num_keys} equal weights, the first {BLOCK_N} values are "
        f"{FIRST:g}, the others {LATER:g}, and out * {num_keys} is {out * num_keys:.4g} in place of "
        f"{BLOCK_N * FIRST + (num_keys - BLOCK_N) * LATER:.4g}. Half precision cannot add {BLOCK_N * LATER:.2g} to "
        f"{BLOCK_N * FIRST:g}: acc must be float32 from the first tile to the last, also when v is half.",
    )


def _by_range_of_half(evidence):
    """Wrong in nothing but cases in half whose scores, or whose sum of weights times v, half precision cannot hold."""
    failing = evidence.failing()
    if not failing or any(case.case.dtype != "float16" for case in failing):
        return None
    name = failing[0].case.name
    if all("v_shift" in case.case.options for case in failing) and not failing[0].comparisons["out"].passed:
        return Diagnosis(
            "half_accumulator",
            f"Right everywhere but in the case {name!r}, where the sum of the weights times v is more than half "
            f"precision holds ({_HALF_HOLDS:,.0f}): acc must be float32 until it has been divided by l, and out alone "
            "is rounded.",
        )
    floats = [case for case in evidence.passing("below_1e9") if case.case.dtype == "float32"]
    if floats and all(case.case.values == "below_1e9" for case in failing):
        return Diagnosis(
            "rounded_to_half",
            f"Right with scores below -1e9 in float32, wrong in the case {name!r}: a score or the maximum was rounded "
            f"to half, which holds nothing beyond {_HALF_HOLDS:,.0f}.",
        )
    return None


def by_threshold(evidence):
    """0 where light weights make the result, and elsewhere right, or off by no more than such weights come to."""
    failing = evidence.failing()
    light = [case for case in failing if "light" in case.case.options]
    others = [c for case in failing if case not in light for c in case.comparisons.values() if not c.passed]
    if not light or not all(case.ran for case in failing) or not all(c.max_error < _FAINT for c in others):
        return None
    name, wrong = light[0].first_wrong
    if wrong.got != 0.0:
        return None
    elsewhere = f"right or off by less than {_FAINT:g} elsewhere" if others else "right everywhere else"
    return Diagnosis(
        "weights_left_out",
        f"In the case {light[0].case.name!r} weights far below 1 make {name}: it is 0 in place of "
        f"{wrong.expected:.4g}, and {elsewhere}. Weights below a threshold were left out, or tiles of them, or they "
        "are 0 after a rounding.",
    )


def by_rounded_exponent(evidence):
    """Wrong in nothing but weights whose exponent lies midway between two halves, and by what its rounding makes."""
    failing = evidence.failing()
    if not failing or not all("exponent" in case.case.options and case.ran for case in failing):
        return None
    name, wrong = failing[0].first_wrong
    exponent = failing[0].case.options["exponent"]
    moved = round_to_half(exponent) - exponent
    if not wrong.got * wrong.expected > 0.0 or not near(math.log(wrong.got / wrong.expected), moved, 0.2):
        return None
    return Diagnosis(
        "rounded_to_half",
        f"Right everywhere but in the case {failing[0].case.name!r}, where the exponent of each weight, the score "
        f"minus what is subtracted from it, is {exponent}: {name} is {wrong.got:.6g} in place of {wrong.expected:.6g}, "
        f"exp({moved:.4f}) times as large. The exponent was rounded to half, to {exponent + moved:g}. Round the "
        "weight, after exp.",
    )


def by_finite_infinity(evidence):
    """Wrong in nothing but cases whose scores lie below the numbers that people take for -inf."""
    failing = [case for case in evidence.failing() if case.case.values != "mixed_rows"]  # some of its rows are low
    if not failing or any(case.case.values not in _BELOW for case in failing):
        return None
    case = min(failing, key=lambda case: list(_BELOW).index(case.case.values))
    name = case.first_wrong[0]
    below = "-1e30" if case.case.options.get("scale") == FARTHER else _BELOW[case.case.values]
    return Diagnosis(
        "finite_infinity",
        f"Right for ordinary scores, wrong in the case {case.case.name!r}, where every score is below {below}: {name} "
        f"is {case.comparisons[name].got:.4g} instead of {case.comparisons[name].expected:.4g}. A score may be any "
        f"finite number, so neither {below} nor another one is minus infinity: start m with -inf, and give what is "
        "masked -inf." + f" (Half precision holds nothing beyond {_HALF_HOLDS:,.0f}.)" * (case.case.dtype == "float16"),
    )


def by_parameters(evidence):
    """Wrong in nothing but cases that differ from all that are right in one and the same parameter."""
    failing, passing = evidence.failing(), [_parameters(evidence, case) for case in evidence.passing()]
    if not passing or all(case.case.options.get("long") for case in failing):
        return None
    everywhere, usual = [_parameters(evidence, case) for case in evidence.cases], {}
    for name in passing[0]:
        values = [parameters[name] for parameters in everywhere]
        usual[name] = max(values, key=values.count)
    apart = [{name for name, value in _parameters(evidence, case).items() if value != usual[name]} for case in failing]
    common = set.intersection(*apart)  # empty where a case with all the usual values fails
    if len(common) != 1:
        return None
    (name,) = common
    cases = ", ".join(f"{case.case.name!r} ({_parameters(evidence, case)[name]})" for case in failing[:3])
    right = ", ".join(str(value) for value in sorted({parameters[name] for parameters in passing}))
    return Diagnosis(
        "parameter_constant",
        f"Right wherever {name} is {right}, wrong only where it has another value: {cases}. {name} is a parameter, and "
        "neither a number nor another parameter may stand in its place.",
    )


def _parameters(evidence, case):
    """name -> value of the constants that a case chooses; BLOCK_D follows from HEAD_DIM."""
    constants = evidence.exercise.make_run(case.case, case.inputs).constants
    return {name: value for name, value in constants.items() if name != "BLOCK_D"}


def by_rounding(evidence, rounded="the weights are rounded, for the second product, and out"):
    """Right in every case of float32, wrong in those of half, and a number everywhere."""
    failing = evidence.failing()
    if not any(case.case.dtype == "float32" for case in evidence.passing("normal")):
        return None
    if not failing or any(case.case.dtype != "float16" for case in failing):
        return None
    near = [case for case in failing if case.case.values != "below_1e9"]  # farther ones may be NaN
    wrong = [(name, c) for case in near for name, c in case.comparisons.items() if not c.passed]
    if not wrong or not all(math.isfinite(c.max_error) for _, c in wrong):
        return None
    name, worst = max(wrong, key=lambda pair: pair[1].max_error)
    return Diagnosis(
        "rounded_to_half",
        f"Right in every case of float32, wrong in {_names(failing)}: {name} is off by up to {worst.max_error:.2g}, "
        f"where {worst.tolerance.largest:.1g} is allowed. At half {rounded}; something "
        "else is, too, or small weights are left out. (A score of 100 in half is off by up to 0.03; bfloat16 has three "
        "bits less.)",
    )


def _names(cases):
    return " and ".join(repr(case.case.name) for case in cases[:3])


def by_length(evidence):
    """Right up to some length, wrong in every case beyond it."""
    failing, passing = evidence.failing(), evidence.passing()
    for name, what in (("seq_len_kv", "keys"), ("seq_len_q", "queries")):
        if not failing or not passing or not all(case.case.options.get("long") for case in failing):
            return None
        most = max(case.case.sizes[name] for case in passing)
        if all(case.case.sizes[name] > most and _ends_early(case, name) for case in failing):
            case = failing[0]
            return Diagnosis(
                "limited",
                f"Right up to {most:,} {what}, wrong with {case.case.sizes[name]:,} (case {case.case.name!r}): a loop, "
                f"a tile or a table that is made for a certain number of {what} ends before the last one.",
            )
    return None


def _ends_early(case, name):
    """Whether what is wrong may be keys, or queries, that are missing at the end: too small an lse, a last part."""
    lse = case.comparisons.get("lse")
    if lse is not None and name == "seq_len_kv":
        low = (case.first.outputs["lse"].double() < case.ref["lse"]) | ~lse.wrong
        return not lse.passed and bool(low.all())
    for comparison in case.comparisons.values():
        wrong = comparison.wrong
        if comparison.passed or wrong is None or wrong.dim() < 2 or wrong.shape[-2] != case.case.sizes[name]:
            continue
        rows = wrong.any(dim=-1).reshape(-1, wrong.shape[-2]).any(dim=0)
        if not bool(rows[int(rows.nonzero()[0]) :].all()):
            return False
    return True


def by_second_division(evidence):
    """v = 1 gives 1 / l: divided in every tile, or twice at the end."""
    reading = evidence.readings.get("unity")
    if reading is None:
        return None
    half = reading["num_keys"] / 2
    if not near(reading["sum"], 1.0 / (half + half / math.e)):
        return None
    return Diagnosis(
        "divided_twice",
        f"With v = 1 in all {reading['num_keys']} keys every weighted mean is 1; here it is {reading['sum']:.4g}, "
        "which is 1 / l: it was divided by l once more. acc stays a plain sum until the last tile is done.",
    )


def by_rows_of_later_tiles(evidence):
    """The first tile of queries right, later ones wrong: their state was not reset."""
    failing = [case for case in evidence.failing() if any(not c.passed for c in case.comparisons.values())]
    if not failing:
        return None
    for case in failing:
        block_m, wrong = evidence.exercise.tile(case.case)[0], case.comparisons["out"].wrong
        if wrong is None or wrong.shape[-2] <= block_m or bool(wrong[..., :block_m, :].any()):
            return None
    case = failing[0]
    block_m = evidence.exercise.tile(case.case)[0]
    rows = case.comparisons["out"].wrong.reshape(-1, *case.comparisons["out"].wrong.shape[-2:]).any(dim=0).any(dim=1)
    if not bool(rows[block_m : 2 * block_m].any()):
        return None
    return Diagnosis(
        "state_not_reset",
        f"The first {block_m} queries, one tile, are right in every case; from query {int(rows.nonzero()[0])} on they "
        "are wrong. m, l and acc belong to one tile of queries: they begin with -inf, 0 and 0 in each.",
    )
