"""Nsight Compute from Python: a case file starts itself under ncu and reads the counters of its launches.

    COUNTERS = Counters(__doc__, __file__, kernels, METRICS, cases, launch)
    if __name__ == "__main__":
        sys.exit(main(COUNTERS))

Started with --launch, the case file runs each of its launches once, under ncu. Counters, not times: ncu replays a
launch and leaves the clock alone.

May import: the standard library, harness.
"""

import argparse
import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ROOT
from benchmarks.harness.about import commit, module_of, versions
from benchmarks.harness.rows import stored

METHOD = "Nsight Compute, one launch each, clock left as it is"


@dataclass(frozen=True)
class Counters:
    """What a case file declares.

    Attributes
    ----------
    doc, file : the case file's __doc__ and __file__
    kernels : tuple of str, the functions that are watched
    metrics : dict, column -> metric of Nsight Compute
    cases : function() that gives a list of dict, the columns that identify each launch, in order of launch
    launch : function(case) that launches a case once
    compared : tuple of str, the columns that benchmarks.all compares with stored rows
    digits : int, decimals of a fraction
    """

    doc: str
    file: str
    kernels: tuple
    metrics: dict
    cases: Callable
    launch: Callable
    compared: tuple = ("instructions",)
    digits: int = 2

    @property
    def keys(self):
        """The columns that identify a row."""
        return tuple(self.cases()[0])


def main(counters, arguments=None):
    """Read the counters and write the CSV."""
    parser = parser_of(counters.doc, counters.file)
    options = parser.parse_args(arguments)
    cases = counters.cases()
    if options.launch:
        return run_all(counters.launch, cases)
    if not options.out:
        parser.error("--out: where to write the rows")
    found = read(command(counters.file, counters.kernels, counters.metrics), counters.metrics, digits=counters.digits)
    if len(found) != len(cases):
        sys.exit(f"ncu saw {[kernel for kernel, _ in found]}; {len(cases)} launches were expected")
    about = versions(options.commit or commit())
    head = [f"{METHOD}; python3 -m {module_of(counters.file)}"]
    with stored(options.out, head, [*cases[0], *counters.metrics, *about]) as write:
        for case, (_, row) in zip(cases, found, strict=True):
            write(case | row | about)
    print(f"{len(found)} readings in {options.out}")
    return 0


def parser_of(doc, file):
    """The command line of a case file."""
    parser = argparse.ArgumentParser(prog=f"python3 -m {module_of(file)}", description=doc.splitlines()[0])
    parser.add_argument("--launch", action="store_true", help="only run the launches (what ncu watches)")
    parser.add_argument("--out", type=Path, help="where to write the rows")
    parser.add_argument("--commit", default=None, help="whose code is measured; default: $COMMIT, or git's HEAD")
    return parser


def run_all(launch, cases):
    """Launch every case once, in order."""
    import torch

    torch.manual_seed(0)
    for case in cases:
        launch(case)
        torch.cuda.synchronize()
    return 0


def program():
    """The path of ncu, or None where it is not installed."""
    usual = Path("/usr/local/cuda/bin/ncu")
    return shutil.which("ncu") or (str(usual) if usual.exists() else None)


def command(file, kernels, metrics):
    """The command line of ncu; --clock-control none leaves the card's clock alone.

    Parameters
    ----------
    file : str, the case file
    kernels : iterable of str, the functions that are watched
    metrics : dict, column -> metric of Nsight Compute
    """
    form = ["--csv", "--page", "raw", "--print-units", "base", "--kernel-name-base", "function"]
    which = ["--kernel-name", f"regex:^({'|'.join(kernels)})$", "--metrics", ",".join(metrics.values())]
    this = ["-m", module_of(file), "--launch"]
    return [program() or "ncu", "--clock-control", "none", *form, *which, sys.executable, *this]


def read(command, metrics, *, digits=2):
    """Run `command`; its measurements as `parse` gives them. Where ncu fails, the program ends with its output."""
    if not program():
        sys.exit("ncu (Nsight Compute) is not installed here; the CUDA toolkit has it.")
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode or '"ID"' not in done.stdout:
        sys.exit(f"ncu failed ({done.returncode}):\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return parse(done.stdout, metrics, digits=digits)


def parse(text, metrics, *, digits=2):
    """ncu's raw page as [(kernel, {column: number})], one a launch, in order; fractions are rounded to `digits`."""
    table = list(csv.DictReader(io.StringIO(text[text.index('"ID"') :])))
    launches = [row for row in table if row["ID"].strip()]  # the row without an ID holds the units
    return [
        (
            row["Kernel Name"].split("(")[0],
            {column: _number(row.get(metric), digits) for column, metric in metrics.items()},
        )
        for row in launches
    ]


def _number(text, digits):
    """ncu's number without its commas; nothing where the card has no such counter."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return ""
    return int(value) if value == int(value) else round(value, digits)
