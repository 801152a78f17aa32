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


def lecture(built):
    """The notebook of the only lecture."""
    (notebook,) = built.lectures.values()
    return notebook


def texts(notebook):
    """The cells between the two lines of links."""
    return notebook.cells[1:-1]


def edit(tiny_course, old, new):
    path = tiny_course / "chapters/42_add.md"
    assert path.read_text().count(old) >= 1
    path.write_text(path.read_text().replace(old, new))
    return path


def test_parts_go_to_their_notebooks(built):
    names = ["notebooks/42_add.ipynb", "exercises/42_exercises.ipynb", "solutions/42_solutions.ipynb"]
    assert list(built.files()) == names
    assert "# 42 Add two numbers" in texts(lecture(built))[0].source
    assert not any("Exercise 42.1" in cell.source for cell in lecture(built).cells)
    prose = [cell.source for cell in texts(built.exercises) if cell.cell_type == "markdown"]
    assert prose == ["## Exercise 42.1", "## Exercise 42.2"]


def test_a_part_that_begins_with_code_is_recognised(built):
    first = texts(built.exercises)[0]
    assert first.cell_type == "code" and "load_ext" in first.source


def test_include_in_a_fenced_block_of_markdown(built):
    text = "\n".join(cell.source for cell in lecture(built).cells)
    assert "out[idx] = a[idx] + b[idx];" in text and "@include" not in text


def test_starter_and_solution_differ_in_the_answers_only(built):
    pairs = list(zip(texts(built.exercises), texts(built.solutions), strict=True))
    different = [starter.metadata.get("exercise") for starter, solved in pairs if starter.source != solved.source]
    assert different == ["42.1", "42.2"]
    assert [starter.id for starter, _ in pairs] == [solved.id for _, solved in pairs]


def test_notebooks_are_valid_and_ids_do_not_move(tiny_course, built):
    for notebook in built.files().values():
        nbformat.validate(notebook)
    path = edit(tiny_course, "Read this first.", "Read this.\n\n```{code-cell} ipython3\nnew = 1\n```\n")
    again = build(read_chapter(path, tiny_course))
    assert [cell.id for cell in lecture(again).cells][-2:] == [cell.id for cell in lecture(built).cells][-2:]
    assert "c42-answer-42-2" in [cell.id for cell in again.exercises.cells]


def test_tags_survive(built):
    assert texts(lecture(built))[-1].metadata["tags"] == ["nbval-check-output"]


@pytest.mark.parametrize(
    "old, new, why",
    [
        ('{"part": "exercises"}', '{"part": "exercise"}', "unknown part 'exercise'"),
        (':exercise: "42.1"\n', "", "exercise cell without its id"),
        ("# 42 Add two numbers", "no title", "42_add is missing; expected a first heading '# 42 …'"),
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
    assert len(lecture(build(read_chapter(path, tiny_course))).cells) == len(lecture(built).cells)


def test_chapter_without_exercises_gives_a_lecture_only(tiny_course):
    path = tiny_course / "chapters/42_add.md"
    path.write_text(path.read_text().partition("+++")[0])
    assert list(build(read_chapter(path, tiny_course)).files()) == ["notebooks/42_add.ipynb"]


def test_execution_keeps_outputs_and_building_twice_changes_nothing(tiny_course):
    path = tiny_course / "chapters/42_add.md"
    assert len(build_chapter(path, root=tiny_course, say=lambda _: None)) == 3
    last = texts(nbformat.read(tiny_course / "notebooks/42_add.ipynb", as_version=4))[-1]
    assert last.outputs[0].text == "2\n" and "execution" not in last.metadata
    assert build_chapter(path, root=tiny_course, say=lambda _: None) == []


def test_a_lecture_that_raises_is_not_written(tiny_course):
    path = edit(tiny_course, "print(1 + 1)", "print(1 / 0)")
    with pytest.raises(CourseError, match="ZeroDivisionError"):
        build_chapter(path, root=tiny_course, say=lambda _: None)
    assert not (tiny_course / "notebooks/42_add.ipynb").exists()


def shown(built, html):
    """The lecture with one output of this HTML."""
    lecture(built).cells[-1].outputs = [nbformat.v4.new_output("display_data", {"text/html": html})]
    return lecture(built)


def test_a_large_picture_is_refused(built):
    noise = base64.b64encode(bytes(notebooks.MAX_PNG_BYTES + 1)).decode()
    with pytest.raises(CourseError, match="a picture of 120,001 bytes"):
        notebooks.check_outputs(shown(built, f'<img alt="noise" src="data:image/png;base64,{noise}">'), "42_add.ipynb")


def test_a_picture_needs_alt_text(built):
    picture = base64.b64encode(b"png").decode()
    bare = [nbformat.v4.new_output("display_data", {"image/png": picture})]  # no front end shows its metadata
    bare[0].metadata["image/png"] = {"alt": "two bars"}
    lecture(built).cells[-1].outputs = bare
    with pytest.raises(CourseError, match="without alt text"):
        notebooks.check_outputs(lecture(built), "42_add.ipynb")
    for alt in ("", ' alt=""'):
        with pytest.raises(CourseError, match="without alt text"):
            html = f'<img{alt} src="data:image/png;base64,{picture}">'
            notebooks.check_outputs(shown(built, html), "42_add.ipynb")
    html = f'<img alt="two bars, 1 &gt; 0" src="data:image/png;base64,{picture}">'
    notebooks.check_outputs(shown(built, html), "42_add.ipynb")
    assert notebooks.pictures({"text/html": html}) == [(b"png", "two bars, 1 > 0")]


def test_a_large_player_is_refused(built):
    html = f'<div data-frames="{"A" * notebooks.MAX_PLAYER_BYTES}"></div>'
    with pytest.raises(CourseError, match="a player of 100,"):
        notebooks.check_outputs(shown(built, html), "42_add.ipynb")


def test_hidden_input_is_hidden_in_jupyterlab(tiny_course):
    path = edit(tiny_course, "[nbval-check-output]", "[hide-input]")
    assert texts(lecture(build(read_chapter(path, tiny_course))))[-1].metadata["jupyter"] == {"source_hidden": True}


def test_a_widget_becomes_a_sentence():
    data = {"text/plain": "IntSlider(value=0)", "application/vnd.jupyter.widget-view+json": {"model_id": "x"}}
    output = notebooks._static(nbformat.v4.new_output("display_data", data))
    assert output.data == {"text/plain": "Interactive: run this cell to use it."}


def test_building_writes_nothing_into_the_learners_books(tiny_course, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path / "books"))
    path = edit(tiny_course, "print(1 + 1)", 'from course_lib import predict\npredict("42.1", total=2)')
    build_chapter(path, root=tiny_course, say=lambda _: None)
    assert not (tmp_path / "books").exists()


def test_several_lectures_become_a_notebook_each_and_exercises_stay_one(tiny_course, built, split):
    again = build(read_chapter(split(), tiny_course))
    names = ["notebooks/42a_two.ipynb", "notebooks/42b_more.ipynb"]
    assert list(again.files()) == [*names, "exercises/42_exercises.ipynb", "solutions/42_solutions.ipynb"]
    first, second = map(texts, again.lectures.values())
    assert [cell.source for cell in second] == ["# 42b Adding: add more numbers", "print(2 + 3)"]
    assert [cell.id for cell in first[1:]] == [cell.id for cell in texts(lecture(built))[1:]]
    assert texts(again.exercises) == texts(built.exercises) and texts(again.solutions) == texts(built.solutions)


@pytest.mark.parametrize(
    "old, new, why",
    [
        (', "stem": "42a_two"', "", "lecture a has no stem, and others have one"),
        ("42b_more", "42c_more", "lecture b is called '42c_more'; .*42b_"),
        ("42b_more", "42b More", "lecture b is called '42b More'"),
        ("# 42b", "# 42", "the title of 42b_more is '42 Adding: add more numbers'; expected a first heading '# 42b …'"),
    ],
)
def test_lectures_without_their_names_are_refused(tiny_course, split, old, new, why):
    split()
    with pytest.raises(CourseError, match=why):
        read_chapter(edit(tiny_course, old, new), tiny_course)


def test_the_notebook_of_a_former_stem_is_deleted_and_the_learners_copy_kept(tiny_course, split):
    said = []
    build_chapter(tiny_course / "chapters/42_add.md", root=tiny_course, run=False, say=said.append)
    former = tiny_course / "notebooks/42_add.ipynb"
    notebook = nbformat.read(former, as_version=4)
    notebook.cells.append(nbformat.v4.new_markdown_cell("my note"))
    nbformat.write(notebook, former)
    mine, other = tiny_course / "notebooks/42_mine.ipynb", tiny_course / "notebooks/43_other.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("my own")]), mine)
    other.write_text("{}")
    written = build_chapter(split(), root=tiny_course, run=False, say=said.append)
    assert not former.exists() and former in written and mine.exists() and other.exists()
    assert "notebooks/42_add.ipynb: deleted; chapter 42 has no notebook of that name any more" in said
    (copy,) = (tiny_course / "work/kept").iterdir()
    assert copy.name.startswith("notebooks-42_add") and "my note" in copy.read_text()
