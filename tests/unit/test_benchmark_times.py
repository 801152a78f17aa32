"""What the benchmarks make of times: turns, warm-ups, rates and ratios. No GPU is needed: the times are given."""

from types import SimpleNamespace

import pytest
import torch
from benchmark_dry_runs import DRY

from benchmarks import decode, decode_splits, flash_attention, matmul, page_sizes, paged_prefill, pages, softmax
from benchmarks.harness import Variants, ratio_to_best, turns
from course_lib.measure.timing import Timing


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


class Clock:
    """The parts of torch that `turns` uses, on a clock that only `sleep` moves."""

    def __init__(self):
        self.now_ms, clock = 0.0, self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = clock.now_ms

            def elapsed_time(self, end):
                return end.at - self.at

        self.int8 = torch.int8
        self.cuda = SimpleNamespace(Event=Event, _sleep=lambda cycles: self.sleep(0.3), synchronize=lambda: None)

    def empty(self, *shape, **options):
        return torch.empty(1)

    def sleep(self, ms):
        self.now_ms += ms


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(turns, "torch", clock)
    return clock


def test_functions_are_timed_in_turns_and_warm(clock):
    """Each call takes longer than the one before it; the first three of each are warm-up."""
    order, durations = [], {"a": iter(range(1, 9)), "b": iter(range(10, 90, 10))}

    def call(name):
        return lambda: (order.append(name), clock.sleep(next(durations[name])))

    found = turns.timed_in_turns({name: call(name) for name in durations}, 5)
    assert order == ["a", "b"] * 8
    assert found["a"] == Timing(6.0, 5.0, 7.0, 5, "gpu") and found["b"].median_ms == pytest.approx(60.0)


def test_a_slow_function_is_run_less_often(clock):
    count = {"slow": 0, "fast": 0}

    def call(name, ms):
        return lambda: (count.update({name: count[name] + 1}), clock.sleep(ms if count[name] > 1 else 5 * ms))

    found = turns.timed_in_turns({"slow": call("slow", 20.0), "fast": call("fast", 1.0)}, 15, slow_ms=10.0)
    assert count == {"slow": 1 + turns.SLOW_RUNS, "fast": 15 + turns.NUM_WARMUP}
    assert found["slow"].median_ms == pytest.approx(20.0) and found["slow"].num_runs == turns.SLOW_RUNS
    assert found["fast"].num_runs == 15


# case file -> (names timed only on a GPU, columns of every timed row, column -> value where all take as long)
CASES = {
    softmax: ((), ("gbps",), {"copy_percent": "100.0"}),
    matmul: ((), ("tflops",), {"percent_of_cublas": "100.0"}),
    flash_attention: ((flash_attention.PEER,), ("tflops",), {"ratio_to_sdpa_flash": "1.000"}),
    paged_prefill: ((), ("tflops",), {"ratio_to_sdpa_flash": "1.000"}),
    decode_splits: ((decode_splits.READ_ONLY,), ("gbps",), {"percent_of_ceiling": "100.0"}),
    page_sizes: ((page_sizes.READ_ONLY,), ("gbps",), {"percent_of_ceiling": "100.0"}),
    decode: (
        (decode.READ_ONLY, ("flashinfer", "cuda", "bfloat16")), ("gbps", "percent_of_ceiling"),
        {"ratio_to_fastest_peer": "1.000"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_rates_and_ratios_come_from_the_times(case, monkeypatch):
    """Every variant takes 1 ms, and so do the peers that a CPU has not."""
    peers, rates, same = CASES[case]
    second = Timing(1.0, 0.9, 1.1, 5, "gpu")
    monkeypatch.setattr(Variants, "times", lambda self: dict.fromkeys((*self.calls, *peers), second))
    rows = list(case.rows_of(case.loads(True)[0], DRY))
    columns = {*case.BENCHMARK.keys, *case.BENCHMARK.values}
    for row in rows:
        assert (row["median_us"], row["low_us"], row["high_us"]) == ("1000.0", "900.0", "1100.0")
        assert all(float(row[column]) >= 0 for column in rates)
        assert row.keys() <= columns
        assert {column: row[column] for column in same} == same


def test_the_share_of_the_ceiling_counts_the_bytes_that_a_pool_has():
    """One byte an element, in the time of two: half the rate, and half the share."""
    second = Timing(1.0, 0.9, 1.1, 5, "gpu")
    times = {decode.READ_ONLY: second, ("flashinfer", "cuda", "bfloat16"): Timing(0.5, 0.5, 0.5, 5, "gpu")}
    full = 4_000_000
    assert decode.speed(full, {"dtype": "bfloat16"}, 1.0, times) == {
        "gbps": "4", "percent_of_ceiling": "100.0", "ratio_to_fastest_peer": "0.500",
    }  # fmt: skip
    assert decode.speed(full, {"dtype": "int8"}, 1.0, times)["percent_of_ceiling"] == "50.0"


def test_work_of_attention_is_half_under_a_causal_mask():
    row = {"batch_size": 2, "num_heads": 4, "seq_len": 1000, "head_dim": 64, "direction": "forward", "causal": 0}
    flop = 4 * 2 * 4 * 1000**2 * 64

    def tflops(**changed):
        return float(flash_attention.speed(row | changed, 0.001, {})["tflops"])

    assert tflops() == pytest.approx(flop / 1e-6 / 1e12, rel=1e-3)
    assert tflops(causal=1) == pytest.approx(tflops() / 2, rel=1e-3)
    assert tflops(direction="backward") == pytest.approx(2.5 * tflops(), rel=1e-3)


def test_the_dense_peer_of_decoding_has_a_reference():
    inputs = pages.paged_inputs((2, 8, 2, 70), 70, "cpu")
    assert pages.error_of(pages.dense(inputs)(), pages.dense_reference(inputs)) <= pages.DRY_TOLERANCE


def test_a_ratio_is_that_of_the_fastest_peer():
    times = {("ours",): SimpleNamespace(median_ms=2.0)}
    times |= {(name, "torch"): SimpleNamespace(median_ms=ms) for name, ms in (("slow", 5.0), ("fast", 3.0), ("x", 1.0))}
    assert ratio_to_best({"slow", "fast"}, 2.0, times) == "1.500"
    assert ratio_to_best({"absent"}, 2.0, times) == ""
