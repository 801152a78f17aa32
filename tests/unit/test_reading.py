"""How long a lecture is: the rule, the line that says it, the tables."""

import re
from types import SimpleNamespace

import pytest

from course_lib.book import reading
from course_lib.book.chapters import Cell, read_chapter
from course_lib.book.outline import chapter_files
from course_lib.book.pages import overview

MAX_WORDS, MAX_MINUTES = 3500, 60  # of a lecture
MARKDOWN = """\
# 42 Add

Two words, `a < b` and [a link](../README.md) <b>here</b> — 5 > 4.

| a | b |
|---|---|

```c++
int a;

int b;
```
"""
FOUR = [SimpleNamespace(minutes=minutes) for minutes in (20, 20, 20, 30)]


def test_words_are_those_of_the_text_and_lines_those_of_the_code():
    cells = [Cell("markdown", MARKDOWN, "lecture"), Cell("code", "x = 1\n\ny = 2", "lecture")]
    extent = reading.extent(cells)
    # 42 Add / Two words, a b and a link here 5 4 / a b
    assert (extent.words, extent.code_lines) == (2 + 10 + 2, 4)


@pytest.mark.parametrize("words, lines, minutes", [(0, 0, 5), (2000, 0, 10), (2000, 60, 20), (2600, 0, 15)])
def test_minutes_by_the_rule_rounded_to_five(words, lines, minutes):
    assert reading.Extent(words, lines).minutes == minutes


@pytest.mark.parametrize(
    "tasks, named, words",
    [
        ([], [], "."),
        (FOUR, [], ", 90 minutes for the 4 exercises."),
        (FOUR[:1], [], ", 20 minutes for the exercise."),
        (
            FOUR,
            ["42.1", "42.2", "42.3", "42.4"],
            ", 90 minutes for exercises 42.1 to 42.4, which build on this lecture.",
        ),
        (
            FOUR[:3],
            ["42.1", "42.2", "42.6"],
            ", 60 minutes for exercises 42.1, 42.2 and 42.6, which build on this lecture.",
        ),
        (FOUR[:1], ["42.6"], ", 20 minutes for exercise 42.6, which builds on this lecture."),
        (FOUR * 2, [], ", 3 hours for the 8 exercises."),
    ],
)
def test_the_line_names_the_exercises_of_the_lecture(tasks, named, words):
    assert reading.sentence(45, tasks, named) == f"**Time** about 45 minutes here{words}"


def test_the_line_is_filled_in_and_its_other_words_stay(tiny_course):
    path = tiny_course / "chapters/42_add.md"
    path.write_text(path.read_text().replace("Read this first.", "@time Read this first."))
    (lecture,) = read_chapter(path, tiny_course).lectures
    assert "\n**Time** about 5 minutes here. Read this first." in lecture.cells[0].source


def test_a_lecture_on_which_no_exercise_builds_says_its_own_minutes(tiny_course):
    path = tiny_course / "chapters/42_add.md"
    path.write_text(path.read_text().replace("Read this first.", "@time none"))
    (lecture,) = read_chapter(path, tiny_course).lectures
    assert "\n**Time** about 5 minutes here." in lecture.cells[0].source


@pytest.mark.parametrize("path", chapter_files(), ids=lambda path: path.stem)
def test_no_lecture_is_longer_than_an_hour(path):
    for lecture in read_chapter(path).lectures:
        extent = reading.extent(lecture.cells)
        assert extent.words <= MAX_WORDS and extent.exact_minutes <= MAX_MINUTES, (
            f"{lecture.stem}: {extent.words:,} words and {extent.code_lines} lines of code are "
            f"{extent.exact_minutes:.0f} minutes; at most {MAX_WORDS:,} words and {MAX_MINUTES} minutes: divide it"
        )


@pytest.mark.parametrize("path", chapter_files(), ids=lambda path: path.stem)
def test_minutes_are_in_no_chapter_by_hand_and_every_exercise_belongs_to_a_lecture(path):
    text = path.read_text(encoding="utf-8").partition('+++ {"part": "exercises"}')[0]
    chapter = read_chapter(path)
    lines = re.findall(r"^@time\b(.*)$", text, re.MULTILINE)
    assert "**Time**" not in text and len(lines) == len(chapter.lectures)
    if len(lines) > 1:
        named = re.findall(r"\d\d\.\d+", " ".join(lines))
        assert sorted(named) == sorted(cell.exercise for cell in chapter.exercises if cell.exercise)


def test_the_tables_add_up(tiny_course):
    row = "| [42 Add two numbers](../notebooks/42_add.ipynb) | 7 | 5 | 5 | 0 |"
    assert row in overview.reading_table(tiny_course)
    last = overview.chapters_table(tiny_course).splitlines()[-1]
    assert last.startswith(
        "|  | written so far: about 0 hours of lectures and 0 of exercises | [each](docs/chapters.md#"
    )
