"""The probes of a merge of two states, and the mistakes that their results point to."""

import math

from course_lib.grading.exercise.spec import Probe
from course_lib.grading.judge.diagnosis import worst_element
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.softmax.sums import near

E = math.e


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
    failing = evidence.failing()
    large = [case for case in failing if abs(case.case.options.get("m_a", 0.0)) >= 100.0]
    if all("empty" in case.case.options for case in failing):
        got, expected = worst_element(failing[0])
        return Diagnosis(
            "inf_minus_inf",
            "Right for two states that have seen something; in the case "
            f"{failing[0].case.name!r} comes "
            f"{got:.4g} instead of {expected:.4g}. (-inf, 0) must change nothing, and "
            "exp(-inf - -inf) is NaN.",
        )
    if large and all(case in large or "empty" in case.case.options for case in failing):
        case = next((c for c in large if math.isnan(worst_element(c)[0])), large[0])
        got, expected = worst_element(case)
        return Diagnosis(
            "no_max",
            f"Right for small maxima; in the case {case.case.name!r} comes {got:.4g} instead of "
            f"{expected:.4g}. "
            "exp(100) is more than float32 holds and exp(-200) is 0: only differences to the "
            "new maximum "
            "may be exponentiated.",
        )
    return None


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
