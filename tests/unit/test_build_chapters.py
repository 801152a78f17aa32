"""Chapters to notebooks: parts, cells, identities, outputs."""

import base64

import nbformat
import pytest

from course_lib.book import notebooks
from course_lib.book.chapters import read_chapter
from course_lib.book.command import build_chapter
from course_lib.book.notebooks import build
from course_lib.errors import CourseError


@pytest.fixture
def built(tiny_course):
    return build(read_chapter(tiny_course / "chapters/42_add.md", tiny_course))


def edit(tiny_course, old, new):
    path = tiny_course / "chapters/42_add.md"
    assert path.read_text().count(old) >= 1
    path.write_text(path.read_text().replace(old, new))
    return path


def test_parts_go_to_their_notebooks(built):
    assert [folder for folder, _ in built.files()] == ["notebooks", "exercises", "solutions"]
    assert "# 42 Add two numbers" in built.lecture.cells[0].source
    assert not any("Exercise 42.1" in cell.source for cell in built.lecture.cells)
    prose = [cell.source for cell in built.exercises.cells if cell.cell_type == "markdown"]
    assert prose == ["## Exercise 42.1", "## Exercise 42.2"]


def test_a_part_that_begins_with_code_is_recognised(built):
    assert built.exercises.cells[0].cell_type == "code" and "load_ext" in built.exercises.cells[0].source


def test_include_in_a_fenced_block_of_markdown(built):
    text = "\n".join(cell.source for cell in built.lecture.cells)
    assert "out[idx] = a[idx] + b[idx];" in text and "@include" not in text


def test_starter_and_solution_differ_in_the_answers_only(built):
    pairs = list(zip(built.exercises.cells, built.solutions.cells, strict=True))
    different = [starter.metadata.get("exercise") for starter, solved in pairs if starter.source != solved.source]
    assert different == ["42.1", "42.2"]
    assert [starter.id for starter, _ in pairs] == [solved.id for _, solved in pairs]


def test_notebooks_are_valid_and_ids_do_not_move(tiny_course, built):
    for _, notebook in built.files():
        nbformat.validate(notebook)
    path = edit(tiny_course, "Read this first.", "Read this.\n\n```{code-cell} ipython3\nnew = 1\n```\n")
    again = build(read_chapter(path, tiny_course))
    assert [cell.id for cell in again.lecture.cells][-2:] == [cell.id for cell in built.lecture.cells][-2:]
    assert "c42-answer-42-2" in [cell.id for cell in again.exercises.cells]


def test_tags_survive(built):
    assert built.lecture.cells[-1].metadata["tags"] == ["nbval-check-output"]


@pytest.mark.parametrize(
    "old, new, why",
    [
        ('{"part": "exercises"}', '{"part": "exercise"}', "unknown part 'exercise'"),
        (':exercise: "42.1"\n', "", "exercise cell without its id"),
        ("# 42 Add two numbers", "no title", "has no title"),
        ("---\njupytext", "jupytext", "YAML header"),
        ("answers.py#add", "answers.py#ad", "42_add.md.*no region and no function 'ad'"),
    ],
)
def test_what_an_author_gets_wrong_is_said(tiny_course, old, new, why):
    path = edit(tiny_course, old, new)
    with pytest.raises(CourseError, match=why):
        build(read_chapter(path, tiny_course))


def test_a_part_marker_inside_a_fence_is_text(tiny_course, built):
    path = edit(tiny_course, "Read this first.", '```text\n+++ {"part": "exercises"}\n```')
    assert len(build(read_chapter(path, tiny_course)).lecture.cells) == len(built.lecture.cells)


def test_chapter_without_exercises_gives_a_lecture_only(tiny_course):
    path = tiny_course / "chapters/42_add.md"
    path.write_text(path.read_text().partition("+++")[0])
    assert [folder for folder, _ in build(read_chapter(path, tiny_course)).files()] == ["notebooks"]


def test_execution_keeps_outputs_and_building_twice_changes_nothing(tiny_course):
    path = tiny_course / "chapters/42_add.md"
    assert len(build_chapter(path, root=tiny_course, say=lambda _: None)) == 3
    lecture = nbformat.read(tiny_course / "notebooks/42_add.ipynb", as_version=4)
    assert lecture.cells[-1].outputs[0].text == "2\n"
    assert "execution" not in lecture.cells[-1].metadata
    assert build_chapter(path, root=tiny_course, say=lambda _: None) == []


def test_a_lecture_that_raises_is_not_written(tiny_course):
    path = edit(tiny_course, "print(1 + 1)", "print(1 / 0)")
    with pytest.raises(CourseError, match="ZeroDivisionError"):
        build_chapter(path, root=tiny_course, say=lambda _: None)
    assert not (tiny_course / "notebooks/42_add.ipynb").exists()


def test_a_large_picture_is_refused(built):
    noise = base64.b64encode(bytes(notebooks.MAX_PNG_BYTES + 1)).decode()
    built.lecture.cells[-1].outputs = [nbformat.v4.new_output("display_data", {"image/png": noise})]
    with pytest.raises(CourseError, match="a picture of 120,001 bytes"):
        notebooks.check_outputs(built.lecture, "42_add.ipynb")


def test_a_picture_needs_alt_text(built):
    picture = {"image/png": base64.b64encode(b"png").decode()}
    built.lecture.cells[-1].outputs = [nbformat.v4.new_output("display_data", picture)]
    with pytest.raises(CourseError, match="without alt text"):
        notebooks.check_outputs(built.lecture, "42_add.ipynb")
    built.lecture.cells[-1].outputs[0].metadata["image/png"] = {"alt": "two bars"}
    notebooks.check_outputs(built.lecture, "42_add.ipynb")


def test_hidden_input_is_hidden_in_jupyterlab(tiny_course):
    path = edit(tiny_course, "[nbval-check-output]", "[hide-input]")
    assert build(read_chapter(path, tiny_course)).lecture.cells[-1].metadata["jupyter"] == {"source_hidden": True}


def test_a_widget_becomes_a_sentence():
    data = {"text/plain": "IntSlider(value=0)", "application/vnd.jupyter.widget-view+json": {"model_id": "x"}}
    output = notebooks._static(nbformat.v4.new_output("display_data", data))
    assert output.data == {"text/plain": "Interactive: run this cell to use it."}


def test_building_writes_nothing_into_the_learners_books(tiny_course, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path / "books"))
    path = edit(tiny_course, "print(1 + 1)", 'from course_lib import predict\npredict("42.1", total=2)')
    build_chapter(path, root=tiny_course, say=lambda _: None)
    assert not (tmp_path / "books").exists()
