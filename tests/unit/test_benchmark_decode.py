"""The benchmarks of decoding: dry runs write a row for every case, and a wrong kernel is not timed."""

from types import SimpleNamespace

import pytest
import torch
from benchmark_dry_runs import DRY, dry_rows

from benchmarks import decode, decode_graphs, decode_splits, page_sizes, pages
from course_lib.ops import decode as ops
from course_lib.ops import paged


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def test_a_dry_sweep_has_a_row_for_every_number_of_splits_and_rung(tmp_path):
    rows = dry_rows(decode_splits, tmp_path)
    swept = [row for row in rows if row["sweep"] == "splits"]
    assert [row["num_splits"] for row in swept] == ["1", "2", "3", "4"]
    assert [row["chosen"] for row in swept] == ["1", "0", "0", "0"]  # 70 keys are not worth a second split
    rungs = {(row["variant"], row["language"]) for row in rows if row["sweep"] == "rungs"}
    assert rungs == {(variant, language) for variant in ops.VARIANTS for language in ("cuda", "triton")}
    assert not any(row["median_us"] for row in rows)


def test_a_dry_step_has_a_row_for_every_variant(tmp_path):
    rows = dry_rows(decode_graphs, tmp_path)
    launches = {row["variant"]: row["num_launches"] for row in rows}
    assert launches == {"02_split_kv": "4", "03_fused_combine": "2", "04_grouped_heads": "2"}  # of two layers
    assert {row["mode"] for row in rows} == {"eager"} and not any(row["host_us"] for row in rows)


def test_dry_decoding_over_pages_has_a_row_for_every_variant(tmp_path):
    names = {(row["variant"], row["language"], row["dtype"]) for row in dry_rows(decode, tmp_path)}
    quantised = {("paged/06_quantised_kv", "cuda", dtype) for dtype in ("int8", "float8_e4m3fn")}
    ours = {(f"paged/{variant}", language, "bfloat16") for variant, language in decode.ours()}
    assert names == quantised | ours
    assert {variant for variant, language in decode.ours() if language == "cuda"} == set(paged.DECODE_VARIANTS)


def test_dry_page_sizes_have_a_row_for_every_layout_and_order(tmp_path):
    rows = dry_rows(page_sizes, tmp_path)
    names = {tuple(row[column] for column in (*page_sizes.NAMES, "page_size")) for row in rows}
    assert names == {(*name, page_size) for name in page_sizes.OURS for page_size in ("1", "16")}


def test_the_sweep_is_the_one_that_the_chapter_shows():
    """Each load below 12 GB, splits of at least 64 keys, the launcher's own choice always among them."""
    swept = [load for load in decode_splits.loads(dry=False) if load["sweep"] == "splits"]
    assert len(swept) == 15 and not any(load["batch_size"] == 64 and load["seq_len"] == 65536 for load in swept)
    inputs = pages.paged_inputs((1, *decode_splits.HEADS, 1024), 1024, "cpu")
    counts = [name[2] for name in decode_splits.planned_splits(inputs)[0]]
    assert counts == [1, 2, 3, 4, 6, 8, 12, 16]
    inputs = pages.paged_inputs((3, *decode_splits.HEADS, 4096), 4096, "cpu")
    launches, chosen = decode_splits.planned_splits(inputs)
    assert chosen not in decode_splits.SPLITS and chosen in [name[2] for name in launches]


@pytest.mark.parametrize("value", [float("nan"), 0.5])
def test_nothing_wrong_is_timed(monkeypatch, value):
    """One of the swept launches gives a wrong number: its row says so, the others have no note."""
    planned = decode_splits.planned

    def spoiled(inputs, variant, language, num_splits=None):
        launch, count = planned(inputs, variant, language, num_splits)
        if num_splits == 2:
            outputs = tuple(torch.full_like(x, value) for x in launch.outputs)
            launch = SimpleNamespace(run=lambda: outputs[0].fill_(value), outputs=outputs)
        return launch, count

    monkeypatch.setattr(decode_splits, "planned", spoiled)
    rows = list(decode_splits.rows_of(decode_splits.loads(dry=True)[0], DRY))
    notes = {row["num_splits"]: row["note"] for row in rows}
    assert notes.pop(2).endswith("not timed") and not any(notes.values())


def test_a_graph_that_gives_other_numbers_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    out = torch.zeros(2)

    def step():
        out.fill_(1.0)
        return None, out

    monkeypatch.setattr(decode_graphs, "graphed", lambda call, on_gpu: (call(), step)[1])
    assert decode_graphs.captured(step, torch.ones(2)) is step
    assert decode_graphs.captured(step, torch.zeros(2)) is None
