"""Guess first: the builder folds what answers a prediction, and refuses what could not be unfolded."""

import pytest

from course_lib.book.chapters import chapter_from
from course_lib.book.guesses import fold_on_page
from course_lib.book.notebooks import build
from course_lib.errors import CourseError

HEADER = "---\njupytext:\n  formats: md:myst\n---\n\n# 42 Guess\n\n"
ASKED = '```{code-cell} ipython3\n:tags: [predict]\npredict("42.bytes", read=None)\n```\n\n'


def lecture(text):
    return build(chapter_from("42_guess", HEADER + text)).lectures["42_guess"].cells


def code(text, *options):
    return "\n".join(["```{code-cell} ipython3", *options, text, "```", "", ""])


def test_outputs_of_what_answers_a_prediction_are_collapsed():
    asked, answer, free = lecture(ASKED + code("1 + 1", ':after_guess: "42.bytes"') + code("2 + 2"))[1:]
    assert answer.metadata["collapsed"] is True and answer.metadata["jupyter"] == {"outputs_hidden": True}
    assert "collapsed" not in asked.metadata and "collapsed" not in free.metadata


def test_a_hidden_input_stays_hidden():
    answer = lecture(ASKED + code("1 + 1", ":tags: [hide-input]", ':after_guess: "42.bytes"'))[-1]
    assert answer.metadata["jupyter"] == {"source_hidden": True, "outputs_hidden": True}


def test_a_text_that_answers_a_prediction_is_folded_up_to_the_next_cell():
    folded, after = lecture(ASKED + '+++ {"after_guess": "42.bytes"}\n\nIt is 12.\n\n+++\n\nAnd now.\n')[-2:]
    assert folded.source.startswith('<details class="after-guess"><summary>')
    assert folded.source.endswith("</summary>\n\nIt is 12.\n\n</details>")
    assert after.source == "And now."


@pytest.mark.parametrize(
    "text, why",
    [
        (code("1", ':after_guess: "42.bytes"') + ASKED, 'no earlier cell of this lecture holds predict("42.bytes"'),
        (ASKED + code("1", ':after_guess: "42.bytes 42.time"'), 'predict("42.time"'),
        (ASKED + '+++ {"after_guess": "42.bytes"}\n\n## Measured\n\nIt is 12.\n', "heading '## Measured'"),
    ],
)
def test_what_an_author_gets_wrong_is_said(text, why):
    with pytest.raises(CourseError) as refused:
        lecture(text)
    assert why in str(refused.value)


def test_a_page_of_the_site_folds_the_same_outputs():
    asked, answer, free = lecture(ASKED + code("1 + 1", ':after_guess: "42.bytes"') + code("2 + 2"))[1:]
    assert fold_on_page(answer).metadata["tags"] == ["hide-output"]
    assert "guess first" in answer.metadata["mystnb"]["code_prompt_show"]
    assert "mystnb" not in fold_on_page(asked).metadata and "tags" not in fold_on_page(free).metadata
