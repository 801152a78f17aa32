"""The line of links of every notebook: neighbours from the plan and the chapters, planned ones marked so."""

import re

import pytest

from course_lib.book import navigation
from course_lib.book.chapters import read_chapter
from course_lib.book.notebooks import build
from course_lib.book.outline import ROOT, chapter_files

FRONT = " · [Front page](../README.md)"
EXERCISES, SOLUTIONS = "[Exercises](../exercises/42_exercises.ipynb)", "[Solutions](../solutions/42_solutions.ipynb)"


@pytest.fixture
def lines(tiny_course, split):
    """A function: the plan's text -> name of each notebook of chapter 42, divided in two, and its line."""
    (tiny_course / "chapters/41_before.md").write_text("---\n---\n\n# 41 What comes before\n")

    def lines(plan):
        (tiny_course / "chapters/plan.csv").write_text("number,title\n" + plan)
        return read_chapter(split(), tiny_course).navigation

    return lines


def test_a_lecture_leads_to_its_neighbours_and_its_exercises(lines):
    links = lines("41,Before\n42,Adding\n43,After\n")
    before = "Previous: [41 Before](../notebooks/41_before.ipynb)"
    first = "[42a Add two numbers](../notebooks/42a_two.ipynb)"
    second = "[42b Add more numbers](../notebooks/42b_more.ipynb)"
    assert links["notebooks/42a_two.ipynb"] == f"{before} · Next: {second} · {EXERCISES}{FRONT}"
    after = "Next: 43 After (planned)"
    assert links["notebooks/42b_more.ipynb"] == f"Previous: {first} · {EXERCISES} · {after}{FRONT}"
    around = "Previous lecture: [41 Before](../notebooks/41_before.ipynb)", "Next lecture: 43 After (planned)"
    middle = f"{around[0]} · Lectures: {first}, {second} · {around[1]}"
    assert links["exercises/42_exercises.ipynb"] == f"{middle} · {SOLUTIONS}{FRONT}"
    assert links["solutions/42_solutions.ipynb"] == f"{middle} · {EXERCISES}{FRONT}"


def test_the_first_and_the_last_lecture_have_one_neighbour(lines):
    links = lines("42,Adding\n")
    assert links["notebooks/42a_two.ipynb"].startswith("Previous: [41 What comes before](../notebooks/41_before.ipynb)")
    assert "Next" not in links["notebooks/42b_more.ipynb"] + links["exercises/42_exercises.ipynb"]


def test_a_chapter_without_exercises_has_no_link_to_them():
    stops = [navigation.Stop("42", "42 Adding", "42_add")]
    assert navigation.lines("42", False, stops) == {"notebooks/42_add.ipynb": "[Front page](../README.md)"}


def test_the_line_is_the_first_and_the_last_cell(tiny_course):
    chapter = read_chapter(tiny_course / "chapters/42_add.md", tiny_course)
    for name, notebook in build(chapter).files().items():
        first, last = notebook.cells[0], notebook.cells[-1]
        assert first.source == last.source == chapter.navigation[name]
        assert first.metadata["tags"] == last.metadata["tags"] == ["navigation"] and first.id != last.id


@pytest.mark.parametrize("path", chapter_files(), ids=lambda path: path.stem)
def test_every_link_of_the_course_leads_to_a_notebook_that_its_chapters_give(path):
    stops = navigation.stops(ROOT)
    names = {f"../{name}" for stop in stops if stop.stem for name in navigation.lines(stop.number, True, stops)}
    for line in read_chapter(path).navigation.values():
        targets = re.findall(r"\]\(([^)]+)\)", line)
        assert set(targets[:-1]) <= names and targets[-1] == "../README.md"
        assert "(planned)" in line or len(targets) >= 3
