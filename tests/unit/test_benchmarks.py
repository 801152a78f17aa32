"""What every row of the benchmarks says about its origin."""

import csv
import shutil

import torch

from benchmarks.harness import about


def test_a_row_says_where_it_comes_from():
    said = about.versions("abc1234", on_gpu=False, also=("numpy", "no_such_package"))
    assert [name for name in said if name in about.COLUMNS] == about.COLUMNS
    assert said["device"] == "CPU, dry run" and said["driver"] == ""
    assert said["torch"] == torch.__version__ and said["commit"] == "abc1234"
    assert said["numpy"] and said["no_such_package"] == ""


def test_no_driver_is_no_error(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert shutil.which("nvidia-smi") is None and about.driver() == ""


def test_stored_rows_of_a_gpu_name_their_origin(root):
    """Counters and verdicts are stored as they were: their head names the machine."""
    for path in (root / "benchmarks" / "results" / "h200").glob("*.csv"):
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
        if path.stem in ("counters", "readings", "false_alarms", "kills"):
            continue
        for row in rows:
            assert all(row.get(name) for name in ("device", "driver", "torch", "commit", "date")), path.name
