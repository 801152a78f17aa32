"""The benchmark of the matrix product: a dry run writes a row for every step, and a wrong kernel is not timed."""

import pytest
import torch
from benchmark_dry_runs import DRY, dry_rows

from benchmarks import matmul
from benchmarks.counters import matmul_counters, ncu
from course_lib.ops.matmul import STEPS, VARIANTS


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def test_a_dry_run_has_a_row_for_every_step(tmp_path):
    rows = dry_rows(matmul, tmp_path)
    steps = {(row["variant"], row["language"]) for row in rows}
    assert steps == {("cublas", "torch"), ("08_pipelined", "triton"), *((variant, "cuda") for variant in STEPS)}
    assert not any(row["median_us"] for row in rows)


def test_nothing_wrong_is_timed(monkeypatch):
    def wrong(variant, language, a, b):
        product = a @ b * (float("nan") if variant == "07_mma" else 1.0)
        return lambda: (product,)

    monkeypatch.setattr(matmul, "call_of", wrong)
    load = {"dtype": "float16", "size_m": 24, "size_n": 24, "size_k": 24}
    rows = {(row["variant"], row["language"]): row for row in matmul.rows_of(load, DRY)}
    assert rows.pop(("07_mma", "cuda"))["note"] == "wrong by inf: not timed"
    assert not any(row["note"] for row in rows.values())


def test_what_a_step_does_not_write_is_noticed(monkeypatch):
    a, b = (torch.randn(24, 24, dtype=torch.float16) for _ in range(2))
    monkeypatch.setattr(torch, "mm", lambda *operands, out: out)
    assert matmul.error_of(matmul.call_of("cublas", "torch", a, b)(), a, b) == float("inf")


def test_counters_are_read_as_numbers():
    metrics = matmul_counters.COUNTERS.metrics
    names = ",".join(f'"{metric}"' for metric in metrics.values())
    values = ",".join(['"1,234"', '"n/a"', *['"12.346"'] * (len(metrics) - 2)])
    text = f'==PROF== x\n"ID","Kernel Name",{names}\n"","",{names}\n"0","matmul_kernel",{values}\n'
    ((kernel, row),) = ncu.parse(text, metrics)
    assert list(row.values()) == [1234, "", *[12.35] * (len(metrics) - 2)] and kernel == "matmul_kernel"
    steps = [(case["variant"], case["language"]) for case in matmul_counters.cases() if case["language"] == "cuda"]
    assert steps == [(variant, "cuda") for variant in VARIANTS]
