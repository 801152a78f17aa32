"""Tables of the decode lectures: each shows the stored rows, and a dash where nothing is stored."""

import pytest

from course_lib import kv, measure
from course_lib.measure import decode as times
from course_lib.ops import decode, paged

V1, V2 = "paged/02_paged_v1", "paged/03_paged_v2"
TABLES = (
    lambda **more: times.reading_table(),
    lambda **more: times.floor_table("01_single_pass", **more),
    lambda **more: times.speedup_table("01_single_pass", "02_split_kv", **more),
    lambda **more: times.graphs_table(**more),
    lambda **more: times.shares_table(decode.VARIANTS, **more),
    lambda **more: times.few_heads_table(((1, 4096),), (V1,), **more),
    lambda **more: times.few_heads_table(((1, 4096),), (V1, V2), **more),
    lambda **more: times.paged_table(16, **more),
    lambda **more: times.paged_table(64, **more),
    lambda **more: times.byte_gain_table(**more),
    lambda **more: times.prefill_table(**more),
    lambda **more: times.page_order_table("04_paged_grouped", kv.PAGE_SIZES, **more),
)


@pytest.mark.parametrize("table", TABLES)
def test_every_number_of_the_lectures_is_stored(table):
    """Only what is no rung of ours, the launches of torch's operator, may be a dash."""
    rows = [row for row in table().rows if row[0] != "sdpa dense"]
    assert rows and all(cell is not None for row in rows for cell in row)


@pytest.mark.parametrize("table", TABLES[1:])
def test_a_card_without_rows_gives_dashes_and_no_error(table):
    assert all(cell is None or not isinstance(cell, float) for row in table(device="nowhere").rows for cell in row)


def test_the_numbers_are_those_of_the_rows():
    row = measure.read_results("h200", "decode_splits").where(sweep="rungs", variant="02_split_kv", language="cuda")
    stored = {(one["batch_size"], one["seq_len"]): one["median_us"] for one in row.rows}
    assert {load: times.split_us(load, "02_split_kv") for load in times.SPLIT_LOADS} == stored
    assert times.paged_us((32, 4096), V1) == times.paged_us((32, 4096, 8), V1) != times.paged_us((16, 4096, 32), V1)
    assert times.split_shares((1, 32768), decode.VARIANTS)["single pass"] < 2
    assert times.ratio(None, 2.0) is None and times.ratio(6.0, 4.0, 100) == 150
    assert set(times.paged_times((32, 4096))) >= {"v1", "v2", "grouped heads", "cuDNN"}
    assert len(times.page_size_pairs(paged.DECODE_VARIANTS[-1])) == len(kv.PAGE_SIZES)


def test_what_the_self_checks_of_the_lectures_say():
    assert (
        times.kv_bytes(8, num_kv_heads=1) == 4096 == times.kv_bytes(16, num_kv_heads=1, head_dim=64)
    )  # 09a, question 2
    pool = kv.PagePool(16, 16)  # 10a, question 4
    pool.add("prompt")
    pool.append("prompt", 100)
    for answer in range(4):
        pool.fork("prompt", answer)
    assert pool.allocator.num_used == 7
    copies = [len(pool.append(answer).copies) for answer in range(4)]
    assert copies == [1, 1, 1, 1] and pool.allocator.num_used == 11
    assert 10 / 254 == pytest.approx(0.039, abs=5e-4) and 0.5 / 16 == pytest.approx(0.031, abs=5e-4)  # 10c, question 4


def test_what_the_lectures_say_of_shares_of_reading():
    one, eight = (times.split_shares((batch, 32768), decode.VARIANTS) for batch in (1, 8))
    assert one["split kv"] < 50 < one["SDPA (torch)"]  # 09a: "less than half of what the memory delivers"
    assert round(eight["fused combine"]) == 33  # 09c: "reaches 33 % of the speed of a kernel that only reads"
    v1 = [times.paged_us((1, tokens), V1) for tokens in (4096, 32768)]
    assert 7.5 < v1[1] / v1[0] < 8.5  # 10b: "eight times as long"
