"""Chapter 12: trips of the small kernels, pictures, tables of stored rows, and what its words say of the rows."""

import math

import pytest
import torch

from course_lib import measure, viz
from course_lib.device import KNOWN_GPUS
from course_lib.measure import layers
from course_lib.ops import rope

OPERATIONS = {"norm": ("rms_norm", "add_rms_norm"), "activation": ("swiglu",)}


def test_operators_read_and_write_each_tensor_once_and_views_nothing():
    x, one = torch.randn(8, 16), torch.randn(1, 16)
    assert measure.operator_traffic(lambda: x.t() + 1) == [("add", 512, 512)]
    assert measure.operator_traffic(lambda: x * one.expand(8, 16)) == [("mul", 512 + 64, 512)]
    assert measure.operator_traffic(lambda: x.view(16, 8)[:4].chunk(2)) == []
    assert measure.operator_traffic(lambda: x.mul_(2)) == [("mul_", 512, 512)]
    assert measure.operator_traffic(lambda: torch.empty(8)) == []


def trips(function, unit):
    launches = measure.operator_traffic(function)
    return tuple(sum(launch[side] for launch in launches) / unit for side in (1, 2))


def test_the_trips_of_separate_operators_are_those_that_torch_makes():
    x, wide = torch.randn(512, 256), torch.randn(512, 256)
    weight, angles = torch.randn(256), torch.randn(512, 1, 64)
    heads = torch.randn(512, 8, 64)

    def rotate():
        first, second = heads.chunk(2, dim=-1)
        return heads * angles + torch.cat((-second, first), dim=-1) * angles

    steps = {
        "add": lambda: x + wide,
        "norm": lambda: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight,
        "rope": rotate,
        "gate": lambda: torch.nn.functional.silu(x) * wide,
    }
    counts = layers.TRIPS["one operator after the other"]
    for name, step in steps.items():
        times = 2 if name in ("add", "norm") else 1  # of a block
        unit = heads.nbytes if name == "rope" else x.nbytes
        small = 0.13 * 2 if name == "rope" else 0.05  # cos and sin, shared by 8 heads; numbers of a row
        for got, want in zip(trips(step, unit), counts[name], strict=True):
            assert want / times <= got <= want / times + small, name


def test_what_the_lecture_says_of_a_block():
    block = measure.block_bytes(hidden=4096, heads=32, kv_heads=8, head_dim=128, inner=14336)
    totals = [sum(map(sum, parts.values())) for parts in block.values()]
    assert totals == [409600, 188416, 172032]
    card = KNOWN_GPUS["H200"]
    products_us = 2 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336) * 8192 / card.bf16_tflops / 1e6
    shares = [total * 8192 / card.memory_gbps / 1e3 / products_us for total in totals]
    assert 0.18 < shares[0] < 0.22  # "a fifth of the time of all products together"
    assert shares[2] < shares[0] / 2  # "fused it is less than half of that"
    assert sum(block["add and norm in one"]["gate"]) == max(map(sum, block["add and norm in one"].values()))


def test_pairs_of_both_styles_are_those_that_the_kernel_turns(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    table = rope.cos_sin_cache(8, 16)
    for interleaved in (False, True):
        for pair, (first, second) in enumerate(viz.rotary_pairs(16, interleaved)):
            x = torch.zeros(1, 1, 16)
            x[..., first] = 1
            rope.rope(x, None, torch.tensor([5], dtype=torch.int32), table, interleaved=interleaved)
            angle = viz.rotary_angles(16, 5)[pair]
            want = torch.zeros(16)
            want[first], want[second] = math.cos(angle), math.sin(angle)
            torch.testing.assert_close(x.flatten(), want)


def test_alternative_text_holds_the_facts():
    assert "thread 0 has the chunks 0, 8" in viz.row_chunks_picture().alt_text
    assert "(0, 4), (1, 5)" in viz.pairings_picture().alt_text and "(6, 7)" in viz.pairings_picture().alt_text
    assert "pair 1 by 0.3" in viz.rotation_picture().alt_text
    assert "torch.compile, export asks the fake" in viz.operator_picture().alt_text
    assert "Backward, 6 blocks" in viz.loss_blocks_picture(num_rows=2, parts=3).alt_text
    said = viz.threshold_picture([0.05, 0.5, 0.15, 0.3], top_p=0.6).alt_text
    assert "above 0.250 the sum is 0.80" in said and said.endswith("Kept are the tokens 1, 3.")
    said = viz.packed_word_picture((1, 2, 3, 4, 5, 6, 7, 8)).alt_text
    assert "0x87654321" in said and "Shifted right by 4 times 2, number 2" in said
    assert "pair p of all four lanes is one piece of 16 bytes" in viz.token_order_picture().alt_text


def test_tables_of_stored_rows(tmp_path, monkeypatch):
    read = measure.read_results
    monkeypatch.setattr(layers, "read_results", lambda device, family: read(device, family, root=tmp_path))
    assert "norm.csv holds no such rows" in str(measure.layer_table("norm", ("rms_norm",)))
    (tmp_path / "h200").mkdir()
    lines = ("op,variant,language,num_rows,num_cols,megabytes,median_us,date", "rms_norm,copy,torch,8,64,200,4.0,d",
             "rms_norm,01_rms_norm,cuda,8,64,200,5.0,d", "rms_norm,F.rms_norm,torch,8,64,200,7.0,d",
             "rms_norm,liger,peer,8,64,200,6.0,d", "rms_norm,01_rms_norm,cuda,9,64,1,3.0,d")  # fmt: skip
    (tmp_path / "h200" / "norm.csv").write_text("\n".join(lines))
    table = measure.layer_table("norm", ("rms_norm",), least_megabytes=100)
    assert table.columns == ("op", "num_rows", "num_cols", "copy", "CUDA", "torch", "Liger")
    assert table.rows == (("rms_norm", 8, 64, 4.0, 5.0, 7.0, 6.0),)


@pytest.mark.parametrize("family", OPERATIONS)
def test_what_the_lecture_says_of_the_rows(family):
    for row in measure.read_results("h200", family).rows:
        if row["op"] in OPERATIONS[family] and row["megabytes"] > 100 and row["language"] in ("cuda", "triton"):
            assert row["copy_percent"] > 90, row  # "at least nine tenths of a copy's speed"


def test_what_the_lecture_says_of_rope():
    times = {}
    for row in measure.read_results("h200", "rope").where(style="half_split").rows:
        if row["megabytes"] > 100:
            times.setdefault((row["num_tokens"], row["rotary_dim"]), {})[row["variant"], row["language"]] = row
    for load, by in times.items():  # "more than ten times as long as one kernel"
        assert by["formula", "torch"]["median_us"] > 10 * by["01_rope", "cuda"]["median_us"], load
