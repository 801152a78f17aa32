"""The benchmark of prefill over pages: a dry run writes a row for every case, and a wrong kernel is not timed."""

from types import SimpleNamespace

import pytest
import torch
from benchmark_dry_runs import DRY, dry_rows

from benchmarks import paged_prefill as bench
from course_lib.ops._foundation import launch

LOAD = {**dict(zip(bench.SIZES, (2, 4, 2, 20, 90), strict=True)), "head_dim": 64, "dtype": "bfloat16"}


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def test_a_dry_run_has_a_row_for_every_variant_and_load(tmp_path):
    rows = dry_rows(bench, tmp_path)
    found = {(row["variant"], row["language"], *(int(row[name]) for name in bench.SIZES)) for row in rows}
    assert found == {(*name, *size) for name in (*bench.OURS, bench.PEER) for size in bench.DRY_LOADS}
    assert not any(row["median_us"] or row["tflops"] for row in rows)


@pytest.mark.parametrize("size", [(2, 4, 2, 70, 70), (3, 2, 1, 20, 90), (1, 1, 1, 1, 5)])
def test_work_is_counted_from_what_each_query_sees(size):
    batch_size, num_heads, _, seq_len_q, seq_len_kv = size
    seen = torch.ones(seq_len_q, seq_len_kv).tril(seq_len_kv - seq_len_q).sum().item()
    assert bench.flop_of(size, 64) == 2 * 2 * 64 * seen * batch_size * num_heads


def test_the_dense_peer_has_the_keys_of_the_pages():
    """The peer's every row is that of the oracle: the same sequences, the mask aligned to the bottom right."""
    inputs = bench.case((2, 4, 2, 20, 90), 64, "cpu", torch.float32)
    tensors = (
        inputs.q, inputs.k_pages, inputs.v_pages, inputs.block_table, inputs.seq_lens, inputs.cu_seqlens_q,
    )  # fmt: skip
    right = bench.reference.paged_prefill_lse(*tensors)[0]
    out = bench.dense(inputs)()[0].reshape(inputs.q.shape)
    assert (out.double() - right).abs().max() < 1e-5


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("row, value", [(-1, 0.5), (-20, 9.0), (0, float("nan"))])
def test_nothing_wrong_is_timed(monkeypatch, row, value, which):
    """One row of out or lse of one kernel is wrong, at an end of the checked ones, or NaN anywhere."""
    planned = bench.planned

    def spoiled(name, inputs):
        plan = planned(name, inputs)
        if name != bench.OURS[1]:
            return plan

        def run():
            plan.run()
            plan.outputs[which][row] = value

        return SimpleNamespace(run=run, outputs=plan.outputs)

    monkeypatch.setattr(bench, "planned", spoiled)
    monkeypatch.setattr(bench, "SLICE", 4)
    notes = {(found["variant"], found["language"]): found["note"] for found in bench.rows_of(LOAD, DRY)}
    assert notes.pop(bench.OURS[1]).endswith("not timed") and not any(notes.values())


def test_what_a_kernel_does_not_write_is_noticed(monkeypatch):
    """Nothing of what an earlier kernel left in memory can pass for an output."""
    inputs = bench.case((1, 2, 1, 20, 90), 64, "cpu")
    monkeypatch.setattr(launch.Launch, "run", lambda self: None)
    variants = bench.variants_of(inputs, DRY)
    assert [name[:2] for name in variants.calls] == [bench.PEER]
    wrong = {name[:2] for name, row in variants.rows.items() if row["note"] == "wrong by inf: not timed"}
    assert wrong == set(bench.OURS)
