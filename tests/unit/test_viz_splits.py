"""Pictures of chapter 09: who has work, which split has which keys, a group as columns, launches beside a graph."""

import pytest

from course_lib import viz
from course_lib.viz.card import blocks_by_sm

MAX_PNG_BYTES = 60_000


@pytest.mark.parametrize("num_blocks", [0, 1, 32, 132, 133, 300])
def test_blocks_are_handed_out_evenly(num_blocks):
    counts = blocks_by_sm(num_blocks, 132)
    assert sum(counts) == num_blocks and len(counts) == 132 and max(counts) - min(counts) <= 1


def test_every_key_belongs_to_one_split_and_the_last_ones_may_be_empty():
    assert viz.keys_of_splits([11, 6, 0, 12, 1], 4, 3) == [[4, 4, 3], [4, 2, 0], [0, 0, 0], [4, 4, 4], [1, 0, 0]]


def test_a_graph_launches_once_and_its_kernels_wait_only_for_each_other():
    one_by_one = viz.launch_steps(5, 3.0, 2.0, graph=False)
    graph = viz.launch_steps(5, 3.0, 2.0, graph=True)
    assert one_by_one[-1][3] == 5 * 3 + 2 and graph[-1][3] == 3 + 5 * 2
    assert sum(lane == "host" for lane, *_ in one_by_one) == 5 and sum(lane == "host" for lane, *_ in graph) == 1
    long_kernels = viz.launch_steps(5, 1.0, 2.0, graph=False)
    assert long_kernels[-1][3] == 1 + 5 * 2  # the host is ahead: nothing is gained but the host's time


def test_pictures_say_in_words_what_they_show():
    card = viz.card_picture({"no split": 32, "in four": 128, "in eight": 256})
    assert "no split: 32 blocks, 32 SMs have work" in card.alt and "256 blocks, 132 SMs" in card.alt
    splits = viz.splits_picture([11, 6, 0], 4, 3)
    assert "sequence 1 of 6 keys: 4, 2, 0" in splits.alt
    group = viz.group_picture(4)
    assert "4 times in all" in group.alt and "the other 4 are zeros" in group.alt
    launches = viz.launch_picture(6, 1.6, 1.0)
    assert "a drawing and not a measurement" in launches.alt and "one launch of a graph: 7.6" in launches.alt
    assert all(1_000 < len(picture.png()) < MAX_PNG_BYTES for picture in (card, splits, group, launches))


def test_the_slider_over_splits_draws_each_number_and_says_it():
    from course_lib.viz.waves_widget import Waves

    widget = Waves(48, 132, most_splits=24, still=(1, 2, 3, 11))
    before = widget.picture.value
    widget.slider.value = 11
    assert widget.picture.value != before
    assert "11 splits: 528 blocks in 4 waves of at most 132, the last with 132" in widget.words.value
    assert "1 split: 48 blocks in 1 wave" in widget.words.value and "3 splits" in widget.box.still.alt
    assert len(widget.box.still.png()) < MAX_PNG_BYTES
