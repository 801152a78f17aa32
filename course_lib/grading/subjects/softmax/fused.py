"""The fused row softmax, in which the row is read once and stays on chip: its cases, probes and diagnostics."""

import math

from ...exercise import probes as spec_probes
from ...report.verdict import Diagnosis
from . import cases
from .diagnostics import diagnose_softmax
from .sums import near

_SLACK = 1.2  # reads over the size of x: a few extra numbers are no second sweep


def fused_cases(unit, width, **options):
    """The cases of every row softmax but those with scores of -inf, which chapter 03 introduces."""
    found = cases.row_cases(unit, width, **options)
    return tuple(case for case in found if case.values not in ("masked", "leading_masked"))


def one_sweep(case, ledger):
    """Refuses an answer that reads the row more than once, or parks something in global memory on the way."""
    size = 4 * case.sizes["num_rows"] * case.sizes["num_cols"]
    read, written = ledger["global_load"]["bytes"], ledger["global_store"]["bytes"]
    where = f"Every weight is right, but the kernel is not fused (case {case.name!r}): x holds {size:,} bytes"
    if read > _SLACK * size:
        return Diagnosis(
            "not_fused",
            f"{where} and {read:,} were read from global memory, {read / size:.3g} times as "
            "many. Read the row once, keep it on chip, and work on that copy.",
        )
    if written > _SLACK * size:
        return Diagnosis(
            "not_fused",
            f"{where} and {written:,} were written to global memory, {written / size:.3g} "
            "times as many. Write each weight once, when it is finished.",
        )
    return None


def probes(width):
    """Probes that tell what each thread subtracted: steps inside a row of `width` and after it."""
    return (
        spec_probes.count({"num_rows": 4, "num_cols": 2 * width - 11}),
        spec_probes.step("step within a row", {"num_rows": 4, "num_cols": width}, width // 2),
        spec_probes.step("step after a block", {"num_rows": 4, "num_cols": 2 * width}, width),
    )


def diagnose_fused(evidence, *, width, unit):
    """Diagnosis of a failing fused softmax, or None: what only a whole row at once can get wrong, then the rest."""
    return _by_maximum(evidence) or _by_order(evidence) or diagnose_softmax(evidence, stride=width, unit=unit)


def _ratio(evidence, name):
    """Weight of a score of 0 over the weight of a score of 1, in the probe `name`; exp(-1) when right."""
    reading = evidence.readings.get(name)
    return reading["first"] / reading["last"] if reading and reading["last"] else math.nan


def _by_maximum(evidence):
    """What was subtracted is not the maximum of the row."""
    within, after = _ratio(evidence, "step within a row"), _ratio(evidence, "step after a block")
    counts = evidence.readings.get("count") or [math.nan]
    counted = all(near(count, len(counts)) for count in counts)  # the sum is the row's, so it is not the sum's fault
    if counted and near(within, 1.0) and near(after, math.exp(-1.0)):
        return Diagnosis(
            "own_maximum",
            "Scores 0, then 1: when both lie in one thread's columns the 0 weighs exp(-1) "
            "= 0.368 times as much, as it should; when they lie in different threads' it "
            "weighs the same. Each thread subtracted a maximum of its own; all need that "
            "of the row.",
        )
    if evidence.fails_only("spikes"):
        return Diagnosis(
            "wrong_maximum",
            "Right while the scores of a row are alike; with one score of 120 among "
            "small ones the exponential overflows. What was subtracted is not the "
            "maximum of the row.",
        )
    return None


def _by_order(evidence):
    if near(_ratio(evidence, "step within a row"), math.e):
        return Diagnosis(
            "order_reversed",
            "A score that is 1 higher should weigh e = 2.718 times as much; here it "
            "weighs 0.368 times as much. Is it exp(x - m), and does every weight "
            "land in the column of its score?",
        )
    return None
