"""The probes of a merge of two states, and the mistakes that their results point to."""

import math

from course_lib.grading.exercise.spec import Probe
from course_lib.grading.judge.diagnosis import low_precision, worst_element
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.softmax.sums import near

E = math.e
_SUMS = ("sums_of_a", "sums_of_b")


def merge_probes(make_case):
    """A state with maximum 1 and one with maximum 2, sums 1 and 1, in both orders."""

    def read(_inputs, outputs):
        return {name: outputs[name].double().flatten()[0].item() for name in ("m", "l")}

    def fixed(m_a, m_b):
        return {"m_a": m_a, "l_a": 1.0, "m_b": m_b, "l_b": 1.0}

    return (
        Probe("second larger", make_case("second larger", 1, fixed=fixed(1.0, 2.0)), read),
        Probe("first larger", make_case("first larger", 1, fixed=fixed(2.0, 1.0)), read),
    )


def diagnose_merge(evidence):
    """Diagnosis of a wrong merge, or None."""
    for name, start in (("second larger", "merge(1, 1, 2, 1)"), ("first larger", "merge(2, 1, 1, 1)")):
        reading = evidence.readings.get(name)
        found = reading and _say_merge(start, reading["m"], reading["l"])
        if found:
            return found
    looks = (_by_empty, _by_height, _by_ties, _by_sums, _by_rounding)
    return next((found for look in looks if (found := look(evidence)) is not None), None)


def _only(evidence, *options):
    """The failing cases, when each of them has one of these options; else none."""
    failing = evidence.failing()
    return failing if all(set(options) & case.case.options.keys() for case in failing) else []


def _comes(case):
    got, expected = worst_element(case)
    return f"in the case {case.case.name!r} comes {got:.4g} instead of {expected:.4g}"


def _by_empty(evidence):
    """Only states that have seen nothing are merged wrongly."""
    failing = _only(evidence, "empty", "mixed")
    if not failing:
        return None
    if not any("empty" in case.case.options for case in failing):
        return Diagnosis(
            "decided_for_all",
            f"Right where all elements are alike; {_comes(failing[0])}: there full states lie beside empty ones, and "
            "high maxima beside low ones. Each element is merged by itself: choose with torch.where, and let no "
            "maximum, any() or all() of the whole tensor decide.",
        )
    start = f"Right for two states that have seen something; {_comes(failing[0])}"
    if math.isnan(worst_element(failing[0])[0]):
        return Diagnosis("inf_minus_inf", f"{start}. (-inf, 0) must change nothing, and exp(-inf - -inf) is NaN.")
    return Diagnosis("identity_changed", f"{start}. (-inf, 0) must change nothing.")


def _by_height(evidence):
    """Only maxima far from 0 are merged wrongly."""
    if not _only(evidence, "m_a", "m_b", "empty", "mixed"):
        return None
    large = [case for case in evidence.failing() if abs(case.case.options.get("m_a", 0.0)) >= 100.0]
    if not large:
        return None
    high = [case for case in large if max(case.case.options["m_a"], case.case.options["m_b"]) >= 100.0]
    if not high and not [case for case in large if case.case.options["m_a"] > -1000.0]:
        return Diagnosis(
            "finite_minus_inf",
            f"Right for maxima near 0, -100 and +100; {_comes(large[0])}: a number is taken for minus infinity, or the "
            "lowest maximum possible, and these maxima lie below it. Compare with -torch.inf.",
        )
    if all(abs(case.case.options["m_a"]) > 1000.0 for case in large):
        return Diagnosis(
            "finite_limit",
            f"Right for maxima near 0, -100 and +100; {_comes(large[0])}: maxima that far from 0 are cut at a limit, "
            "or kept in a format that does not hold them.",
        )
    case = next((c for c in large if math.isnan(worst_element(c)[0])), large[0])
    return Diagnosis(
        "no_max",
        f"Right for small maxima; {_comes(case)}. exp(100) is more than float32 holds and exp(-200) is 0: only "
        "differences to the new maximum may be exponentiated.",
    )


def _by_ties(evidence):
    failing = _only(evidence, "equal")
    if not failing:
        return None
    return Diagnosis(
        "ties_wrong",
        f"Right wherever one maximum is the larger; {_comes(failing[0])}. Where they are equal both factors are 1 and "
        "both sums count.",
    )


def _by_sums(evidence):
    """Only uncommon sums are merged wrongly."""
    failing = [case for case in _only(evidence, *_SUMS, "empty", "mixed") if set(_SUMS) & case.case.options.keys()]
    if not failing:
        return None
    kinds = ("large", "small", "apart")
    large, small, apart = ([case for case in failing if _sums_of(case) == kind] for kind in kinds)
    start = f"Right for sums from 1 to 41 and maxima that are close; {_comes((large or small or apart)[0])}"
    if large:
        why = "both states hold sums of 1e10 and more, and a sum of that size is to be kept: there is no upper limit"
    elif small:
        why = "the sums are near 1e-4. A sum may be as small as 1e-5: neither an epsilon nor a lower limit is right"
    else:
        why = "the lower state holds a sum of 1e10 and more, so its factor counts, however small: leave nothing out"
    return Diagnosis("sums_limited", f"{start}: {why}.")


def _sums_of(case):
    """Whether the sums of a case are "large", "small", or "apart": large beside small."""
    large = [case.case.options.get(side, 1.0) > 1.0 for side in _SUMS]
    return "large" if all(large) else "apart" if any(large) else "small"


def _by_rounding(evidence):
    """The ordinary cases say whether all errors are small; others may underflow as well."""
    ordinary = [case for case in evidence.failing() if not case.case.options]
    return low_precision(ordinary) if ordinary else None


def _say_merge(start, m, l):
    right = 1.0 + 1.0 / E
    if near(m, right) and near(l, 2.0):
        return Diagnosis("swapped_results", f"{start} returns ({m:.4g}, {l:.4g}); that is (l, m). The order is (m, l).")
    if not near(m, 2.0):
        return Diagnosis("wrong_max", f"{start} must have the maximum 2; here m is {m:.4g}.")
    if not math.isfinite(l) or near(l, right):
        return None
    table = (
        (
            2.0,
            "l_not_rescaled",
            "the sums were added as they are; the one with the smaller maximum shrinks by exp(m_old - m) = 0.368",
        ),
        (1.0 + E, "inverse_factor", "the factor is exp(m_old - m), not exp(m - m_old)"),
        (1.5, "exp_exp2_mix", "the smaller one was multiplied by 2 to the -1 instead of exp(-1)"),
        (1.0, "old_sum_lost", "one of the two sums is missing"),
        (
            2.0 / E,
            "new_term_rescaled",
            "both sums were multiplied by 0.368; the one that holds the maximum keeps its size",
        ),
        (1.0 / E, "new_term_rescaled", "the sum that holds the maximum is gone, or was multiplied as well"),
    )
    text = f"{start} must have l = exp(-1) + 1 = {right:.4g}; here it is {l:.4g}"
    for value, code, reason in table:
        if near(l, value):
            return Diagnosis(code, f"{text}: {reason}.")
    return Diagnosis("rescale_wrong", f"{text}.")
