"""What a wrong attention of one query says: a limit, a scale that fits some widths, then what all attention shares."""

import math

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.attention.diagnostics import diagnose_attention
from course_lib.grading.subjects.limits import by_limit


def diagnose(evidence):
    """Diagnosis of a failing attention of one query, or None."""
    found = by_limit(evidence, seq_len_kv="keys", head_dim="columns") or diagnose_attention(evidence)
    return found or _by_width(evidence)


def _by_width(evidence):
    """Scores N(0, 1): right for some widths and wrong for others, whatever the number of keys."""
    right, wrong = (
        {one.case.sizes["head_dim"] for one in cases if one.ran and one.case.sizes["seq_len_kv"] > 1}
        for cases in (evidence.passing("normal"), evidence.failing("normal"))
    )
    if not right or len(wrong) < 3 or right & wrong:
        return None
    said = f"Right for {_widths(right)} and wrong for {_widths(wrong)}, whatever the number of keys"
    squares = [math.isqrt(width) ** 2 == width for width in (*sorted(right), *sorted(wrong))]
    if squares == [True] * len(right) + [False] * len(wrong):
        return Diagnosis(
            "scale_of_some_widths",
            f"{said}: the right ones are squares. Is the root of the width rounded to a whole number?",
        )
    return Diagnosis(
        "scale_of_some_widths", f"{said}. Does the scale, 1 / sqrt(head_dim), or a loop fit some widths alone?"
    )


def _widths(widths):
    """ "the widths 8, 20 and 113", "the width 64"."""
    *most, last = (f"{width:,}" for width in sorted(widths))
    return f"the widths {', '.join(most)} and {last}" if most else f"the width {last}"
