"""The plots of a serving benchmark: their numbers are in the alternative text, rows without numbers are left out."""

import pytest

from course_lib import viz


def grid_rows(prompts=(128, 1024), batches=(1, 8, 64)):
    return [
        {"trace": "grid", "prompt_len": str(p), "output_len": "64", "batch": str(b), "rate": "0",
         "tokens_per_s": f"{100 * b}", "tpot_p50_ms": f"{p / 100 + b / 10:.2f}"}
        for p in prompts for b in batches
    ]  # fmt: skip


def test_throughput_over_latency_has_a_line_for_each_pair_of_lengths():
    rows = [*grid_rows(), {"prompt_len": 4096, "output_len": 64, "batch": 8, "note": "left out"}]
    figure = viz.throughput_picture(rows)
    assert "128 in, 64 out: 100 at 1.38 ms with 1 clients, 800 at 2.08 ms" in figure.alt_text
    assert "4,096" not in figure.alt_text and [text.get_text() for text in figure.axes[0].texts] == ["64", "64"]


def test_a_sixth_line_looks_unlike_the_first():
    first, *_, sixth = viz.throughput_picture(grid_rows(prompts=range(1, 7))).axes[0].lines
    assert first.get_color() == sixth.get_color() and first.get_markerfacecolor() != sixth.get_markerfacecolor()


def test_time_per_token_over_the_batch():
    assert "1,024 in, 64 out: 10.3 at 1, 11 at 8, 16.6 at 64" in viz.tpot_picture(grid_rows()).alt_text


def test_time_to_the_first_token_over_the_rate():
    rows = [
        {"variant": name, "rate": rate, "ttft_p50_ms": rate * 2, "ttft_p99_ms": rate * scale}
        for name, scale in (("course", 3), ("static_batching", 400))
        for rate in (4, 8)
    ]
    figure = viz.ttft_picture([*rows, *grid_rows()])
    assert "course p50: 8 at 4, 16 at 8" in figure.alt_text and "static_batching p99: 1.6e+03 at 4" in figure.alt_text
    heights = sorted(text.xy[1] for text in figure.axes[0].texts)
    low, high = figure.axes[0].get_ylim()
    assert all(b / a >= (high / low) ** 0.05 for a, b in zip(heights, heights[1:], strict=False))


def test_use_of_the_cache_over_time():
    samples = [{"time": 0.1 * i, "kv_use": str(i / 10), "running": i, "waiting": max(0, 4 - i)} for i in range(1, 9)]
    alt_text = viz.kv_picture(samples, preemptions=[0.3]).alt_text
    assert "at most 80 % of the pages, at 0.8 of 0.8 s; at most 8 requests run and 3 wait; 1 preemptions" in alt_text


def test_samples_from_measured_steps():
    steps = [{"ms": "10", "num_seqs": "2", "kv_tokens": "64"}, {"ms": "5", "num_seqs": "3", "kv_tokens": "80"}]
    first, second = viz.samples_of_steps(steps, 100, 16, num_requests=3)
    assert first == {"time": 0.01, "kv_use": pytest.approx(0.05), "running": 2, "waiting": 1}
    assert second["time"] == pytest.approx(0.015) and second["waiting"] == 0


@pytest.mark.parametrize("plot", [viz.throughput_picture, viz.ttft_picture, viz.tpot_picture, viz.kv_picture])
def test_no_rows_are_a_sentence(plot):
    assert "no rows are stored yet" in plot([]).alt_text
