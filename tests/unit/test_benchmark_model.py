"""The benchmark of models: its ladder and its numbers, on the tiny shapes of a dry run."""

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
    assert found["01_naive_no_cache"][1][0][:3] == wanted[0] and found["09_speculative"][1] is not None
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
