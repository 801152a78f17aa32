"""Answers that are wrong for one value of a compile-time constant and right for the others.

May import: spec, verdict, sums.
"""

import math

from ...exercise.spec import Case, Probe
from ...report.verdict import Diagnosis
from .sums import near

COLS = 309  # equal scores: a weight is 1 / COLS, a log-sum-exp ln(COLS)


def size_probes(option, sizes, output="out", dtype="float32"):
    """Equal scores, once with each of the `sizes` as the case's `option`. Reading: how many scores were counted."""

    def read(_inputs, outputs):
        first = outputs[output].double().flatten()[0].item()
        return math.exp(min(first, 700.0)) if output == "lse" else 1.0 / first if first else math.inf

    rows = {"num_rows": 2, "num_cols": COLS}
    return tuple(
        Probe(f"size {size}", Case(f"size {size}", rows, "zeros", dtype, {option: size}), read) for size in sizes
    )


def by_size(evidence, constant):
    """Diagnosis when equal scores are counted wrongly with one size and rightly with every other, or None."""
    counts = {int(name[5:]): seen for name, seen in evidence.readings.items() if name.startswith("size ")}
    right = [size for size, seen in counts.items() if near(seen, COLS)]
    wrong = [size for size in counts if size not in right]
    if not right or len(wrong) != 1:
        return None
    others = ", ".join(map(str, right))
    return Diagnosis(
        "wrong_for_one_size",
        f"{COLS} equal scores are counted rightly with {constant} = {others}; with {constant} = {wrong[0]} they count "
        f"as {counts[wrong[0]]:.4g}. Nothing else about the case is special: what in the code depends on {constant}?",
    )
