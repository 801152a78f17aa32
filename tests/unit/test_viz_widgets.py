"""Widgets follow their input and refuse bad input; what they save is a player that needs no kernel."""

import pytest

from course_lib import viz
from course_lib.viz.memory import Access

pytest.importorskip("ipywidgets", reason="ipywidgets belongs to the notebook environment")

from course_lib.viz.widgets import PATTERNS, Explorer, Stepper  # noqa: E402


def sentences(stepper):
    (frames,) = stepper.player.tracks.values()
    return [frame.sentence for frame in frames]


def test_the_stepper_shows_a_player_over_the_tiles():
    stepper = Stepper([1, 3, 2, 0, 5, 4, 1, 2], 2)
    assert len(sentences(stepper)) == 4 and "alpha = 0.1353" in sentences(stepper)[2]
    (shown,) = stepper.output.outputs
    assert shown["data"]["text/html"] == stepper.player.html()


def test_new_numbers_and_a_new_width_start_again():
    stepper = Stepper([1, 2], 1)
    before = stepper.output.outputs
    stepper.numbers.value = "5, -inf 1, 0"
    assert stepper.output.outputs != before
    assert len(sentences(stepper)) == 4 and "m −∞ -> 5" in sentences(stepper)[0]
    stepper.width.value = 4
    assert len(sentences(stepper)) == 1 and "tile [0:4]" in sentences(stepper)[0]


@pytest.mark.parametrize("text", ["", "1, two"])
def test_bad_input_gives_a_sentence_and_keeps_the_picture(text):
    stepper = Stepper([1, 2], 1)
    before = stepper.output.outputs
    stepper.numbers.value = text
    assert "Write numbers" in stepper.words.value and stepper.output.outputs == before
    stepper.numbers.value = "3"
    assert not stepper.words.value and stepper.output.outputs != before


def test_saved_output_holds_the_whole_walk():
    data, _ = Stepper([1, 3, 2, 0], 2).box._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"].count("tile [") == 2 and 'class="course-player"' in data["text/html"]


def recorded(words):
    return Access("global", tuple(words), len({4 * word // 32 for word in words}))


def test_the_explorer_records_each_access_once(monkeypatch):
    monkeypatch.setattr("course_lib.viz.widgets.SAVED_NUMBERS", (3, 8))
    asked = []

    def record(words):
        asked.append(words)
        return recorded(words)

    explorer = Explorer(record, "stride", 3)
    first = explorer.picture.value
    assert "12 sectors" in explorer.words.value and 'alt="' in first
    explorer.number.value = 8
    assert "32 sectors" in explorer.words.value and explorer.picture.value != first
    explorer.number.value = 3
    assert explorer.picture.value == first and len(asked) == 2
    for pattern in PATTERNS:
        explorer.pattern.value = pattern
        assert len(asked[-1]) == 32
    data, _ = explorer.box._repr_mimebundle_()
    assert 'aria-label="stride"' in data["text/html"] and "12 sectors" in data["text/plain"]


def test_groups_of_no_lane_are_groups_of_one(monkeypatch):
    monkeypatch.setattr("course_lib.viz.widgets.SAVED_NUMBERS", ())
    explorer = Explorer(recorded, "groups of lanes share a word", 0)
    assert "x[lane / 1]" in explorer.picture.value


def test_an_unknown_order_of_the_loops_is_refused():
    with pytest.raises(ValueError, match="loop_order='q'"):
        viz.tile_loops(loop_order="q")
