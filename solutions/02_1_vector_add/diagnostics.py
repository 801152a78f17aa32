"""The mistakes that wrong vector sums point to."""

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.memory.special import by_special

MOST = 4  # elements of one thread: a float4


def add_traffic(case, ledger):
    """Diagnosis or None: x and y are read once, out is written once and by plain stores, and the threads share that."""
    count = case.sizes["num_elements"]
    if ledger["atomics"]:
        return Diagnosis(
            "atomics_used",
            f"Every value is right (case {case.name!r}), but the ledger counts {ledger['atomics']:,} atomic "
            "operations: an element belongs to one thread, and one plain store writes it.",
        )
    why = "x and y are read once, out is written once, and a thread without an element touches nothing"
    found = moved(case, ledger, read=8 * count, written=4 * count, why=why)
    return found or share(case, ledger, stored=4 * MOST, why=f"{MOST} elements at most")


def diagnose_add(evidence):
    """Diagnosis of a wrong vector sum, or None."""
    found = by_special(evidence) or _by_rounding(evidence)
    if found is not None:
        return found
    places, ones = evidence.readings.get("places"), evidence.readings.get("ones")
    if places is None or ones is None:
        return None
    no_x, no_y = not any(places[1:]), not any(ones)
    if no_x and no_y:
        return Diagnosis(
            "wrong_operation",
            "0 beside 1 gives 0, and so does any number beside 0: out is the product of x and y, not their sum.",
        )
    if no_x:
        return Diagnosis("input_ignored", "With x = 0, 1, 2, … and y = 0 every element of out is 0: x does not enter.")
    if no_y:
        return Diagnosis("input_ignored", "With x = 0 and y = 1 every element of out is 0: y does not enter.")
    if all(value == -1.0 for value in ones):
        return Diagnosis("wrong_operation", "With x = 0 and y = 1 every element of out is -1: y is subtracted.")
    wrong = [(i, value) for i, value in enumerate(places) if value != i]
    if wrong and wrong[0][1] == 2 * wrong[0][0]:
        return Diagnosis(
            "input_ignored", "With x = 0, 1, 2, … and y = 0 every element of out is twice x: x was added to itself."
        )
    if wrong and wrong[0][1] in range(len(places)):
        i, value = wrong[0]
        return Diagnosis(
            "wrong_place",
            f"With x = 0, 1, 2, … and y = 0, out[{i}] must be {i} and is {value:g}: "
            "that is another thread's element. Which places does a thread read, and "
            "which one does it write?",
        )
    return None


def _by_rounding(evidence):
    """Every wrong element is the float beside the sum: another rounding than that of +; or None."""
    failing = evidence.failing()
    if len(failing) < 2 or not all(case.ran and _beside(case) for case in failing):
        return None
    case = failing[0]
    index = case.comparisons["out"].index
    got, want = case.first.outputs["out"][index].item(), case.ref["out"].float()[index].item()
    return Diagnosis(
        "wrong_rounding",
        f"Every wrong element is the float next to the right one: {got:.9g} for {want:.9g} in the case "
        f"{case.case.name!r}. + rounds a sum to the nearest float; something here rounds it another way.",
    )


def _beside(case):
    """Whether each element of out is the right float or the next one; infinity is next to the largest."""
    got, want = case.first.outputs["out"].contiguous(), case.ref["out"].float().contiguous()
    apart = (got.view(torch.int32).long() - want.view(torch.int32).long()).abs()
    return bool((apart[~torch.isnan(want)] <= 1).all())
