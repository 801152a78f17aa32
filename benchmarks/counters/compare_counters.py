"""As written, as compiled, measured: the SIMT machine's counters beside the machine code and Nsight Compute.

    python3 -m benchmarks.counters.compare_counters [--readings FILE] [--out …/counters.csv]

Needs no GPU: the readings are stored, the SIMT machine counts again, and NVRTC compiles again.
"""

import argparse
import csv
import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks import RESULTS, ROOT
from benchmarks.counters.counter_cases import CASES, MOST_STRAY, STRAY
from benchmarks.harness.rows import stored

READINGS = ROOT / "tests" / "simt" / "data" / "h200_counters.csv"
FIELDS = {
    "global_load": ("requests", "sectors"),
    "global_store": ("requests", "sectors"),
    "shared_load": ("requests", "wavefronts", "conflicts"),
    "shared_store": ("requests", "wavefronts", "conflicts"),
}
# ncu counts ldmatrix's wavefronts and the global side of cp.async among ordinary loads, and the rest in these columns
BESIDE = {
    "shared_load_requests": ("ldmatrix_requests",),
    "shared_store_requests": ("cp_async_requests",),
    "shared_store_wavefronts": ("cp_async_wavefronts",),
    "shared_store_conflicts": ("cp_async_conflicts",),
}
COUNTERS = [f"{space}_{field}" for space, fields in FIELDS.items() for field in fields]


@dataclass(frozen=True)
class Pair:
    """One counter of one case on both sides; `why` is the stated reason where they differ.

    as_compiled: the instructions of that space and kind in the machine code ("2 x LDS.128"), read where they differ.
    """

    case: str
    counter: str
    as_written: int
    measured: int
    why: str = ""
    as_compiled: str = ""

    @property
    def as_expected(self):
        """Equal where no reason is given, different where one is: a reason must not outlive the difference.

        Stray wavefronts come and go between readings: there, a few are right and none as well.
        """
        if self.why == STRAY:
            return 0 <= self.measured - self.as_written <= MOST_STRAY
        return (self.as_written == self.measured) != bool(self.why)


def readings(path=READINGS):
    """(comment lines, dict of case to its row of integers) of a file of read_counters.py."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    head = [line for line in lines if line.startswith("#")]
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return head, {row["case"]: {name: int(row[name]) + _beside(row, name) for name in COUNTERS} for row in rows}


def _beside(row, counter):
    """The part that ncu counts in columns of its own: ldmatrix is a load, cp.async a store in shared memory."""
    return sum(int(row[name]) for name in BESIDE.get(counter, ()))


def as_written(case):
    """The SIMT machine's counters of one case, by name; the launch must be without findings."""
    report = case.launch("cpu").profile()
    if not report.ok:
        raise AssertionError(f"{case.name}: {report.findings[0].message}")
    return {f"{space}_{field}": getattr(getattr(report, space), field) for space in FIELDS for field in FIELDS[space]}


def as_compiled(case):
    """Space and kind -> the access instructions of the H200's machine code, as text."""
    found = {}
    for access in case.launch("cpu").function.as_compiled("sm_90a").accesses:
        counts = found.setdefault(f"{access.space}_{access.kind}", Counter())
        counts[access.opcode] += access.count
    return {key: ", ".join(f"{count} x {opcode}" for opcode, count in counts.items()) for key, counts in found.items()}


def compare(case, measured):
    """The pairs of one case, in order of COUNTERS."""
    counted = as_written(case)
    code = as_compiled(case) if case.differs else {}
    return [
        Pair(case.name, name, counted[name], measured[name], case.differs[name], code.get(name.rpartition("_")[0], "-"))
        if name in case.differs
        else Pair(case.name, name, counted[name], measured[name])
        for name in COUNTERS
    ]


def table(pairs):
    """Aligned text: a case a line; "written" where both agree, "written|measured" where not, reasons below."""
    cases = {}
    for pair in pairs:
        cases.setdefault(pair.case, []).append(pair)
    short = [name.replace("global", "gl").replace("shared", "sh").replace("store", "st") for name in COUNTERS]
    widths = [max(len(name), 11) for name in short]
    lines = [f"{'case':<40}" + " ".join(name.rjust(width) for name, width in zip(short, widths, strict=True))]
    for case, row in cases.items():
        cells = [
            str(pair.as_written) if pair.as_written == pair.measured else f"{pair.as_written}|{pair.measured}"
            for pair in row
        ]
        lines.append(f"{case:<40}" + " ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)))
        lines += [
            f"    {pair.counter}: as written {pair.as_written}, as compiled {pair.as_compiled}, "
            f"measured {pair.measured}: {pair.why}"
            for pair in row
            if pair.why
        ]
        lines += [f"    {pair.counter}: NOT AS EXPECTED" for pair in row if not pair.as_expected]
    return "\n".join(lines)


def main():
    """Compare every stored case, print the table, write the CSV."""
    os.environ["COURSE_ENGINE"] = "cpu"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readings", type=Path, default=READINGS)
    parser.add_argument("--out", type=Path, default=RESULTS / "h200" / "counters.csv")
    options = parser.parse_args()
    head, measured = readings(options.readings)
    pairs = [pair for case in CASES if case.name in measured for pair in compare(case, measured[case.name])]
    columns = ["case", "counter", "as_written", "as_compiled", "measured", "why"]
    with stored(options.out, [line.removeprefix("# ") for line in head], columns) as write:
        for pair in pairs:
            write({column: getattr(pair, column) for column in columns})
    print(table(pairs))
    return 0 if all(pair.as_expected for pair in pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
