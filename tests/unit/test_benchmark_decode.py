"""The benchmarks of dense decoding: dry runs write a row for every case, and a wrong kernel is not timed."""

import csv
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from benchmarks import decode_graphs, decode_splits
from course_lib.ops import decode as ops

DRY = SimpleNamespace(device="cpu", dry=True)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def dry_rows(root, tmp_path, name):
    out = tmp_path / "dry.csv"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--dry", "--out", str(out), "--commit", "abc"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader(line for line in out.read_text().splitlines() if not line.startswith("#")))
    assert all(row["max_error"] and not row["note"] and row["device"] == "CPU, dry run" for row in rows)
    return rows


def test_a_dry_sweep_has_a_row_for_every_number_of_splits_and_rung(root, tmp_path):
    rows = dry_rows(root, tmp_path, "decode_splits")
    swept = [row for row in rows if row["sweep"] == "splits"]
    assert [row["num_splits"] for row in swept] == ["1", "2", "3", "4"]
    assert [row["chosen"] for row in swept] == ["1", "0", "0", "0"]  # 70 keys are not worth a second split
    rungs = {(row["variant"], row["language"]) for row in rows if row["sweep"] == "rungs"}
    assert rungs == {(variant, language) for variant in ops.VARIANTS for language in ("cuda", "triton")}
    assert not any(row["median_us"] for row in rows)


def test_a_dry_step_has_a_row_for_every_variant(root, tmp_path):
    rows = dry_rows(root, tmp_path, "decode_graphs")
    launches = {row["variant"]: row["num_launches"] for row in rows}
    assert launches == {"02_split_kv": "4", "03_fused_combine": "2", "04_grouped_heads": "2"}  # of two layers
    assert {row["mode"] for row in rows} == {"eager"} and not any(row["host_us"] for row in rows)


def test_the_sweep_is_the_one_that_the_chapter_shows(root):
    """Each load below 12 GB, splits of at least 64 keys, the launcher's own choice always among them."""
    bench = decode_splits
    loads = bench.loads(dry=False)
    assert len([load for load in loads if load[0] == "splits"]) == 15 and ("splits", 64, 65536) not in loads
    counts = [name[2] for name in bench.planned_splits(bench.case((1, *bench.HEADS, 1024), 1024, "cpu"))[0]]
    assert counts == [1, 2, 3, 4, 6, 8, 12, 16]
    launches, chosen = bench.planned_splits(bench.case((3, *bench.HEADS, 4096), 4096, "cpu"))
    assert chosen not in bench.SPLITS and chosen in [name[2] for name in launches]


@pytest.mark.parametrize("value", [float("nan"), 0.5])
def test_nothing_wrong_is_timed(root, monkeypatch, value):
    """One of the swept launches gives a wrong number: its row says so, the others have none to say."""
    bench = decode_splits
    planned = bench.planned

    def spoiled(load, variant, language, num_splits=None):
        launch, count = planned(load, variant, language, num_splits)
        if num_splits == 2:
            outputs = tuple(torch.full_like(x, value) for x in launch.outputs)
            launch = SimpleNamespace(run=lambda: outputs[0].fill_(value), outputs=outputs)
        return launch, count

    monkeypatch.setattr(bench, "planned", spoiled)
    notes = {row["num_splits"]: row["note"] for row in bench.rows_of("splits", 1, 70, DRY)}
    assert notes.pop(2).endswith("not timed") and not any(notes.values())


def test_a_graph_that_gives_other_numbers_is_refused(root, monkeypatch):
    bench = decode_graphs
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    out = torch.zeros(2)

    def step():
        out.fill_(1.0)
        return None, out

    bench.graphed = lambda call, on_gpu: (call(), step)[1]
    assert bench.captured(step, torch.ones(2)) is step
    assert bench.captured(step, torch.zeros(2)) is None
