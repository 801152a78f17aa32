"""Chapter 07's probes read right outputs as right and name wrong ones; skipped tiles are judged by the bytes read."""

import pytest
import torch

from course_lib.grading.exercise import inputs, registry
from course_lib.grading.exercise.spec import Case
from course_lib.grading.subjects.flash_attention_2 import pairs as pairs
from course_lib.grading.subjects.flash_attention_2 import weights as weights
from course_lib.reference import attention_gradients as gradients
from course_lib.reference.attention import attention_lse

fragments = registry.module(registry.folder_of("07.7"), "fragments")
skip = registry.module(registry.folder_of("07.3"), "task")


def readings(exercise_id, outputs_of):
    """name of a probe -> what it reads when `outputs_of(case, tensors)` are the outputs."""
    exercise = registry.get(exercise_id)
    found = {}
    for probe in exercise.probes:
        tensors = exercise.make_inputs(probe.case, inputs.generator(7))
        found[probe.name] = probe.read(tensors, outputs_of(probe.case, tensors))
    return found


def exact(case, tensors, causal=None):
    """d_q, d_k and d_v in float64, with another mask than the case's when `causal` is given."""
    causal = case.options["causal"] if causal is None else causal
    return dict(zip(("d_q", "d_k", "d_v"), gradients.gradients_from_lse(**tensors, causal=causal), strict=True))


def test_right_gradients_read_right():
    for_v, for_q_k = readings("07.5", exact), readings("07.6", exact)
    assert pairs.by_pairs(for_v, "d_v", 0, "heads") is None
    assert weights.say_weight(for_v, "d_v") is None
    assert pairs.say_pairs(for_q_k["pairs"]["d_q"], "d_q", 1, group=1) is None
    assert pairs.by_pairs(for_q_k, "d_k", 0, "heads of d_k") is None
    assert weights.say_d_scores(for_q_k) is None
    assert for_q_k["heads"] == [[pytest.approx(10 * b + h // 2) for h in range(4)] for b in range(2)]
    for name in ("d_q", "d_k"):
        assert weights.say_weight(for_q_k, name) is None
    assert for_v["whole tiles"] and for_q_k["whole tiles"]


def test_gradients_without_the_mask_read_as_that():
    found = readings("07.5", lambda case, tensors: exact(case, tensors, causal=False))
    assert pairs.say_pairs(found["pairs"]["d_v"], "d_v", 0).code == "mask_missing"


def test_d_s_without_d_reads_as_that():
    found = readings("07.6", lambda case, tensors: exact(case, tensors | {"out": torch.zeros_like(tensors["out"])}))
    assert weights.say_d_scores(found).code == "d_missing"


def test_each_diagnosis_of_d_s_has_a_value_of_its_own():
    right = weights.D_PROBS - weights.ROW_DOT
    values = [right, right + 1.0, *(value for value, _, _ in weights._d_scores(right))]
    apart = [abs(a / b - 1.0) > 5e-3 for i, a in enumerate(values) for b in values[:i]]
    assert all(apart)


def forward(case, tensors):
    out, lse = attention_lse(**tensors)
    return {"out": out.to(torch.float16), "lse": lse.float()}


def test_right_fragments_read_right():
    found = readings("07.7", forward)
    assert fragments._by_lanes(found["equal lse"], found["last key"]) is None
    assert fragments._by_places(found["places"]) is None
    assert fragments._by_heavy(found["heavy"], found["unity"]) is None


@pytest.mark.parametrize(
    ("move", "code"),
    [
        (lambda out: out.roll(8, 0), "rows_exchanged"),
        (lambda out: out.reshape(16, 32, 2).flip(2).reshape(16, 64), "pair_exchanged"),
        (lambda out: out.roll(1, 1), "fragment_layout"),
    ],
)
def test_misplaced_fragments_read_as_that(move, code):
    out = readings("07.7", forward)["places"]
    assert fragments._by_places(move(out)).code == code


def ledger(keys_read, num_q, head_dim=4):
    """The counts that the rule uses: q once, and rows of k and v."""
    return {"global_load": {"bytes": 4 * head_dim * (num_q + 2 * keys_read)}}


@pytest.mark.parametrize(("keys", "refused"), [(384, False), (512, False), (528, True), (576, True)])
def test_tiles_above_the_diagonal_may_not_be_read(keys, refused):
    """96 queries and keys: 12 tiles of 32 keys hold a visible pair; one more for each of six tiles of queries is 16."""
    sizes = dict(zip(skip.cases.SIZES, (1, 1, 1, 96, 96, 4), strict=True))
    assert sum(skip.tiles_visited(96, 96)) == 12
    found = skip.skipping(Case("long square", sizes), ledger(keys, 96))
    assert (found is not None) == refused
    if refused:
        assert found.code == "no_tile_skipped" and "only 12 hold a visible pair" in found.sentence


def test_queries_that_see_nothing_visit_no_tile():
    assert skip.tiles_visited(70, 20) == [0, 0, 0, 1, 1]
