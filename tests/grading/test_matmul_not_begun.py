"""NaN everywhere is a tail that was not set to 0, or an acc that was not: products without a tail tell them apart."""

from types import SimpleNamespace

import pytest
import torch

from course_lib.grading.exercise import registry
from course_lib.grading.subjects.matmul.diagnostics import diagnose_matmul


def _case(name, size_k, out):
    return SimpleNamespace(
        case=SimpleNamespace(name=name, sizes={"size_k": size_k}),
        ran=True,
        first=SimpleNamespace(outputs={"out": torch.tensor(out)}),
    )


@pytest.mark.parametrize(
    ("with_whole_tiles", "code", "says"),
    [(float("nan"), "not_begun", "'whole tiles', where k has no tail"), (None, "tail_unset", "must hold 0")],
)
def test_nan_with_whole_tiles_is_an_acc_that_was_not_begun(with_whole_tiles, code, says):
    failing = [_case("ragged", 53, [float("nan")] * 4)]
    if with_whole_tiles is not None:
        failing.append(_case("whole tiles", 64, [with_whole_tiles] * 4))
    evidence = SimpleNamespace(
        exercise=registry.get("04.1"),
        readings={"terms": torch.full((11, 37), float("nan"))},
        failing=lambda: failing,
    )
    found = diagnose_matmul(evidence, 32)
    assert found.code == code and says in found.sentence
