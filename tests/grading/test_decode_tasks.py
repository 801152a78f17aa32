"""Tasks of chapter 09: K and V read once a group are counted, and every slip in choosing splits shows."""

import pytest

from course_lib.grading.exercise import registry
from course_lib.grading.exercise.spec import Case
from course_lib.grading.judge.prepare import prepare
from course_lib.grading.subjects.decode import windows

CHOICE, GROUPED = (registry.module(registry.folder_of(exercise_id), "task") for exercise_id in ("09.5", "09.6"))


@pytest.mark.parametrize(
    ("times", "in_every_tile", "refused"), [(1, 1, False), (1, 3, False), (2, 1, True), (8, 1, True)]
)
def test_k_and_v_are_read_once_a_group(times, in_every_tile, refused):
    """8 query heads on one head of 40 keys, head_dim 32: q has 512 bytes, k and v have 5120."""
    sizes = dict(zip(GROUPED.cases.SIZES, (1, 8, 1, 40, 48, 32), strict=True))
    dot = {"line": 1, "lhs": "fp16", "rhs": "fp16", "accumulator": "fp32", "input_precision": "ieee"}
    ledger = {
        "global_load": {"bytes": 512 * in_every_tile + 5120 * times},
        "global_store": {"bytes": 512 + 32},
        "largest_share": {"global_store": 512 + 32},
        "dots": [dot | {"shape": (16, 16, 32), "count": 6}],
        "lines": [],
    }
    diagnosis = GROUPED.once_a_group(Case("a group of 8", sizes), ledger)
    assert (diagnosis is not None) == refused
    if refused:
        assert diagnosis.code == "kv_read_again" and f"{times:.3g} times the 5,120" in diagnosis.sentence


def test_keys_are_shared_out_without_a_gap():
    """53 keys among 4: tiles of 16, the last one of 5; 20 keys: a tile, four keys, and nothing twice."""
    assert windows.shared_out(53, 4, 16) == [(0, 16), (16, 32), (32, 48), (48, 53)]
    assert windows.shared_out(20, 4, 16) == [(0, 16), (16, 20), (20, 20), (20, 20)]
    for length in range(70):
        splits = windows.shared_out(length, 3, 8)
        assert [key for first, end in splits for key in range(first, end)] == list(range(length))


def test_every_slip_in_choosing_splits_gives_other_numbers():
    cases = [tuple(case.sizes.values()) for case in CHOICE.EXERCISE.cases if case.values == "given"]
    right = [CHOICE.chosen(*sizes) for sizes in cases]
    slips = [tuple(slip(*sizes) for sizes in cases) for _, _, slip in CHOICE.SLIPS]
    assert tuple(right) not in slips and len(set(slips)) == len(slips)


FORMS = (
    lambda blocks, waves, slots: blocks / (waves * slots),
    lambda blocks, waves, slots: blocks / waves / slots,
    lambda blocks, waves, slots: blocks / slots / waves,
)
LIMITS = (
    lambda value, best: value >= 0.85 * best,
    lambda value, best: value / best >= 0.85,
    lambda value, best: 100 * value >= 85 * best,
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("enough", LIMITS)
def test_no_choice_hangs_on_the_last_digit_of_a_division(form, enough):
    """Efficiencies are far from 85 % of the best, or 0.85 of exactly 1: floats and fractions choose alike."""
    for prepared in prepare(CHOICE.EXERCISE, 3):
        pairs, tiles, slots = prepared.inputs["sizes"].tolist()
        allowed = [s for s in range(1, tiles + 1) if CHOICE.without_empty(s, tiles)]
        busy = {s: form(pairs * s, -(-pairs * s // slots), slots) for s in allowed}
        best = max(busy.values())
        assert min(s for s in allowed if enough(busy[s], best)) == CHOICE.chosen(pairs, tiles, slots)
        assert CHOICE.nearest(pairs, tiles, slots) > CHOICE.TIE or best == 1.0
