"""Probes of attention give the number they promise for right attention; a verdict can be shown without consequences."""

import pytest
import torch

import course_lib
from course_lib.errors import CheckFailed
from course_lib.grading.exercise import inputs, probes, registry
from course_lib.grading.records import work
from course_lib.grading.subjects.attention.cases import qkv
from course_lib.reference.attention import attention

UNSCALED = "import torch\ndef attention_row(q, k, v):\n    return torch.softmax(k @ q, dim=0) @ v"
RIGHT = UNSCALED.replace("k @ q", "k @ q * len(q) ** -0.5")


def reading(probe, function):
    """What the probe reads when `function` computes the output."""
    case = probe.case
    shape = (case.sizes["seq_len_kv"], case.sizes["head_dim"])
    tensors = qkv(case, inputs.generator(4), shape[1:], shape)
    out = function(tensors["q"][None], tensors["k"], tensors["v"])[0]
    return probe.read(tensors, {"out": out})


def test_right_attention_reads_right():
    sizes = {"seq_len_kv": 32, "head_dim": 64}
    assert reading(probes.key_counter(sizes), attention) == pytest.approx(32)
    assert reading(probes.unity(sizes), attention)["sum"] == pytest.approx(1)
    assert reading(probes.ramp(sizes), attention)["slope"] == pytest.approx(1)
    assert reading(probes.stagnation(sizes), attention) == pytest.approx(1)


def test_a_missing_scale_reads_as_its_factor():
    sizes = {"seq_len_kv": 32, "head_dim": 64}
    unscaled = reading(probes.ramp(sizes), lambda q, k, v: attention(q, k, v, softmax_scale=1.0))
    assert unscaled["slope"] == pytest.approx(8.0, rel=1e-3)


@pytest.mark.parametrize("case", registry.get("00.1").cases, ids=lambda case: case.name)
def test_scaled_scores_are_what_the_case_says(case):
    exercise = registry.get("00.1")
    tensors = exercise.make_inputs(case, inputs.generator(7))
    scores = tensors["k"].double() @ tensors["q"].double() * case.sizes["head_dim"] ** -0.5
    near = {"minus_100": -100.0, "minus_12000": -12000.0, "plus_100": 100.0, "plus_12000": 12000.0}.get(case.values)
    if near is not None:
        assert (scores - near).abs().max() < 12
    elif case.values == "spikes":
        assert scores.max() > 110
    elif case.values == "two_high":
        high = scores.topk(3).values
        assert high[1] > 90 and high[2] < 12 and 0.1 < high[0] - high[1] < 10
    elif case.values == "high_by_14":
        high = scores.topk(2).values
        assert abs(high[0]) < 6 and high[1] < -8 and abs(scores.median() + 14) < 0.2
    elif case.values == "rising":
        assert scores[-5:].mean() > scores[:5].mean() + 8
    else:
        assert scores.abs().max() < 12


def test_a_verdict_for_show_leaves_no_trace(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path))
    monkeypatch.setenv("COURSE_STRICT", "1")
    assert course_lib.check("00.1", UNSCALED, expect="FAIL").diagnosis.code == "scale_missing"
    with pytest.raises(CheckFailed, match="must be FAIL"):
        course_lib.check("00.1", RIGHT, expect="FAIL")
    assert work.progress() == {} and not (tmp_path / "answers").exists()
    assert course_lib.check("00.1", RIGHT).passed
    assert work.progress()["00.1"]["last"] == "PASS"


q = k = torch.zeros(3)  # a notebook has variables of these names; the answer's parameters are others


def test_a_parameter_is_not_the_notebooks_variable_of_that_name():
    def attention_row(q, k, v):
        scores = k @ q * len(q) ** -0.5
        weights = [float(w) for w in torch.softmax(scores, dim=0)]
        return torch.tensor(weights) @ v

    assert course_lib.check("00.1", attention_row).state == "PASS"
