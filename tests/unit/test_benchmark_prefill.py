"""The benchmark of prefill over pages: a dry run writes a row for every case, and a wrong kernel is not timed."""

import csv
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from benchmarks import paged_prefill as bench

DRY = SimpleNamespace(device="cpu", dry=True)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def test_a_dry_run_has_a_row_for_every_variant_and_load(root, tmp_path):
    out = tmp_path / "dry.csv"
    command = [sys.executable, "-m", "benchmarks.paged_prefill", "--dry", "--out", str(out), "--commit", "abc"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader(line for line in out.read_text().splitlines() if not line.startswith("#")))
    assert list(rows[0]) == bench.COLUMNS
    found = {(row["variant"], row["language"], *(int(row[name]) for name in bench.SIZES)) for row in rows}
    assert found == {(*name, *size) for name in (*bench.OURS, bench.PEER) for size in bench.DRY_LOADS}
    assert all(row["max_error"] and not row["note"] and row["device"] == "CPU, dry run" for row in rows)
    assert not any(row["median_us"] or row["tflops"] for row in rows)


@pytest.mark.parametrize("size", [(2, 4, 2, 70, 70), (3, 2, 1, 20, 90), (1, 1, 1, 1, 5)])
def test_work_is_counted_from_what_each_query_sees(size):
    batch_size, num_heads, _, seq_len_q, seq_len_kv = size
    seen = torch.ones(seq_len_q, seq_len_kv).tril(seq_len_kv - seq_len_q).sum().item()
    assert bench.flop_of(size, 64) == 2 * 2 * 64 * seen * batch_size * num_heads


def test_the_dense_peer_has_the_keys_of_the_pages():
    """The peer's every row is that of the oracle: the same sequences, the mask aligned to the bottom right."""
    load = bench.case((2, 4, 2, 20, 90), 64, "cpu", torch.float32)
    inputs = (load.q, load.k_pages, load.v_pages, load.block_table, load.seq_lens, load.cu_seqlens_q)
    right = bench.reference.paged_prefill_lse(*inputs)[0]
    out = bench.dense(load)().transpose(1, 2).reshape(load.q.shape)
    assert (out.double() - right).abs().max() < 1e-5


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("row, value", [(-1, 0.5), (-20, 9.0), (0, float("nan"))])
def test_nothing_wrong_is_timed(monkeypatch, row, value, which):
    """One row of out or lse of one kernel is wrong, at an end of the checked ones, or NaN anywhere."""
    planned = bench.planned

    def spoiled(name, load):
        launch = planned(name, load)
        if name != bench.OURS[1]:
            return launch

        def run():
            launch.run()
            launch.outputs[which][row] = value

        return SimpleNamespace(run=run, outputs=launch.outputs)

    monkeypatch.setattr(bench, "planned", spoiled)
    monkeypatch.setattr(bench, "SLICE", 4)
    notes = {
        (found["variant"], found["language"]): found["note"] for found in bench.rows_of((2, 4, 2, 20, 90), 64, DRY)
    }
    assert notes.pop(bench.OURS[1]).endswith("not timed") and not any(notes.values())


def test_what_a_kernel_does_not_write_is_noticed(monkeypatch):
    """Nothing of what an earlier kernel left in memory can pass for an output."""
    load = bench.case((1, 2, 1, 20, 90), 64, "cpu")
    assert all(x.isnan().all() for name in bench.OURS for x in bench.planned(name, load).outputs)
    monkeypatch.setattr(bench.ops.Launch, "run", lambda self: None)
    calls, _, missing = bench.calls_of(load, dry=True)
    assert list(calls) == [bench.PEER] and set(missing) == set(bench.OURS)
