"""What the tests of benchmarks share: a dry run of a case file in this process, and the options of one."""

import csv
from types import SimpleNamespace

from benchmarks.harness import main

DRY = SimpleNamespace(device="cpu", dry=True, runs=2, earlier={})


def dry_rows(case, folder, *arguments):
    """The rows that a dry run of a case file writes: each checked against float64, but for a plain copy.

    Parameters
    ----------
    case : module with a BENCHMARK
    folder : Path, where the file goes
    arguments : str, further ones of the command line
    """
    out = folder / "dry.csv"
    assert main(case.BENCHMARK, ["--dry", "--out", str(out), "--commit", "abc", *arguments]) == 0
    rows = list(csv.DictReader(line for line in out.read_text().splitlines() if not line.startswith("#")))
    assert rows and all(row["device"] == "CPU, dry run" and row["commit"] == "abc" for row in rows)
    assert not any(row["note"] for row in rows)
    assert all(row["max_error"] for row in rows if row["variant"] != "copy")
    return rows
