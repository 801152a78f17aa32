"""03.7 A row that breaks a wrong kernel: what the judge runs."""

import math

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.judge.comparison import compare
from course_lib.grading.processes.protocol import Run
from course_lib.grading.report.verdict import Diagnosis
from course_lib.reference import softmax as reference

VISIBLE_ERROR, LONGEST_ROW = 0.01, 4096  # of the contract


def accept_counter_example(_case, _inputs, outputs):
    """None when the row is a counter-example; otherwise a Diagnosis that says what both kernels make of it."""
    row = outputs["row"]
    if row.numel() == 0:
        return Diagnosis("empty_row", "The row holds no score; return at least one.")
    if row.numel() > LONGEST_ROW:
        return Diagnosis("long_row", f"The row holds {row.numel():,} scores; the contract allows {LONGEST_ROW:,}.")
    if not bool(torch.isfinite(row).all()):
        return Diagnosis(
            "not_finite_row",
            "The row holds infinities or NaN; the contract asks for finite scores, on which the right softmax has "
            "nothing special to do.",
        )
    right = reference.softmax(row)
    good, bad = _online(row, start=-math.inf), _online(row, start=0.0)
    base, largest = reference.rounded_softmax(row), row.abs().max().item()
    if not compare(good, right, base, torch.float32, "weights", largest_score=largest).passed:
        return Diagnosis(
            "right_is_wrong", "On this row the kernel that starts at -inf is off as well; choose a milder one."
        )
    error = (bad.double() - right).abs()
    if bool((error > VISIBLE_ERROR).any()) or bool(torch.isnan(bad).any()):
        return None
    largest = row.max().item()
    if largest >= 0.0:
        return Diagnosis(
            "harmless_row",
            f"The largest score of your row is {largest:.4g}. As soon as one score is at "
            "least 0, "
            "starting at 0 changes nothing: both kernels find the same maximum, or a "
            "harmless one.",
        )
    return Diagnosis(
        "harmless_row",
        f"On your row the two kernels differ by at most {error.max().item():.2g}, less "
        f"than {VISIBLE_ERROR}. "
        f"Its largest score is {largest:.4g}, and exp({largest:.4g}) = "
        f"{math.exp(max(largest, -700)):.2g} still has "
        "digits in float32. Where do they end?",
    )


def _online(row, *, start):
    """The course's online softmax in float32, one score after the other, with m starting at `start`."""
    m, l = torch.tensor(start), torch.tensor(0.0)
    for score in row:
        m_new = torch.maximum(m, score)
        l = l * torch.exp(m - m_new) + torch.exp(score - m_new)
        m = m_new
    return torch.exp(row - m) / l


EXERCISE = exercise(
    __file__,
    cases=(Case("your row", {}),),
    make_inputs=lambda case, gen: {},
    make_run=lambda case, tensors: Run(case.name, tensors, {"row": ((-1,), "float32")}, ()),
    accept=accept_counter_example,
)
