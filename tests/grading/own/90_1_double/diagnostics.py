"""The mistakes that a wrong double points to."""

from course_lib.grading.report.verdict import Diagnosis


def diagnose(evidence):
    """Diagnosis of a wrong double, or None."""
    got = evidence.readings.get("ones")
    return None if got in (None, 2.0) else Diagnosis("wrong_factor", f"Twice 1 is 2; here it is {got:g}.")
