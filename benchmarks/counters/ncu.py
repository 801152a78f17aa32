"""Nsight Compute from Python: a script of this folder starts itself under ncu and reads the counters of its launches.

    found = ncu.read(__file__, kernels, METRICS)      one (kernel, {column: number}) a launch, in order

Started with --launch, the script runs each of its launches once. Counters, not times: ncu replays a launch and leaves
the clock alone.

May import: the standard library, about.
"""

import argparse
import csv
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks import ROOT
from benchmarks.harness.about import COLUMNS, module_of, versions


def parser(description):
    """The options that these scripts share."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--launch", action="store_true", help="only run the launches (what ncu watches)")
    parser.add_argument("--out", type=Path, help="where to write the rows")
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    return parser


def command(script, kernels, metrics, *arguments):
    """The command line of ncu; --clock-control none leaves the card as it is found.

    Parameters
    ----------
    script : str, the script's file
    kernels : iterable of str, the functions that are watched
    metrics : dict, column -> metric of Nsight Compute
    arguments : str, further ones of the script
    """
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    form = ["--csv", "--page", "raw", "--print-units", "base", "--kernel-name-base", "function"]
    which = ["--kernel-name", f"regex:^({'|'.join(kernels)})$", "--metrics", ",".join(metrics.values())]
    this = ["-m", module_of(script), "--launch", *arguments]
    return [ncu, "--clock-control", "none", *form, *which, sys.executable, *this]


def read(command, metrics, *, digits=2):
    """Run `command`; what it measured, as `parse` gives it. Where ncu fails, the program ends with what it printed."""
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


def write(script, options, rows):
    """Store rows, each with the versions of about.py, under a line that names the script."""
    about = versions(options.commit)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write(f"# Nsight Compute, one launch each, clock left as it is; python3 -m {module_of(script)}\n")
        writer = csv.DictWriter(file, [*rows[0], *COLUMNS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | about for row in rows)
    print(f"{len(rows)} readings in {options.out}")
