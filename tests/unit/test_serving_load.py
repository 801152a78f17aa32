"""Load on a serving engine: workloads, arrivals, what a client measures, and the simulator that they run on here."""

from types import SimpleNamespace

import pytest

from course_lib.errors import ArgumentError
from course_lib.model import SIZES, ModelConfig
from course_lib.serving import Request, ServingConfig, load, traces
from course_lib.serving.roof import Costs, card_rates, roof_seconds
from course_lib.serving.simulator import (
    LLAMA_3_70B,
    Line,
    SimulatedEngine,
    StepTimes,
    deviations,
    fit,
    fit_error,
    scaled,
)

TIMES = StepTimes(Line(1e-3, 0.0, 0.0), Line(1e-3, 1e-5, 0.0))


def simulated(source, *, times=TIMES, seconds=float("inf"), **config):
    """The Run of a load on a simulated engine."""
    engine = SimulatedEngine(ServingConfig(**({"num_pages": 4096, "prefix": None} | config)), times)
    return load.drive(engine, source, clock=engine.clock, sleep=engine.sleep, seconds=seconds)


# workloads


def test_the_workload_of_the_field():
    requests = traces.uniform_trace()
    assert sum(len(item.prompt) for item in requests) == 142_827
    assert sum(item.max_new_tokens for item in requests) == 133_966
    assert requests[0].prompt[0] != traces.uniform_trace(content=5)[0].prompt[0]
    assert list(map(sizes, traces.uniform_trace(content=5))) == list(map(sizes, requests))


def sizes(item):
    return len(item.prompt), item.max_new_tokens


def test_a_shared_prefix_is_shared_and_the_rest_is_not():
    first, second = traces.shared_prefix_trace(2, 7, 3, 1)
    assert first.prompt[:7] == second.prompt[:7] and first.prompt[7:] != second.prompt[7:] and len(first.prompt) == 10


def test_poisson_gaps_have_their_mean_and_their_spread():
    times = [item.arrival for item in traces.arriving(traces.fixed_trace(4000, 1, 1), 8)]
    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1 / 8, rel=0.05)
    assert sum(gap > mean for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.03)  # exponential: 1/e


# loops


def test_an_open_loop_counts_from_the_intended_arrival():
    requests = [Request(str(i), (1,) * 8, 1, arrival=i * 1e-4) for i in range(4)]
    slow = StepTimes(Line(1.0, 0.0, 0.0), Line(1.0, 0.0, 0.0))  # one step lasts longer than all gaps
    run = simulated(load.OpenLoop(requests), times=slow, max_num_seqs=1)
    waits = [line.ttft for line in run.timelines.values()]
    assert waits == pytest.approx([1 + i * (1 - 1e-4) for i in range(4)])  # from the arrival, not from the sending


def test_a_closed_loop_has_its_clients_in_flight():
    run = simulated(load.ClosedLoop(traces.fixed_trace(10, 4, 5), 3))
    assert max(item.running for item in run.samples) == 3
    assert all(line.finish_reason == "length" and len(line.times) == 5 for line in run.timelines.values())


def test_a_turn_holds_the_conversation_so_far():
    users = traces.conversations(2, 3, turn_len=4, output_len=2, think=0.5)
    source = load.Conversing(users)
    run = simulated(source)
    assert [line.num_prompt for name, line in run.timelines.items() if name.startswith("u1.")] == [4, 10, 16]
    first, second = run.timelines["u0.0"], run.timelines["u0.1"]
    assert second.arrival == pytest.approx(first.times[-1] + 0.5) and source.num_requests == 6 == len(run.timelines)


def test_a_refused_request_is_an_error_and_frees_its_client():
    requests = [Request("big", (1,) * 100, 1), Request("small", (1,), 1)]
    run = simulated(load.ClosedLoop(requests, 1), num_pages=2)
    assert "can never be served" in run.timelines["big"].error and run.timelines["small"].finish_reason == "length"
    row = load.summary(run)
    assert row["errors"] == 1 and row["requests"] == 2 and row["output_tokens"] == 1


def test_what_does_not_end_is_aborted():
    run = simulated(load.OpenLoop(traces.fixed_trace(1, 1, 1000)), seconds=0.01)
    (line,) = run.timelines.values()
    assert line.error == "not ended after 0.01 s" and 0 < len(line.times) < 20


# numbers


def test_percentiles_by_nearest_rank():
    assert load.percentile(range(1, 101), 99) == 99 and load.percentile([3, 1, 2], 50) == 2
    assert load.percentile([], 50) is None and load.percentile([5], 99) == 5


def test_times_of_one_request():
    line = load.Timeline("r", 1.0, 4, times=[2.0, 2.5, 4.0])
    assert (line.ttft, line.tpot, line.gaps) == (1.0, 1.0, [0.5, 1.5])
    run = load.Run({"r": line}, [], 4.0)
    row = load.summary(run)
    assert row["ttft_p50_ms"] == 1000 and row["itl_p99_ms"] == 1500 and row["tokens_per_s"] == 0.75
    assert load.Timeline("r", 0.0, 1, times=[1.0]).tpot is None


# simulator


def test_a_fit_finds_the_line_that_made_the_steps():
    decode, mixed = Line(2e-3, 1e-5, 3e-8), Line(5e-3, 2e-5, 1e-8)
    rows = [row_of(decode, 1, n, n * keys) for n in (1, 8, 64) for keys in (100, 500, 2000)]
    rows += [row_of(mixed, 0, n, keys) for n in (32, 500, 2048) for keys in (1000, 60_000, 3000)]
    times = fit([{name: str(value) for name, value in row.items()} for row in rows])
    for found, wanted in ((times.decode, decode), (times.mixed, mixed)):
        assert vars(found) == pytest.approx(vars(wanted), rel=1e-4)
    assert fit_error(times, rows) == pytest.approx((0, 0), abs=1e-6)
    assert fit_error(fit(rows[:9]), [row | {"ms": row["ms"] * 2} for row in rows[:9]])[0] == pytest.approx(-0.5)


def row_of(line, is_decode, tokens, keys):
    return {"ms": 1e3 * line.seconds(tokens, keys), "num_tokens": tokens, "kv_tokens": keys, "is_decode": is_decode}


def test_a_size_that_would_have_a_negative_cost_is_left_out():
    rows = [{"ms": 10 - keys / 1000, "num_tokens": 1, "kv_tokens": keys, "is_decode": 1} for keys in (0, 1000, 4000)]
    line = fit(rows).decode
    assert line.key == 0 and line.base + line.token > 0
    with pytest.raises(ArgumentError, match="no measured step"):
        fit([])


def test_the_clock_is_the_sum_of_the_steps():
    run = simulated(load.OpenLoop(traces.fixed_trace(2, 8, 3)), times=StepTimes(Line(1, 0, 0), Line(10, 0.5, 0)))
    assert run.seconds == 10 + 0.5 * 16 + 2  # one step with both prompts, two of one token each


def test_with_overlap_a_token_comes_one_step_later():
    times = StepTimes(Line(1, 0, 0), Line(10, 0, 0))
    requests = [Request("r", (1,) * 8, 3)]
    late, soon = (simulated(load.OpenLoop(requests), times=times, overlap=on).timelines["r"] for on in (True, False))
    assert late.times == [11, 12, 12] and soon.times == [10, 11, 12]  # the last one is waited for at once


def test_deviations_of_what_both_have():
    found = deviations({"seconds": 2.0, "ttft_p50_ms": 3}, {"seconds": "4", "ttft_p50_ms": "", "tpot_p50_ms": None})
    assert found == [("seconds", 4.0, 2.0, -0.5)]


def test_costs_by_formula_and_the_roof_of_the_fields_workload():
    config = ModelConfig("llama", 10, 8, 2, 2, 1, 4, 12, 99)
    layer = 8 * (8 + 2 * 4) + 8 * 8 + 3 * 8 * 12
    assert Costs.of(config) == Costs(2 * (2 * layer + 80), 2 * 2 * 2 * 4, 2 * 2 * layer)
    assert Costs.of(SIZES["qwen3-0.6b-shape"]).kv_bytes == 114_688
    requests = [Request("r", (0,) * 5, 3)]
    assert (
        roof_seconds(config, requests, (1.0, 1.0)) == 32 * (6 + 7) + 3 * Costs.of(config).weight_bytes + 4 * 5 * layer
    )
    assert card_rates("a card of another maker") is None


def test_a_scaled_line_follows_the_formulas():
    old, new = SIZES["qwen3-0.6b-shape"], SIZES["llama-3-8b"]
    rates = (4e12, 8e14)
    weights = Costs.of(old).weight_bytes / rates[0]
    times = StepTimes(Line(weights + 1e-3, 2e-6, 1e-8), Line(0.0, 2e-6, 1e-8))
    line = scaled(times, old, new, rates, model="llama-3-8b").decode
    ratio = Costs.of(new)
    assert line.base == pytest.approx(1e-3 * 32 / 28 + ratio.weight_bytes / rates[0])
    assert line.key == pytest.approx(1e-8 * ratio.kv_bytes / Costs.of(old).kv_bytes)
    four = scaled(times, old, new, rates, cards=4, exchange=1e-6).decode
    assert four.key == pytest.approx(line.key / 4) and four.base < line.base
    same = scaled(times, old, old, rates)
    assert vars(same.decode) == pytest.approx(vars(times.decode))


def test_thousands_of_requests_of_70_billion_weights_on_four_cards():
    source, rates = SIZES["qwen3-0.6b-shape"], card_rates("NVIDIA H200")
    times = StepTimes(Line(1.2e-3, 0.0, 2.9e-8), Line(1.2e-2, 1.6e-6, 3.6e-8))
    assert Costs.of(LLAMA_3_70B).weight_bytes == pytest.approx(139e9, rel=0.01)
    large = scaled(times, source, LLAMA_3_70B, rates, cards=4)
    assert large.decode.base > 139e9 / 4 / rates[0]
    requests = traces.arriving(traces.fixed_trace(2000, 100, 4), 30)
    row = load.summary(simulated(load.OpenLoop(requests), times=large, num_pages=20_000, max_num_seqs=64))
    assert row["requests"] == 2000 and row["errors"] == 0 and row["tpot_p50_ms"] > 1e3 * large.decode.base


def test_the_sample_of_an_engine():
    stats = SimpleNamespace(num_running=2, num_waiting=1, kv_usage=0.5)
    engine = SimpleNamespace(stats=lambda: stats)
    assert load.sample(engine, 3.0, 4) == load.Sample(3.0, 2, 1, 0.5, 4)
