"""Text as its tokens come: characters of several tokens, stop strings across tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.model import load_tokenizer
from course_lib.model.shipped import folder
from course_lib.serving.text import TextOutput


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(folder("small"))


def pieces(tokenizer, tokens, stop=()):
    """(pieces given out token by token, the TextOutput)."""
    output = TextOutput(tokenizer, stop)
    return [output.add([token]) for token in tokens] + [output.finish()], output


def test_a_character_of_four_tokens_comes_when_its_last_one_is_there(tokenizer):
    tokens = tokenizer.encode("a🚀b").ids
    given_out, _ = pieces(tokenizer, tokens)
    assert len(tokens) == 6 and given_out == ["a", "", "", "", "🚀", "b", ""]


def test_a_character_without_its_last_token_is_shown_as_missing_at_the_end_only(tokenizer):
    given_out, _ = pieces(tokenizer, tokenizer.encode("a🚀").ids[:-1])
    assert given_out == ["a", "", "", "", "\ufffd"]


@settings(max_examples=50, deadline=None)
@given(tokens=st.lists(st.integers(0, 4095) | st.integers(1, 256), max_size=24))
def test_all_pieces_are_the_decoded_text(tokenizer, tokens):
    given_out, _ = pieces(tokenizer, tokens)
    assert "".join(given_out) == tokenizer.decode(tokens)


def test_the_beginning_of_a_stop_string_is_held_back_and_given_out_when_it_was_none(tokenizer):
    tokens = [tokenizer.encode(letter).ids[0] for letter in "xENxEND!"]
    given_out, output = pieces(tokenizer, tokens, ["END"])
    assert given_out == ["x", "", "", "ENx", "", "", "", "", ""] and output.stopped == "END"


def test_what_was_held_back_comes_at_the_end(tokenizer):
    given_out, output = pieces(tokenizer, tokenizer.encode("to be EN").ids, ["END"])
    assert "".join(given_out) == "to be EN" and output.stopped is None


@settings(max_examples=80, deadline=None)
@given(
    text=st.text("abc🚀", max_size=12),
    stop=st.lists(st.text("abc🚀", min_size=1, max_size=4), max_size=3),
    borders=st.sets(st.integers(1, 40)),
)
def test_the_text_does_not_depend_on_how_the_tokens_come(tokenizer, text, stop, borders):
    tokens = [token for letter in text for token in tokenizer.encode(letter).ids]
    output, parts = TextOutput(tokenizer, stop), ["".join(pieces(tokenizer, tokens, stop)[0])]
    cuts = [0, *sorted(border for border in borders if border < len(tokens)), len(tokens)]
    together = "".join(output.add(tokens[a:b]) for a, b in zip(cuts, cuts[1:], strict=False)) + output.finish()
    ends = [text[:end] for end in range(1, len(text) + 1) if text[:end].endswith(tuple(stop))] if stop else []
    expected = text
    if ends:  # the first stop string that is complete, the longest of those that end there
        expected = ends[0][: -max(len(each) for each in stop if ends[0].endswith(each))]
    assert together == parts[0] == expected
