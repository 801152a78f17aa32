"""Chapter 09: its arithmetic is right, its pictures count what the kernels count, its words say what the rows say."""

import math

import pytest
import torch

from course_lib import measure, viz
from course_lib.device import KNOWN_GPUS
from course_lib.ops import decode as ops

H200 = KNOWN_GPUS["H200"]


def wave_efficiency(blocks, places):
    return blocks / (math.ceil(blocks / places) * places)


def test_what_the_lecture_says_of_waves():
    places = H200.num_sms
    assert round(100 * wave_efficiency(2 * 48, places)) == 73  # "leave a quarter of the card idle"
    assert round(100 * wave_efficiency(3 * 48, places)) == 55  # "three leave nearly half of it idle"
    assert wave_efficiency(11 * 48, places) == 1 and 11 * 48 == 4 * places  # "four waves to the last place"


def test_what_the_lecture_says_of_bytes_and_operations():
    kv_bytes = 2 * 32768 * 8 * 128 * 2
    assert round(kv_bytes / H200.memory_gbps / 1e3, 1) == 28.0  # "least_us"
    assert round(100 * 4 * H200.memory_gbps / 1e3 / H200.bf16_tflops) == 2  # question 6: "some 2 %"
    assert round(100 * 8 * H200.memory_gbps / 1e3 / H200.bf16_tflops) == 4  # "with the zeros counted it is 4 %"
    split_len, group, d = 256, 4, 128
    assert round(100 * group * 8 * (d + 1) / (4 * d * split_len)) == 3  # what a split costs, against its keys


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
            assert 1 < row["median_us"] / floor < 1.15  # "within 15 % of the datasheet"
        if row["kv_megabytes"] < 20:
            assert 2.7 < row["median_us"] / floor < 3.4  # "three times the computed one"
