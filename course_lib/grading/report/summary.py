"""The parts of a verdict that the text and the card share: heading, counts, smallest failing case, traffic rows.

May import: states.
"""

import math
import re
from dataclasses import dataclass

from .states import FAIL, NOT_STARTED, NOT_VERIFIED_HERE, PASS

SYMBOLS = {PASS: "✔", FAIL: "✘", NOT_STARTED: "○", NOT_VERIFIED_HERE: "?"}
ENGINES = {"cpu": "on the CPU", "gpu": "on the GPU"}


def number(value):
    """A number as a learner reads it: 4 significant digits, NaN and infinity in words."""
    if value is None:
        return "none"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def heading(verdict):
    """ "03.2 One warp a row" """
    return f"{verdict.exercise} {verdict.title}".strip()


def count(verdict):
    """ "2 of 9 cases fail", or "" when no case was run."""
    total = len(verdict.cases)
    if not total:
        return ""
    failed = sum(not case.passed for case in verdict.cases)
    if failed:
        return f"{failed} of {total} cases {'fails' if failed == 1 else 'fail'}" if total > 1 else "the case fails"
    return f"all {total} cases pass" if total > 1 else "the case passes"


def seconds(verdict):
    """ "0.8 s", or "" for a verdict that carries no time."""
    return f"{verdict.seconds:.1f} s" if verdict.seconds else ""


def smallest_failing(verdict):
    """The smallest case that fails, or None. The judge's own choice first: the one whose wrong element is shown."""
    failing = [case for case in verdict.cases if not case.passed]
    if verdict.first_wrong:
        failing = [case for case in failing if case.name == verdict.first_wrong.case] or failing
    return min(failing, key=_size, default=None)


def note(verdict, case):
    """What happened in a case, unless the diagnosis says the same."""
    said = verdict.diagnosis.sentence if verdict.diagnosis else ""
    return "" if case.note and case.note in said else case.note


def _size(case):
    return math.prod(int(size) for size in re.findall(r"\d+", case.shape.split(",")[0]))


def element(wrong):
    """ "out[18, 3]" """
    return f"{wrong.output}[{', '.join(map(str, wrong.index))}]" if wrong.index else wrong.output


@dataclass(frozen=True)
class Row:
    """One line of the traffic table."""

    what: str
    value: int
    against: str  # "bound 4,096: …", "ideal 128"


def traffic(verdict):
    """Rows of the ledger: bytes, sectors, shared memory; rows of nothing are left out."""
    ledger = verdict.ledger or {}
    rows = []
    for key, words in (("global_load", "read from global memory"), ("global_store", "written to global memory")):
        counts = ledger.get(key) or {}
        if counts.get("bytes"):
            ideal = counts.get("ideal_sectors")
            sectors = counts.get("sectors", 0)
            rows.append(Row(f"bytes {words}", counts["bytes"], ""))
            rows.append(Row("… in sectors of 32 bytes", sectors, f"{ideal:,} would do" if ideal else ""))
    for key, words in (("shared_load", "shared loads"), ("shared_store", "shared stores")):
        counts = ledger.get(key) or {}
        if counts.get("requests"):
            conflicts = counts.get("conflicts", 0)
            rows.append(
                Row(
                    f"{words}, in wavefronts",
                    counts.get("wavefronts", 0),
                    f"{conflicts:,} of them bank conflicts" if conflicts else "no bank conflict",
                )
            )
    return rows


def moved_bytes(verdict):
    """Bytes that the launch moved to and from global memory."""
    ledger = verdict.ledger or {}
    return sum((ledger.get(key) or {}).get("bytes", 0) for key in ("global_load", "global_store", "global_atomic"))
