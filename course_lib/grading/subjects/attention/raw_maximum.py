"""The maximum of the scores before they were scaled, subtracted from the scaled ones.

May import: verdict, evidence (as data).
"""

from ...report.verdict import Diagnosis


def by_raw_maximum(evidence, output):
    """Diagnosis "raw_maximum" or None, for float32 and scales below 1: right near 0, NaN near -100, NaN or 0 near +100.

    Without any maximum the weights near -100 are subnormal numbers, and no NaN.

    Parameters
    ----------
    output : str, the output that is NaN
    """
    low, high = ((evidence.failing(values) or [None])[0] for values in ("minus_100", "plus_100"))
    if evidence.failing("normal") or any(case is None or not case.ran for case in (low, high)):
        return None
    below, above, right = low.first.outputs[output], high.first.outputs[output], high.ref[output]
    if not bool(below.isnan().any()) or bool((above[right > 0] > 0).any()):
        return None
    return Diagnosis(
        "raw_maximum",
        f"Right for scores near 0; in the case {low.case.name!r} comes NaN, exp of a large number, and in the case "
        f"{high.case.name!r} no weight is above 0: what was subtracted lies below the scores near -100 and far above "
        "those near +100, as the maximum of the scores before they are multiplied by softmax_scale does: take the "
        "maximum of the scaled scores. exp(score) * exp(-m) gives the same, since each factor alone leaves float32: "
        "take one exponential, of score - m.",
    )
