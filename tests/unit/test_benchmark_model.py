"""The benchmark of models: its ladder and its numbers, on the tiny shapes of a dry run."""

import time

import pytest
import torch
from benchmark_dry_runs import DRY

from benchmarks import model as case
from course_lib.model import ModelConfig, Transformer, random_weights

LOADS = {load["model"]: load for load in case.loads(dry=True) if load["batch_size"] == 2}


@pytest.mark.parametrize("name", LOADS)
def test_every_rung_runs_and_makes_the_same_tokens(name):
    inputs = case.Case(LOADS[name] | {"new_tokens": 3}, DRY)
    found = {rung: case.measured(inputs, rung, DRY) for rung in case.LADDER if rung not in ("02_flash_no_cache",)}
    wanted = found["03_kv_cache"][1]
    assert found["01_naive_no_cache"][1][0][:3] == wanted[0] and found["10_speculative"][1] is not None
    for rung, (row, tokens, seconds) in found.items():
        assert "note" not in row and float(row["max_error"]) < 1.0, rung
        assert len(tokens) == 2 and seconds > 0


def test_bytes_of_a_step_by_formula():
    config = ModelConfig("llama", 10, 8, 2, 2, 1, 4, 12, 99, tie_embeddings=False)
    weights = random_weights(config, dtype=torch.bfloat16)
    inputs = case.Case.__new__(case.Case)
    inputs.config, inputs.new_tokens, inputs.load = config, 4, {"prompt_len": 6, "batch_size": 3}
    layer = 2 * 8 + (8 + 2 * 4) * 8 + 8 * 8 + 2 * 12 * 8 + 8 * 12
    keys = 2 * 2 * 4 * 3 * (6 + 2)
    assert inputs.step_bytes(Transformer(weights)) == 2 * (2 * layer + 8 + 10 * 8 + keys)


def test_numbers_of_a_run():
    inputs = case.Case.__new__(case.Case)
    inputs.device, inputs.load, inputs.new_tokens = "cpu", {"batch_size": 2}, 50
    row = case.numbers(inputs, ([[1] * 5] * 2, 0.1, 0.5, 3e9), 2e9)
    # 2 x 50 tokens in 0.1 + 49 x 0.1 s
    assert row["tokens_per_s"] == "20.0" and row["step_ms"] == "100.0000" and row["step_gbps"] == "20"
    assert case.agreement([[1, 2, 3, 4], [5, 6]], [[1, 2, 0, 4], [5, 6]]) == 4 / 6


def test_what_is_refused_is_a_note():
    result = case.attempt("a peer", lambda: 1 / 0)
    assert result.row == {"variant": "a peer", "note": "ZeroDivisionError: division by zero"} and result.tokens is None
    assert case.attempt("07_cuda_graph", lambda: 1 / 0).row["note"].startswith("wrong: ZeroDivisionError")


def test_a_rung_that_takes_too_long_is_a_row_that_says_why():
    inputs = case.Case.__new__(case.Case)
    inputs.device, inputs.config = "cuda", ModelConfig.named("llama-1.1b")
    inputs.load = {"batch_size": 32, "prompt_len": 2048}
    row, tokens, seconds = case.measured(inputs, "03_kv_cache", DRY)
    # 4 FLOP for each of 22 x 2048 numbers and of 32 x 2048^2 / 2 pairs
    assert row["note"] == "not run: 1.2e+13 FLOP of float32 attention in a prompt take 12 s or more; a variant has 4 s"
    assert tokens is seconds is None and case.too_long(inputs, "04_half_precision") is None
    inputs.load = {"batch_size": 1, "prompt_len": 2048}
    assert case.too_long(inputs, "03_kv_cache") is None


def test_runs_are_as_many_as_fit_into_the_limit(monkeypatch):
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))  # each run takes 2 s
    asked = []
    taken = case.timed(lambda count: asked.append(count) or [[0] * count], 9, 5, "cpu", 6.0)
    assert asked == [9, 1, 9, 1] and taken == ([[0] * 9], 2, 2, 0)


def test_rows_come_in_the_ladders_order_with_their_comparisons(monkeypatch, capsys):
    seconds = {name: 1.0 + index for index, name in enumerate((*case.LADDER, *case.PEERS))}
    made = lambda name: ({"variant": name}, [[1, 2, len(name)]], seconds[name])  # noqa: E731
    monkeypatch.setattr(case, "Case", lambda load, options: None)
    monkeypatch.setattr(case, "clear", lambda inputs: None)
    monkeypatch.setattr(case, "measured", lambda inputs, name, options: made(name))
    monkeypatch.setattr(case, "of_peer", lambda inputs, name, peer, options: made(name))
    rows = list(case.rows_of({"batch_size": 32}, DRY))
    assert [row["variant"] for row in rows] == [*list(case.LADDER)[2:9], *case.DRY_PEERS]
    best = seconds[case.DRY_PEERS[0]]
    assert [row["ratio_to_best_peer"] for row in rows[:2]] == [f"{best / 3:.3f}", f"{best / 4:.3f}"]
    assert rows[3]["agreement"] == "1.000" and rows[0]["agreement"] == "0.667"
    assert capsys.readouterr().err.count(" s: {") == len(rows)
    monkeypatch.setattr(case, "LOAD_S", -1.0)
    assert {row["note"] for row in case.rows_of({"batch_size": 32}, DRY)} == {"not run: the -1 s of a load were over"}
