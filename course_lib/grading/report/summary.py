"""What a verdict says, in plain pieces that the text and the HTML report both set: counts, rows, classes of error.

May import: verdict.
"""

import math
import re
from dataclasses import dataclass

from .verdict import FAIL, NOT_STARTED, NOT_VERIFIED_HERE, PASS

SYMBOLS = {PASS: "✔", FAIL: "✘", NOT_STARTED: "○", NOT_VERIFIED_HERE: "?"}
ENGINES = {"cpu": "on the CPU", "gpu": "on the GPU"}

# classes of error / tolerance: (upper bound, what the legend says, character of the text map)
LEVELS = (
    (1.0, "within tolerance", "·"),
    (10.0, "up to 10 x the tolerance", "░"),
    (100.0, "up to 100 x", "▒"),
    (math.inf, "more than 100 x", "█"),
)
NOT_A_NUMBER = len(LEVELS)
NAN_LEGEND, NAN_CHARACTER = "not a number", "N"


def number(value):
    """A number as a learner reads it: 4 significant digits, NaN and infinity in words."""
    if value is None:
        return "none"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def level(ratio):
    """Index into LEVELS for one error / tolerance, or NOT_A_NUMBER."""
    if ratio is None or math.isnan(ratio):
        return NOT_A_NUMBER
    return next(index for index, (upper, _, _) in enumerate(LEVELS) if ratio <= upper)


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


def has_map(verdict):
    """Whether there is an error map worth a picture: more than one element."""
    return bool(verdict.error_map) and sum(map(len, verdict.error_map["ratio"])) > 1


def map_summary(verdict):
    """The error map in one sentence, for those who do not see it; also its caption."""
    ratio, output = verdict.error_map["ratio"], verdict.error_map["output"]
    top, left = first_shown(verdict.error_map)
    wrong = [(row, col) for row, line in enumerate(ratio, top) for col, value in enumerate(line, left) if level(value)]
    total = sum(map(len, ratio))
    if not wrong:
        shown = f"All {total} elements shown are within tolerance"
        if verdict.first_wrong is None:
            return f"{shown}."
        index = ", ".join(str(number) for number in verdict.first_wrong.index)
        return f"{shown}; the first wrong one, {output}[{index}], lies beyond this map."
    rows, cols = [row for row, _ in wrong], [col for _, col in wrong]
    flat = verdict.first_wrong is not None and len(verdict.first_wrong.index) == 1
    where = f"at {_span('index', cols)}" if flat else f"in {_span('row', rows)} and {_span('column', cols)}"
    return f"{len(wrong):,} of {total:,} elements of {output} {'is' if len(wrong) == 1 else 'are'} wrong, {where}."


def first_shown(error_map):
    """Row and column of the output at which the map begins."""
    return tuple(error_map.get("first") or (0, 0))


def _span(word, indices):
    first, last, many = min(indices), max(indices), len(set(indices))
    if first == last:
        return f"{word} {first}"
    gaps = "" if many == last - first + 1 else f", {many} of them"
    return f"{'indices' if word == 'index' else word + 's'} {first} to {last}{gaps}"


def coarse(error_map, most_rows, most_cols):
    """The map's levels with at most so many rows and columns; a cell shows the worst level it stands for.

    Returns
    -------
    levels : list of lists of int
    steps : (rows, cols) of the output that one cell stands for
    """
    ratio = error_map["ratio"]
    height, width = len(ratio), max(map(len, ratio), default=0)
    step_row, step_col = max(1, -(-height // most_rows)), max(1, -(-width // most_cols))
    levels = [
        [
            max(level(value) for line in ratio[top : top + step_row] for value in line[left : left + step_col])
            for left in range(0, width, step_col)
        ]
        for top in range(0, height, step_row)
    ]
    return levels, (step_row, step_col)


def borders(error_map, axis, steps, cells):
    """Cells before which a tile begins, along one axis (0 rows, 1 columns); none when there is one tile only."""
    tile = error_map.get("tile") or (0, 0)
    size, step, first = tile[axis], steps[axis], first_shown(error_map)[axis]
    if not size or size < step:
        return []
    inside = range(first // size * size + size, first + cells * step, size)
    return sorted({(position - first) // step for position in inside} - {0})
