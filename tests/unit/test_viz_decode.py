"""Pictures of chapter 09: SMs that have work, the keys of each split, a group as columns."""

import pytest

from course_lib import viz
from course_lib.viz.decode import blocks_by_sm


@pytest.mark.parametrize("num_blocks", [0, 1, 32, 132, 133, 300])
def test_blocks_are_handed_out_evenly(num_blocks):
    counts = blocks_by_sm(num_blocks, 132)
    assert sum(counts) == num_blocks and len(counts) == 132 and max(counts) - min(counts) <= 1


def test_every_key_belongs_to_one_split_and_the_last_ones_may_be_empty():
    assert viz.keys_of_splits([11, 6, 0, 12, 1], 4, 3) == [[4, 4, 3], [4, 2, 0], [0, 0, 0], [4, 4, 4], [1, 0, 0]]


def test_alternative_text_holds_the_counts():
    card = viz.card_picture({"no split": 32, "in four": 128, "in eight": 256}).alt_text
    assert "no split: 32 blocks, 32 SMs have work" in card and "256 blocks, 132 SMs" in card
    assert "sequence 1 of 6 keys: 4, 2, 0" in viz.splits_picture([11, 6, 0], 4, 3).alt_text
    group = viz.group_picture(4).alt_text
    assert "4 times in all" in group and "the other 4 are zeros" in group
