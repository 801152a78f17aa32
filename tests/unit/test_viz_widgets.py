"""The stepper follows its slider, its fields and bad input; its saved output is a picture."""

import pytest

pytest.importorskip("ipywidgets", reason="ipywidgets belongs to the notebook environment")

from course_lib.viz.widgets import Stepper  # noqa: E402


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
def test_bad_input_is_answered_in_words_and_keeps_the_picture(text):
    stepper = Stepper([1, 2], 1)
    before = stepper.picture.value
    stepper.numbers.value = text
    assert "Write numbers" in stepper.words.value and stepper.picture.value == before


def test_saved_output_holds_the_whole_walk():
    stepper = Stepper([1, 3, 2, 0], 2)
    data, metadata = stepper.box._repr_mimebundle_()
    assert "image/png" in data and "application/vnd.jupyter.widget-view+json" in data
    assert metadata["image/png"]["alt"].count("tile [") == 2
