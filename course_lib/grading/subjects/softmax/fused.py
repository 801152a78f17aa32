"""The fused row softmax, in which the row is read once and stays on chip: its cases, probes and diagnostics."""

import math
from dataclasses import replace

from ...exercise import magnitude
from ...exercise import probes as spec_probes
from ...report.verdict import Diagnosis
from ..ledger.share import share
from ..limits import by_limit
from . import cases
from .clipped import by_clipped
from .diagnostics import diagnose_softmax
from .sums import near

LONG = 13_000  # columns of a row that fits into no static array of shared memory, which ends at 48 KB


def fused_cases(unit, width, *, other=None, **options):
    """The cases of every row softmax but those with scores of -inf, which chapter 03 introduces.

    Four are added: scores below every number that people take for -inf, rows of any height, thousands of small weights
    beside a large one, and a row of LONG columns. `other` goes into the options of some cases, those with falling
    scores and the largest ones: another block, another tile.
    """
    found = [c for c in cases.row_cases(unit, width, **options) if c.values not in ("masked", "leading_masked")]
    low = next(number for number, case in enumerate(found) if case.values == "minus_3000")
    found.insert(low + 1, replace(found[low], name="scores near -100,000", values="minus_100000"))
    found.insert(low + 2, cases.rows_case("scores of any size", 6, width + width // 2 - 3, "any_height"))
    found.insert(-1, cases.rows_case("one high score, many low ones", 1, 3000, "high_by_14"))
    found.insert(-1, cases.rows_case("a row of 13,000", 1, LONG))
    changed = {"falling scores", "many rows"} if other else set()
    return tuple(replace(case, options=other) if case.name in changed else case for case in found)


def largest_score(case, tensors):
    """The largest score; 0 for rows whose weights are 0 and 1, however their scores are rounded."""
    return 0.0 if case.values == "any_height" else magnitude.largest(tensors["x"])


FUSED = cases.SOFTMAX | {"largest_score": largest_score}


def one_sweep(case, ledger, most, unit="thread", shared=None):
    """Refuses an answer that reads the row more than once, or parks something in global memory on the way.

    No thread (Triton: no program, the `unit`) reads more than `most` scores or writes more than `most` weights, and no
    thread reads more than `shared` bytes of shared memory.
    """
    size = 4 * case.sizes["num_rows"] * case.sizes["num_cols"]
    read, written = ledger["global_load"]["bytes"], ledger["global_store"]["bytes"]
    where = f"Every weight is right, but the kernel is not fused (case {case.name!r}): x holds {size:,} bytes"
    if ledger.get("atomics") or ledger.get("global_atomic", {}).get("bytes"):
        return Diagnosis(
            "atomics_used",
            f"Every weight is right (case {case.name!r}), but atomic operations wrote it; one plain store does.",
        )
    if read > size:
        return Diagnosis(
            "not_fused",
            f"{where} and {read:,} were read from global memory, {read / size:.3g} times as "
            "many. Read the row once, keep it on chip, and work on that copy.",
        )
    if written > size:
        return Diagnosis(
            "not_fused",
            f"{where} and {written:,} were written to global memory, {written / size:.3g} "
            "times as many. Write each weight once, when it is finished.",
        )
    why = f"{most:,} columns at most"
    return share(case, ledger, loaded=4 * most, stored=4 * most, shared=shared, why=why, unit=unit)


def probes(width):
    """Probes that tell what each thread subtracted: steps inside a row of `width` and after it."""
    return (
        spec_probes.count({"num_rows": 4, "num_cols": 2 * width - 11}),
        spec_probes.step("step within a row", {"num_rows": 4, "num_cols": width}, width // 2),
        spec_probes.step("step after a block", {"num_rows": 4, "num_cols": 2 * width}, width),
    )


def diagnose_fused(evidence, *, width, unit):
    """Diagnosis of a failing fused softmax, or None: what only a whole row at once can get wrong, then the rest."""
    found = by_clipped(evidence) or _by_any_height(evidence) or _by_maximum(evidence) or _by_order(evidence)
    found = found or diagnose_softmax(evidence, stride=width, unit=unit)
    return found or by_limit(evidence, num_cols="columns")


def _by_any_height(evidence):
    """Only scores beyond 100,000 fail: a finite number took the place of -inf, or cuts scores off."""
    if not evidence.fails_only("any_height"):
        return None
    case = evidence.failing()[0]
    name, comparison = case.first_wrong
    row = comparison.index[0]
    top = case.inputs["x"][row].max().item()
    said = f"Right for scores from -100,000 to +100; row {row} of the case {case.case.name!r}, highest score {top:.3g},"
    why = "Is a score cut off at some number (clamp)?"
    if top < 0:
        why = (
            "Only -inf is below every score: does a finite number take its place, where m starts or in columns past "
            "the end of the row (`other` of a load), or are scores cut off below (clamp)?"
        )
    return Diagnosis(
        "scores_limited", f"{said} has a weight of {comparison.got:.4g} for {comparison.expected:.4g}. {why}"
    )


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
    if evidence.failing("spikes") and evidence.fails_only("spikes", "any_height"):
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
