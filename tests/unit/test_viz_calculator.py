"""The cost calculator follows its fields, says what does not fit, and saves a player that needs no kernel."""

import pytest

pytest.importorskip("ipywidgets", reason="ipywidgets belongs to the notebook environment")

from course_lib import viz  # noqa: E402
from course_lib.viz import calculator  # noqa: E402


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(calculator, "SAVED_USERS", (1, 8))
    return calculator.Calculator("Llama 3.1 8B", "H200", 8, 8000, 3.0)


def test_the_words_are_those_of_the_plan(small):
    assert small.words.value.startswith("1 card gives 8 users a token every")
    assert "Longest in a step: weights." in small.words.value
    assert 'alt="' in small.picture.value and "keys and values" in small.picture.value


def test_a_field_changes_the_numbers(small):
    before = small.words.value
    small.price.value = 6.0
    assert small.words.value != before
    small.users.value, small.context.value = 100_000, 30_000
    assert "cards, " in small.words.value and "Longest in a step: keys and values." in small.words.value


def test_what_does_not_fit_is_a_sentence(small):
    small.model.value = "DeepSeek-V3"
    small.card.value = "L4"
    assert "eight L4 have 173 GB to use" in small.words.value and not small.picture.value
    small.model.value = "Llama 3.1 8B"
    assert "token every" in small.words.value


def test_the_saved_output_is_a_player(small):
    data, _ = small.box._repr_mimebundle_()
    assert 'aria-label="users"' in data["text/html"] and "keys and values" in data["text/plain"]
    (frames,) = small.box.player.tracks.values()
    assert [frame.stop for frame in frames] == ["1 users", "8 users"] and "8 users a token" in frames[1].sentence


def test_the_name_is_that_of_viz(monkeypatch):
    monkeypatch.setattr(calculator, "SAVED_USERS", ())
    assert viz.cost_calculator("Qwen3 30B-A3B", "H100").player is not None
