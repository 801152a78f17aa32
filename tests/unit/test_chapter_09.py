"""Chapter 09: its arithmetic is right, its pictures count what the kernels count, its words say what the rows say."""

import math

import pytest
import torch

from course_lib import measure, viz
from course_lib.device import KNOWN_GPUS
from course_lib.ops import decode as ops
from course_lib.ops._foundation.splits import MIN_SPLIT_LEN

H200 = KNOWN_GPUS["H200"]


def wave_efficiency(blocks, slots):
    return blocks / (math.ceil(blocks / slots) * slots)


def test_what_the_lecture_says_of_waves():
    slots = H200.num_sms
    assert round(100 * wave_efficiency(2 * 48, slots)) == 73  # "leave a quarter of the card idle"
    assert round(100 * wave_efficiency(3 * 48, slots)) == 55  # "three leave nearly half of it idle"
    assert wave_efficiency(11 * 48, slots) == 1 and 11 * 48 == 4 * slots  # "four waves to the last slot"


def test_what_the_lecture_says_of_bytes_and_operations():
    kv_bytes = 2 * 32768 * 8 * 128 * 2
    assert round(kv_bytes / H200.memory_gbps / 1e3, 1) == 28.0  # "least_us"
    assert round(100 * 4 * H200.memory_gbps / 1e3 / H200.bf16_tflops) == 2  # question 6: "some 2 %"
    assert round(100 * 8 * H200.memory_gbps / 1e3 / H200.bf16_tflops) == 4  # "with the zeros counted it is 4 %"
    group, d = 4, 128
    assert round(100 * group * 8 * (d + 1) / (4 * d * MIN_SPLIT_LEN)) == 6  # what a split costs, against its keys
    shape = ops.GROUPED
    under_way = shape["NUM_WARPS"] * (shape["NUM_STAGES"] - 1) * shape["TILE_KEYS"] * 4 * d
    assert under_way == 64 * 1024 and 128 // (d // 8) * 4 * d == 4 * 1024  # a block of 04, a block of 02


@pytest.mark.parametrize(("seq_lens", "num_splits"), [((60, 17, 0), 3), ((64, 64, 64), 4), ((1, 2, 3), 5)])
def test_the_picture_of_splits_shows_the_splits_that_the_kernel_fills(seq_lens, num_splits, monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")
    q, k = torch.randn(3, 1, 64).half(), torch.randn(3, 1, 64, 64).half()
    lens = torch.tensor(seq_lens, dtype=torch.int32)
    split, combine = ops.plan(q, k, k, lens, variant="02_split_kv", num_splits=num_splits).launches
    split.run()
    full = split.outputs[1].isfinite()[:, 0].tolist()
    shares = viz.keys_of_splits(seq_lens, math.ceil(64 / num_splits), num_splits)
    assert full == [[count > 0 for count in each] for each in shares]


def test_what_the_lecture_says_of_reading_alone_is_what_the_rows_say():
    rows = measure.read_results("h200", "decode").where(variant="read_only", page_size=16).rows
    assert len(rows) == 8
    for row in rows:
        floor = 2 * row["batch_size"] * row["seq_len"] * row["num_kv_heads"] * 256 / H200.memory_gbps / 1e3
        if row["kv_megabytes"] > 500:
            assert 1 < row["median_us"] / floor < 1.2  # "at most a fifth longer than the datasheet says"
        if row["kv_megabytes"] < 20:
            assert 2.7 < row["median_us"] / floor < 3.4  # "three times the computed one"


def rung(variant, batch_size, seq_len, language="cuda"):
    """us of the one stored row of a rung."""
    wanted = {"sweep": "rungs", "batch_size": batch_size, "seq_len": seq_len}
    rows = measure.read_results("h200", "decode_splits").where(variant=variant, language=language, **wanted).rows
    assert len(rows) == 1
    return rows[0]["median_us"]


SIZES = [(batch, tokens) for batch in (1, 8) for tokens in (4096, 32768)]


def test_what_the_lecture_says_of_the_rungs_is_what_the_rows_say():
    floor = {size: rung("read_only", *size) for size in SIZES}
    single, split, fused, grouped = ({size: rung(name, *size) for size in SIZES} for name in ops.VARIANTS)
    assert 25 < single[1, 4096] / floor[1, 4096] < 33  # "about 30 times"
    assert 53 < single[1, 32768] / floor[1, 32768] < 65  # "about 60 times"
    assert all(0.95 < single[8, tokens] / single[1, tokens] < 1.05 for tokens in (4096, 32768))  # "the same time"
    assert 20 < single[1, 32768] / split[1, 32768] < 25  # "more than 20 times for one long sequence"
    assert all(0.95 < split[size] / fused[size] < 1.05 for size in SIZES)  # "next to nothing between them"
    assert all(1.65 < fused[size] / grouped[size] < 3.2 for size in SIZES)  # "another factor of 1.7 to 3"
    twin = rung("04_grouped_heads", 8, 32768, language="triton")
    assert grouped[8, 32768] < twin < 1.1 * grouped[8, 32768]  # "close behind for the larger loads"
    for name, ours in (("02_split_kv", split), ("03_fused_combine", fused)):  # "are even ahead"
        assert all(rung(name, *size, language="triton") < ours[size] for size in SIZES)
    asked = 4 * 2 * 32768 * 8 * 256 / split[1, 32768] / 1e6
    assert 4.5 < asked < 5.2  # "almost 5 TB/s"
    assert floor[8, 32768] / grouped[8, 32768] > 0.97  # "within 3 % of reading alone"
    assert all(grouped[size] < rung("sdpa_dense", *size, language="torch") for size in SIZES)  # "in all four rows"
    assert floor[1, 4096] > 10  # "in less than 10 us"


def test_what_the_lecture_says_of_splits_is_what_the_rows_say():
    sweep, times, chosen = measure.read_results("h200", "decode_splits").where(sweep="splits"), {}, {}
    for row in sweep.rows:
        load, count = (row["batch_size"], row["seq_len"]), row["num_splits"]
        times.setdefault(load, {})[count] = row["median_us"]  # None is the floor
        if count and row["chosen"]:
            chosen[load] = count
    one = times[1, 65536]
    assert 5.5 < one[1] / one[16] < 6.5  # "6 times as long without a split"
    assert one[None] / one[8] > 0.8  # "64 blocks … more than four fifths"
    assert one[24] > max(one[16], one[32]) and times[4, 65536][6] > max(times[4, 65536][4], times[4, 65536][8])
    assert len(chosen) == len(times) == 15
    for load, count in chosen.items():
        least = min(us for splits, us in times[load].items() if splits)
        assert times[load][count] < 1.05 * least, load  # "within 5 % of the fastest point everywhere"
        slots = H200.num_sms * ops.GROUPED_BLOCKS_PER_SM
        assert count == ops.choose_num_splits(load[0] * 8, load[1], slots), load


def test_what_the_lecture_says_of_graphs_is_what_the_rows_say():
    rows = measure.read_results("h200", "decode_graphs").rows
    by = {(row["variant"], row["seq_len"], row["mode"]): row for row in rows}
    assert len(by) == len(rows) == 16
    for (variant, seq_len, mode), row in by.items():
        if mode == "graph":
            assert row["host_us"] < 100 and row["step_us"] < 1.1 * row["device_us"]
            assert 0.84 < row["device_us"] / by[variant, seq_len, "eager"]["device_us"] < 1  # "by up to 15 %"
            continue
        assert 0.95 < row["step_us"] / row["host_us"] < 1.05  # "step_us is host_us"
        launch_us = row["host_us"] / (row["num_launches"] or 32)
        low, high = (30, 40) if variant == "sdpa_dense" else (45, 75)  # "35", "some 50 to 70"
        assert low < launch_us < high, (variant, seq_len)
    grouped = {mode: by["04_grouped_heads", 1024, mode]["step_us"] for mode in ("eager", "graph")}
    assert 8.5 < grouped["eager"] / grouped["graph"] < 9.5  # "9 times as fast"
    for seq_len in (1024, 8192):
        split, fused = (by[variant, seq_len, "eager"] for variant in ("02_split_kv", "03_fused_combine"))
        assert 800 < split["host_us"] - fused["host_us"] < 1200  # "costs the host a millisecond"
        assert 0.93 < split["device_us"] / fused["device_us"] < 1.07  # "next to nothing between them"
