"""Every mistake that people make in an attention forward pass has a wrong answer in chapters 05 and 06 that carries it.

The kill table shows that each of them fails with its diagnosis; here it is asked that none is missing, and that the
diagnosis names that mistake and not another one.
"""

import pytest

from course_lib.grading.exercise import submissions

# mistake -> ({diagnoses that name it}, [(exercise, wrong answer)])
FORWARD = {
    "causal, a key short": (
        {"causal_off_by_one"},
        [(exercise, "strictly causal") for exercise in ("05.2", "05.3", "05.4", "06.4")],
    ),
    "causal, a key of the future": (
        {"causal_off_by_one"},
        [(exercise, "one key of the future") for exercise in ("05.2", "05.3", "05.4", "06.4")],
    ),
    "causal, top left": (
        {"causal_top_left"},
        [(exercise, "top left") for exercise in ("05.2", "05.3", "05.4", "06.4")],
    ),
    "tile skipped early": (
        {"tile_skipped"},
        [("06.4", "a tile skipped too early"), ("06.4", "a tile skipped a whole tile too early")],
    ),
    "tail counted": (
        {"tail_counted"},
        [("05.3", "tail counted"), ("06.2", "last tile padded with zeros, and counted"), ("06.3", "tail counted")]
        + [("06.4", "tail counted")],
    ),
    "tail dropped": (
        {"tail_dropped", "keys_missing"},
        [("05.3", "last tile dropped"), ("06.2", "last tile dropped"), ("06.3", "tail dropped after the first tile")],
    ),
    "0 * NaN from v": (
        {"uninitialised_read", "nan_from_the_tail"},
        [("06.3", "tail of V not zeroed: 0 * NaN"), ("06.4", "0 * NaN from V beyond the end")],
    ),
    "scale missing": (
        {"scale_missing"},
        [(exercise, "scale missing") for exercise in ("05.1", "05.2", "05.3", "06.2", "06.3", "06.4")],
    ),
    "scale twice": (
        {"scale_twice"},
        [(exercise, "scale twice") for exercise in ("05.1", "05.2", "05.3", "06.2", "06.3", "06.4")],
    ),
    "scale from the tile": (
        {"scale_wrong"},
        [(exercise, "scale from the tile") for exercise in ("05.3", "06.2", "06.3", "06.4")]
        + [("05.1", "scale from the number of keys"), ("05.2", "scale from the warp")],
    ),
    "no final division": (
        {"no_division"},
        [(exercise, "no division") for exercise in ("05.1", "05.2", "05.3", "06.1", "06.4")]
        + [("06.2", "never divided"), ("06.3", "final division missing")],
    ),
    "half accumulators": (
        {"low_precision"},
        [("05.1", "half accumulator")]
        + [(exercise, "out kept in half between tiles") for exercise in ("06.2", "06.3")],
    ),
    "heads by modulo": (
        {"head_modulo", "gqa_modulo"},
        [("05.4", "modulo"), ("06.3", "heads by modulo"), ("06.4", "heads by modulo")],
    ),
    "batch stride": (
        {"batch_stride"},
        [("05.1", "batch stride of one head"), ("05.4", "batch stride of one head"), ("06.3", "batch forgotten")]
        + [("06.4", "batch stride of one head")],
    ),
    "lse in base 2": (
        {"lse_base_2"},
        [(exercise, "lse in base 2") for exercise in ("05.2", "05.3", "06.2", "06.3", "06.4")],
    ),
    "lse without the maximum": (
        {"lse_without_max"},
        [(exercise, "lse without the maximum") for exercise in ("05.2", "05.3", "06.2", "06.3")],
    ),
    "masked row not 0 or -inf": (
        {"masked_row"},
        [("05.2", "-1e9 as a mask"), ("05.2", "0 / 0"), ("05.2", "lse 0 for an empty row"), ("05.3", "0 / 0")]
        + [("05.4", "at least one key"), ("06.1", "0 / 0"), ("06.1", "-inf minus -inf"), ("06.4", "0 / 0")]
        + [("06.4", "-1e9 for masked scores"), ("06.4", "lse 0 for an empty row")],
    ),
    "zeros, a mean, a copy, the library": (
        {"all_zeros", "ignores_scores", "copy_of_input", "forbidden_call"},
        [("05.1", "plain mean"), ("06.2", "mean of v"), ("06.2", "copy of q"), ("06.2", "the library")]
        + [("06.3", "zeros"), ("06.3", "plain mean"), ("06.3", "copy of q")],
    ),
}


@pytest.mark.parametrize("mistake", FORWARD)
def test_the_mistake_has_wrong_answers_that_are_named_after_it(mistake):
    codes, answers = FORWARD[mistake]
    for exercise, name in answers:
        found = {answer.name: answer for answer in submissions.load("wrong", exercise)}
        assert name in found, f"{exercise} has no wrong answer {name!r}; it has {', '.join(found)}"
        assert found[name].diagnosis in codes, f"{exercise}, {name!r}: {found[name].diagnosis} is not {mistake!r}"


def test_a_tile_skipped_late_is_right_and_remarked():
    late = {answer.name: answer for answer in submissions.load("right", "06.4")}
    assert late["no tile skipped"].remark and "a tile skipped late" in late
