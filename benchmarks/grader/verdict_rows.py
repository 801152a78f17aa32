"""Store verdicts of a machine: the head of the file names command, machine, versions and commit.

Used by kill_table.py on a GPU and by false_alarms.py.
"""

import platform
import sys

from benchmarks import ROOT
from benchmarks.harness.about import commit, folder_name, module_of, package
from benchmarks.harness.rows import stored
from course_lib import device


def path(family, engine):
    """Where the rows of a family lie: results/<cpu or the card's name>/<family>.csv."""
    folder = "cpu" if engine == "cpu" else folder_name(device.current().name)
    return ROOT / "benchmarks" / "results" / folder / f"{family}.csv"


def write(family, rows, what, engine):
    """Write results/<cpu or the card's name>/<family>.csv.

    Parameters
    ----------
    family : str, name of the file
    rows : list of dict, all with the same keys
    what : str, the first words of the head
    engine : str, "cpu" or "gpu"
    """
    name = device.current().name if engine == "gpu" else platform.machine()
    versions = " · ".join(f"{library} {package(library)}" for library in ("torch", "triton"))
    head = [
        f"{what}; python -m {module_of(sys.argv[0])} {' '.join(sys.argv[1:])}",
        f"{name} · {versions} · commit {commit()}",
    ]
    with stored(path(family, engine), head, list(rows[0])) as write:
        for row in rows:
            write(row)
