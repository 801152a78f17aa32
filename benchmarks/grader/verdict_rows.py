"""Stores what the judge said on a machine: the head of the file names command, machine, versions and commit.

Used by kill_table.py on a GPU and by false_alarms.py.
"""

import csv
import platform
import sys

from benchmarks import ROOT
from benchmarks.harness.about import commit, folder_name, module_of, package
from course_lib import device


def write(family, rows, what, engine):
    """Write results/<cpu or the card's name>/<family>.csv.

    Parameters
    ----------
    family : str, name of the file
    rows : list of dict, all with the same keys
    what : str, what a row is, for the head
    engine : str, "cpu" or "gpu"
    """
    name = device.current().name if engine == "gpu" else platform.machine()
    folder = ROOT / "benchmarks" / "results" / ("cpu" if engine == "cpu" else folder_name(name))
    folder.mkdir(parents=True, exist_ok=True)
    versions = " · ".join(f"{library} {package(library)}" for library in ("torch", "triton"))
    with open(folder / f"{family}.csv", "w", newline="", encoding="utf-8") as file:
        file.write(f"# {what}; python -m {module_of(sys.argv[0])} {' '.join(sys.argv[1:])}\n")
        file.write(f"# {name} · {versions} · commit {commit()}\n")
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
