"""Widgets follow their controls and bad input, draw each frame once, and save a still picture."""

import pytest

from course_lib import viz
from course_lib.viz.memory import Access

pytest.importorskip("ipywidgets", reason="ipywidgets belongs to the notebook environment")

from course_lib.viz.widgets import PATTERNS, Explorer, LoopOrders, Stepper, Waves  # noqa: E402

MAX_PNG_BYTES = 60_000


def test_slider_shows_each_step_once_drawn():
    stepper = Stepper([1, 3, 2, 0, 5, 4, 1, 2], 2)
    assert stepper.slider.max == stepper.play.max == 4
    first = stepper.picture.value
    stepper.slider.value = 3
    assert stepper.picture.value != first and "alpha = 0.1353" in stepper.words.value
    stepper.slider.value = 1
    assert stepper.picture.value == first
    assert sorted(stepper.frames) == [0, 2]


def test_new_numbers_and_a_new_width_start_again():
    stepper = Stepper([1, 2], 1)
    stepper.slider.value = 2
    stepper.numbers.value = "5, -inf 1, 0"
    assert stepper.slider.value == 1 and stepper.slider.max == 4 and "m −∞ -> 5" in stepper.words.value
    stepper.width.value = 4
    assert stepper.slider.max == 1 and "tile [0:4]" in stepper.words.value


@pytest.mark.parametrize("text", ["", "1, two"])
def test_bad_input_gives_a_sentence_and_keeps_the_picture(text):
    stepper = Stepper([1, 2], 1)
    before = stepper.picture.value
    stepper.numbers.value = text
    assert "Write numbers" in stepper.words.value and stepper.picture.value == before


def test_saved_output_holds_the_whole_walk():
    stepper = Stepper([1, 3, 2, 0], 2)
    data, metadata = stepper.box._repr_mimebundle_()
    assert "image/png" in data and "application/vnd.jupyter.widget-view+json" in data
    assert metadata["image/png"]["alt"].count("tile [") == 2


def test_both_orders_play_side_by_side():
    pair = tuple(viz.loop_steps(4, 6, 2, 2, 2, q_outside=outside) for outside in (False, True))
    widget = LoopOrders(*pair)
    before = widget.picture.value
    widget.slider.value = 3
    assert widget.picture.value != before
    assert "K and V outside: K/V tile 2 of 3" in widget.words.value and "Q outside: Q tile 1 of 2" in widget.words.value
    assert "Two orders" in widget.box.still.alt_text and len(widget.box.still.png()) < MAX_PNG_BYTES
    with pytest.raises(ValueError, match="loop_order='q'"):
        viz.tile_loops(loop_order="q")


def test_the_slider_over_splits_draws_each_number_with_its_sentence():
    widget = Waves(48, 132, most_splits=24, still=(1, 2, 3, 11))
    before = widget.picture.value
    widget.slider.value = 11
    assert widget.picture.value != before
    assert "11 splits: 528 blocks in 4 waves of at most 132, the last with 132" in widget.words.value
    assert "1 split: 48 blocks in 1 wave" in widget.words.value and "3 splits" in widget.box.still.alt_text
    assert len(widget.box.still.png()) < MAX_PNG_BYTES


def recorded(words):
    return Access("global", tuple(words), len({4 * word // 32 for word in words}))


def test_the_explorer_records_each_access_once():
    asked = []

    def record(words):
        asked.append(words)
        return recorded(words)

    explorer = Explorer(record, "stride", 3)
    first = explorer.picture.value
    assert "12 sectors" in explorer.words.value and explorer.box.still.alt_text
    explorer.number.value = 8
    assert "32 sectors" in explorer.words.value and explorer.picture.value != first
    explorer.number.value = 3
    assert explorer.picture.value == first and len(asked) == 2
    for pattern in PATTERNS:
        explorer.pattern.value = pattern
        assert len(asked[-1]) == 32
    data, metadata = explorer.box._repr_mimebundle_()
    assert "image/png" in data and "12 sectors" in metadata["image/png"]["alt"]


def test_groups_of_no_lane_are_groups_of_one():
    explorer = Explorer(recorded, "groups of lanes share a word", 0)
    assert "x[lane / 1]" in explorer.alt_text
