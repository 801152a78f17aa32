"""The benchmark of the matrix product: a dry run writes a row for every step, and a wrong kernel is not timed."""

import csv
import subprocess
import sys

import pytest
import torch

from benchmarks import matmul
from benchmarks.counters import matmul_counters
from course_lib.ops.matmul import VARIANTS


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    return matmul


def test_a_dry_run_has_a_row_for_every_step(root, tmp_path):
    out = tmp_path / "dry.csv"
    command = [sys.executable, "-m", "benchmarks.matmul", "--dry", "--out", str(out), "--commit", "abc"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader(line for line in out.read_text().splitlines() if not line.startswith("#")))
    steps = {(row["variant"], row["language"]) for row in rows}
    assert steps == {("cublas", "torch"), ("08_pipelined", "triton"), *((variant, "cuda") for variant in VARIANTS)}
    assert all(row["max_error"] and not row["median_us"] and row["device"] == "CPU, dry run" for row in rows)


def test_nothing_wrong_is_timed(bench, monkeypatch):
    def wrong(variant, language, a, b):
        out = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
        product = a @ b
        return lambda: out.copy_(product if variant != "07_mma" else product * float("nan")), out

    monkeypatch.setattr(bench, "call_of", wrong)
    options = type("Options", (), {"device": "cpu", "dry": True})
    rows = {(row["variant"], row["language"]): row for row in bench.rows_of(24, "float16", options)}
    assert rows.pop(("07_mma", "cuda"))["note"] == "wrong by inf: not timed"
    assert not any(row["note"] for row in rows.values())


def test_counters_are_read_as_numbers():
    names = ",".join(f'"{metric}"' for metric in matmul_counters.METRICS.values())
    values = ",".join(['"1,234"', '"n/a"', *['"12.346"'] * (len(matmul_counters.METRICS) - 2)])
    text = f'==PROF== x\n"ID","Kernel Name",{names}\n"","",{names}\n"0","matmul_kernel",{values}\n'
    ((kernel, row),) = matmul_counters.ncu.parse(text, matmul_counters.METRICS)
    assert list(row.values()) == [1234, "", *[12.35] * (len(matmul_counters.METRICS) - 2)] and kernel == "matmul_kernel"
    assert [step for step in matmul_counters.steps() if step[1] == "cuda"] == [
        (variant, "cuda") for variant in VARIANTS
    ]
