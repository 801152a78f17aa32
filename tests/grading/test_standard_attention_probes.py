"""Chapters 05 and 06: right outputs read as right, and each diagnosis keeps away from the mistakes next to it."""

import pytest
import torch

from course_lib import checklist
from course_lib.grading.exercise import inputs, registry
from course_lib.grading.judge.evidence import Evidence
from course_lib.grading.judge.judge import judge
from course_lib.reference import attention
from course_lib.reference.softmax import log_sum_exp, softmax


def diagnosis(exercise_id, outputs_of):
    """What the exercise says of an answer whose probes give `outputs_of(exercise, case, tensors)`, no case judged."""
    exercise, readings = registry.get(exercise_id), {}
    for probe in exercise.probes:
        tensors = exercise.make_inputs(probe.case, inputs.generator(7))
        readings[probe.name] = probe.read(tensors, outputs_of(exercise, probe.case, tensors))
    return exercise.diagnose(Evidence(exercise, [], readings))


def judged(exercise_id, *edits):
    """The diagnosis of the solution with texts replaced."""
    exercise = registry.get(exercise_id)
    text = checklist.solution_text(exercise)
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return judge(exercise, text, seed=11).diagnosis


@pytest.mark.parametrize("exercise_id", ["05.1", "05.2", "05.3", "05.4", "06.1", "06.2", "06.3", "06.4"])
def test_right_outputs_read_right(exercise_id):
    assert diagnosis(exercise_id, lambda exercise, case, tensors: exercise.oracle(case, tensors)) is None


def scaled_by(factor):
    """Attention whose scores are multiplied by factor(softmax_scale, head_dim)."""

    def outputs(exercise, case, tensors):
        q, k, v = tensors["q"].double(), tensors["k"].double(), tensors["v"].double()
        head_dim = q.shape[-1]
        scale = factor(case.options.get("scale", head_dim**-0.5), head_dim)
        causal = exercise.id == "06.4" or bool(case.options.get("causal", 0))
        out, lse = attention.attention_lse(q, k, v, softmax_scale=scale, causal=causal)
        scores = attention.rounded_scores(q, k, softmax_scale=scale, causal=causal)
        return {"out": out, "lse": lse, "probs": softmax(scores)}

    return outputs


@pytest.mark.parametrize("exercise_id", ["05.1", "06.3", "06.4"])
@pytest.mark.parametrize(
    ("factor", "code"),
    [
        (lambda scale, dim: dim**-0.5, "scale_ignored"),
        (lambda scale, dim: 1.0, "scale_missing"),
        (lambda scale, dim: scale * scale, "scale_twice"),
        (lambda scale, dim: dim**-0.5 if abs(scale - dim**-0.5) < 1e-9 else 2.0 * scale, "scale_wrong"),
    ],
)
def test_a_scale_that_is_ignored_is_no_missing_one(exercise_id, factor, code):
    assert diagnosis(exercise_id, scaled_by(factor)).code == code


@pytest.mark.parametrize(
    ("factor", "code"),
    [(lambda scale: 0.25, "scale_ignored"), (lambda scale: 1.0, "scale_missing"), (lambda s: s * s, "scale_twice")],
)
def test_a_scale_that_is_ignored_in_a_fused_softmax(factor, code):
    def outputs(_exercise, case, tensors):
        scores = tensors["scores"].double() * factor(case.options["scale"])
        scores = attention.masked(scores, causal=bool(case.options["causal"]))
        return {"probs": softmax(scores), "lse": log_sum_exp(scores)}

    assert diagnosis("05.2", outputs).code == code


def lanes(keys):
    return torch.arange(keys) % 32


def own(function, x):
    """`function` of the keys of each lane, at each of its keys; x (..., keys)."""
    parts = [function(x[..., lanes(x.shape[-1]) == lane]) for lane in range(min(32, x.shape[-1]))]
    return torch.stack(parts, dim=-1)[..., lanes(x.shape[-1])]


@pytest.mark.parametrize(
    ("l_of", "code"),
    [
        (lambda weights: own(lambda part: part.sum(dim=-1), weights), "own_sum"),
        (lambda weights: torch.ones_like(weights), "no_division"),
        (lambda weights: (weights * (lanes(weights.shape[-1]) < 16)).sum(-1, True).clamp(min=1e-9), "sum_incomplete"),
        (lambda weights: (weights > 0).sum(dim=-1, keepdim=True).double(), "l_not_rescaled"),
    ],
)
def test_sums_of_lanes_are_told_apart(l_of, code):
    def outputs(_exercise, case, tensors):
        scores = attention.masked(
            tensors["scores"].double() * case.options["scale"], causal=case.options["causal"] == 1
        )
        weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True)).nan_to_num(0.0)
        if case.name != "step" and code != "own_sum" and code != "no_division":
            return {"probs": softmax(scores), "lse": log_sum_exp(scores)}
        return {"probs": weights / l_of(weights), "lse": log_sum_exp(scores)}

    assert diagnosis("05.2", outputs).code == code


def heads_of(k_head, v_head):
    """Grouped attention that reads k_head(h, group, kv) of k and v_head of v."""

    def outputs(_exercise, case, tensors):
        num_heads, num_kv = (case.sizes[name] for name in ("num_heads", "num_kv_heads"))
        group = num_heads // num_kv
        k, v = (
            tensors[name][:, [head(h, group, num_kv) for h in range(num_heads)]]
            for name, head in (("k", k_head), ("v", v_head))
        )
        causal = bool(case.options.get("causal", 0))
        out, lse = attention.attention_lse(tensors["q"], k, v, causal=causal)
        return {"out": out, "lse": lse}

    return outputs


def by_division(h, group, _kv):
    return h // group


def by_remainder(h, _group, kv):
    return h % kv


def test_the_head_of_k_and_the_head_of_v_are_told_apart():
    assert diagnosis("05.4", heads_of(by_division, by_division)) is None
    of_k, of_v = (diagnosis("05.4", heads_of(*p)) for p in ((by_remainder, by_division), (by_division, by_remainder)))
    assert of_k.code == of_v.code == "head_modulo"
    assert " of k (counted" in of_k.sentence and " of k (counted" not in of_v.sentence


LOOP = "for kv_start in range(0, k.shape[0], block_n):"


def test_a_limit_is_said_of_sizes_alone():
    limited = judged("06.2", (LOOP, LOOP.replace("k.shape[0]", "min(k.shape[0], 1024)")))
    assert limited.code == "limited" and "Right up to 203 keys; with 5,000" in limited.sentence
    assert judged("06.2", (LOOP, LOOP.replace("k.shape[0]", "k.shape[0] // block_n * block_n"))).code != "limited"
    assert judged("06.2", ("q.shape[1] ** -0.5", "8**-0.5")).code != "limited"


def test_wrong_values_come_before_a_wrong_way():
    """All scores are held, and beyond 1,024 keys they are wrong: a case that is refused has no wrong element."""
    kept = "            probs_unnorm = torch.exp(scores - m_new[:, None])"
    way = (("    " + LOOP, "    kept = []\n    " + LOOP), (kept, kept + "\n            kept.append(probs_unnorm)"))
    assert judged("06.2", *way).code == "too_much_held"
    both = ("    " + LOOP, "    kept = []\n    " + LOOP.replace("k.shape[0]", "min(k.shape[0], 1024)"))
    assert judged("06.2", both, way[1]).code == "limited"


MAXIMUM = "m_new = torch.maximum(m, scores.amax(dim=1))"


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (("m_new == -torch.inf", "m_new <= -1e4"), "finite_for_inf"),
        ((MAXIMUM, MAXIMUM + ".clamp(min=-1e4)"), "m_wrong"),
        ((MAXIMUM, MAXIMUM + ".max().expand_as(m)"), "m_wrong"),
        ((MAXIMUM, "m_new = scores.amax(dim=1)"), "tile_local_max"),
        (("l * torch.exp(m - shift)", "l * torch.exp(m - shift) * float((l > 0).all() or not l.any())"), "rows_mixed"),
    ],
)
def test_what_is_wrong_with_m(edit, code):
    assert judged("06.1", edit).code == code


def test_inputs_with_a_scale_of_their_own_have_the_scores_that_the_case_names():
    exercise = registry.get("06.3")
    case = next(case for case in exercise.cases if case.name == "scores near +100")
    tensors = exercise.make_inputs(case, inputs.generator(3))
    scores = attention.rounded_scores(tensors["q"].double(), tensors["k"].double(), softmax_scale=case.options["scale"])
    assert case.options["scale"] != case.sizes["head_dim"] ** -0.5
    assert (scores - 100.0).abs().max() < 15
    assert exercise.largest_score(case, tensors) == pytest.approx(scores.abs().max().item())
    assert torch.isfinite(scores).all()
