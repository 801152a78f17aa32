"""The walk of an online softmax over a row, and its pictures."""

import math

import pytest

from course_lib import viz

ROW = [1, 3, 2, 0, 5, 4, 1, 2]


@pytest.mark.parametrize("block_n", [1, 2, 3, 8, 100])
def test_walk_ends_at_the_softmax_state_for_every_tile_width(block_n):
    steps = viz.walk(ROW, block_n)
    assert steps[-1].stop == len(ROW) and steps[-1].m == 5
    assert math.isclose(steps[-1].l, sum(math.exp(x - 5) for x in ROW))
    for step in steps:
        assert math.isclose(sum(step.terms), step.l)
        assert math.isclose(step.l, step.alpha * step.l_old + step.added)
        for before, after in zip(step.before, step.terms, strict=False):
            assert math.isclose(after, before * step.alpha)


def test_walk_over_masked_scores_has_no_nan():
    steps = viz.walk([-math.inf, -math.inf, 2, -math.inf], 2)
    assert [(step.m, step.l) for step in steps] == [(-math.inf, 0.0), (2.0, 1.0)]
    assert steps[1].terms == (0.0, 0.0, 1.0, 0.0)


@pytest.mark.parametrize(("row", "block_n"), [([], 2), ([1.0], 0)])
def test_walk_refuses_an_empty_row_and_an_empty_tile(row, block_n):
    with pytest.raises(ValueError, match="walk needs"):
        viz.walk(row, block_n)


def test_alternative_text_holds_the_arithmetic():
    alt_text = viz.step_picture(viz.walk(ROW, 2), 2).alt_text
    assert "alpha = 0.1353, l = 0.1353 * 1.5530 + 1.3679 = 1.5781" in alt_text


def test_pictures_of_rows_with_masked_and_negative_scores():
    steps = viz.walk([-math.inf, -100.0, -99.5, 0.25, -math.inf], 2)
    assert all(len(viz.step_picture(steps, number).png()) > 1_000 for number in range(len(steps)))
    assert len(viz.walk_picture(viz.walk([-math.inf], 1)).png()) > 1_000
