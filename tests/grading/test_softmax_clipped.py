"""The diagnosis of differences cut off below, and its neighbours, which must not get it."""

from types import SimpleNamespace

import pytest
import torch

from course_lib.grading.exercise import inputs
from course_lib.grading.exercise.spec import Case
from course_lib.grading.judge.evidence import CaseEvidence, Evidence
from course_lib.grading.processes.protocol import RunResult
from course_lib.grading.subjects.softmax.clipped import by_clipped


def evidence(weights):
    """Evidence of failing cases in which `weights(x - m)` took the place of exp(x - m)."""
    cases = []
    for values in ("spikes", "minus_3000", "rising"):
        for seed in range(3):
            x = inputs.scores(values, (3, 61), "float32", inputs.generator(seed, values)).double()
            shifted = x - x.amax(-1, keepdim=True)
            out, right = (w / w.sum(-1, keepdim=True) for w in (weights(shifted), shifted.exp()))
            case = Case(values, {"num_rows": 3, "num_cols": 61}, values)
            run = RunResult(values, outputs={"out": out.float()})
            cases.append(CaseEvidence(case, {}, {"out": right}, run, None))
            cases[-1].comparisons = {"out": SimpleNamespace(passed=False)}
    return Evidence(SimpleNamespace(ledger_rule=None), cases)


@pytest.mark.parametrize("limit", [-5.0, -10.0])
def test_a_cut_is_named_with_its_number(limit):
    found = by_clipped(evidence(lambda shifted: shifted.clamp(min=limit).exp()))
    assert found.code == "difference_clipped" and f"cut off at {limit:g}" in found.sentence


@pytest.mark.parametrize(
    "weights",
    [
        torch.exp,
        lambda shifted: shifted.exp() + 1e-4,
        lambda shifted: torch.where(shifted < -10.0, 0.0, shifted.exp()),
        lambda shifted: shifted.exp().half().double(),
        lambda shifted: torch.exp2(shifted.clamp(min=-10.0)),
        lambda shifted: torch.ones_like(shifted),
    ],
)
def test_its_neighbours_do_not_get_it(weights):
    assert by_clipped(evidence(weights)) is None
