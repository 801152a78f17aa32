"""The case files of the small kernels: every variant of a dry run is right; a wrong one is told from a right one."""

import pytest
import torch
from benchmark_dry_runs import dry_rows

from benchmarks import activation, cross_entropy, embedding, moe, norm, rope, sampling, w4a16
from benchmarks.harness.layers import in_place, relative_error


def test_norms(tmp_path):
    rows = dry_rows(norm, tmp_path)
    assert {(row["op"], row["variant"], row["language"]) for row in rows} >= {
        (op, f"{step}_{op}", language)
        for step, op in (("01", "rms_norm"), ("02", "layer_norm"), ("03", "add_rms_norm"))
        for language in ("cuda", "triton")
    }


@pytest.mark.parametrize("case", [activation, cross_entropy, embedding, moe, rope], ids=lambda case: case.__name__)
def test_others(case, tmp_path):
    rows = dry_rows(case, tmp_path)
    assert {row["language"] for row in rows} == {"cuda", "triton", "torch"}


@pytest.mark.parametrize("case", [sampling, w4a16], ids=lambda case: case.__name__)
def test_one_language_alone(case, tmp_path):
    assert {row["language"] for row in dry_rows(case, tmp_path)} == {"cuda", "torch"}


def test_what_works_in_place_is_checked_by_its_first_call():
    x = torch.ones(3)
    run = in_place(lambda own: own.add_(1.0), x)
    assert run()[0].tolist() == [2.0] * 3 and run()[0].tolist() == [3.0] * 3 and x.tolist() == [1.0] * 3


def test_an_error_is_relative_to_the_largest_number_and_not_finite_is_wrong():
    want = torch.tensor([0.0, 100.0], dtype=torch.float64)
    assert relative_error([torch.tensor([0.0, 101.0])], [want]) == 0.01
    assert relative_error([torch.tensor([0.0, torch.nan])], [want]) == float("inf")
