"""A rebuild never costs a learner anything."""

import nbformat
import pytest

from course_lib.book import FOLDERS, keep
from course_lib.book.command import build_chapter


@pytest.fixture
def rebuild(tiny_course):
    """Build the tiny chapter (lecture not run); calling it again builds it again."""

    def build():
        build_chapter(tiny_course / "chapters/42_add.md", root=tiny_course, run=False, say=lambda _: None)
        return nbformat.read(tiny_course / "exercises/42_exercises.ipynb", as_version=4)

    build()
    return build


def answer(notebook, exercise):
    return next(cell for cell in notebook.cells if cell.id == f"c42-answer-{exercise}".replace(".", "-"))


def learner_writes(tiny_course, change):
    path = tiny_course / "exercises/42_exercises.ipynb"
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    nbformat.write(notebook, path)


def chapter_changes(tiny_course, old, new):
    for path in (tiny_course / "chapters/42_add.md", tiny_course / "answers.py"):
        path.write_text(path.read_text().replace(old, new))


def test_an_answer_survives_a_new_text_and_is_backed_up(tiny_course, rebuild):
    learner_writes(tiny_course, lambda notebook: answer(notebook, "42.1").update(source="def add(a, b): return a + b"))
    chapter_changes(tiny_course, "## Exercise 42.1", "## Exercise 42.1: addition")
    notebook = rebuild()
    assert answer(notebook, "42.1").source == "def add(a, b): return a + b"
    assert any("addition" in cell.source for cell in notebook.cells)
    copies = list((tiny_course / "work/kept").iterdir())
    assert len(copies) == 1 and "return a + b" in copies[0].read_text()


def test_an_untouched_starter_follows_the_text(tiny_course, rebuild):
    chapter_changes(tiny_course, "The sum of two numbers.", "a + b, exactly.")
    assert "a + b, exactly." in answer(rebuild(), "42.1").source
    assert not (tiny_course / "work").exists()


def test_an_answer_survives_a_new_starter_and_then_still_counts_as_changed(tiny_course, rebuild):
    learner_writes(tiny_course, lambda notebook: answer(notebook, "42.1").update(source="mine = 1"))
    chapter_changes(tiny_course, "The sum of two numbers.", "a + b, exactly.")
    for _ in range(2):
        cell = answer(rebuild(), "42.1")
        assert cell.source == "mine = 1" and keep.changed(cell)


def test_a_prediction_and_the_learners_own_cells_stay_in_place(tiny_course, rebuild):
    def change(notebook):
        guess = next(index for index, cell in enumerate(notebook.cells) if "predict" in cell.metadata.get("tags", ()))
        notebook.cells[guess].source = "guess = 7"
        notebook.cells.insert(guess + 1, nbformat.v4.new_code_cell("scratch = 1"))

    learner_writes(tiny_course, change)
    sources = [cell.source for cell in rebuild().cells]
    assert sources.index("scratch = 1") == sources.index("guess = 7") + 1


def test_an_answer_that_was_split_or_pasted_anew_stays(tiny_course, rebuild):
    def change(notebook):
        index = notebook.cells.index(answer(notebook, "42.1"))
        metadata = notebook.cells[index].metadata
        notebook.cells[index : index + 1] = [
            nbformat.v4.new_code_cell(text, metadata=metadata) for text in ("first = 1", "second = 2")
        ]

    learner_writes(tiny_course, change)
    chapter_changes(tiny_course, "The sum of two numbers.", "a + b, exactly.")
    for _ in range(2):
        notebook = rebuild()
        sources = [cell.source for cell in notebook.cells]
        assert answer(notebook, "42.1").source == "first = 1"
        assert sources[sources.index("first = 1") + 1] == "second = 2" and sources.count("second = 2") == 1


def test_a_copy_of_an_answer_stays_behind_it(tiny_course, rebuild):
    def change(notebook):
        cell = answer(notebook, "42.1")
        copy = nbformat.v4.new_code_cell("older = 1", metadata=cell.metadata)
        notebook.cells.insert(notebook.cells.index(cell), copy)
        cell.source = "mine = 1"

    learner_writes(tiny_course, change)
    notebook = rebuild()
    sources = [cell.source for cell in notebook.cells]
    assert answer(notebook, "42.1").source == "mine = 1"
    assert sources[sources.index("mine = 1") + 1] == "older = 1"


def test_a_note_in_a_text_of_the_course_becomes_a_cell_behind_it(tiny_course, rebuild):
    def change(notebook):
        text = next(cell for cell in notebook.cells if cell.source.startswith("## Exercise 42.2"))
        text.source += "\n\nmy note"

    learner_writes(tiny_course, change)
    for _ in range(2):
        sources = [cell.source for cell in rebuild().cells]
        assert sources.count("my note") == 1 and sources[sources.index("my note") - 1] == "## Exercise 42.2"


def test_an_answer_keeps_its_own_outputs(tiny_course, rebuild):
    printed = nbformat.v4.new_output("stream", text="7\n")
    learner_writes(tiny_course, lambda notebook: answer(notebook, "42.1").update(source="print(7)", outputs=[printed]))
    assert answer(rebuild(), "42.1").outputs == [printed]


def test_a_notebook_saved_without_cell_ids_is_matched_by_its_texts(tiny_course, rebuild):
    def change(notebook):
        notebook.nbformat_minor = 4
        answer(notebook, "42.1").source = "mine = 1"
        notebook.cells.append(nbformat.v4.new_code_cell("added = 1"))
        for cell in notebook.cells:
            del cell["id"]

    before = [cell.source for cell in rebuild().cells]
    learner_writes(tiny_course, change)
    notebook = rebuild()
    assert answer(notebook, "42.1").source == "mine = 1"
    assert len(notebook.cells) == len(before) + 1 and notebook.cells[-1].source == "added = 1"


def test_an_answer_to_a_removed_exercise_moves_to_the_end(tiny_course, rebuild):
    learner_writes(tiny_course, lambda notebook: answer(notebook, "42.1").update(source="mine = 1"))
    chapter_changes(tiny_course, ':exercise: "42.1"', ':exercise: "42.7"')
    assert rebuild().cells[-1].source == "mine = 1"


def test_an_edited_lecture_is_backed_up_before_it_is_written(tiny_course, rebuild):
    path = tiny_course / "notebooks/42_add.ipynb"
    path.write_text(path.read_text().replace("print(1 + 1)", "print(40 + 2)"))
    rebuild()
    copies = list((tiny_course / "work/kept").iterdir())
    assert "print(1 + 1)" in path.read_text()
    assert len(copies) == 1 and copies[0].name.startswith("notebooks-42_add") and "40 + 2" in copies[0].read_text()


def test_a_fresh_notebook_is_not_the_learners(tiny_course, rebuild):
    built = [path for folder in FOLDERS for path in (tiny_course / folder).glob("*.ipynb")]
    assert len(built) == 3 and not any(keep.touched(nbformat.read(path, as_version=4)) for path in built)


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "notebook.ipynb"
    path.write_text("old")
    monkeypatch.setattr(keep.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        keep.write_atomic(path, "new")
    assert path.read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["notebook.ipynb"]
