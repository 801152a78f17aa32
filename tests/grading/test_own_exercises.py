"""Exercises in a folder outside the repository: they are graded, checked and built like the course's own."""

import shutil
from pathlib import Path

import nbformat
import pytest

import course_lib
from course_lib.cli import main
from course_lib.errors import CourseError
from course_lib.grading.exercise import document, registry

OWN = Path(__file__).parent / "own"
SUM = "def double(x):\n    return x + x\n"
TRIPLE = "def double(x):\n    return 3 * x\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of own/, known to this process."""
    copy = Path(shutil.copytree(OWN, tmp_path / "mine", ignore=shutil.ignore_patterns("__pycache__")))
    monkeypatch.setenv(registry.VARIABLE, str(copy))
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path / "work"))
    return copy


def test_it_is_one_exercise_more(folder, monkeypatch):
    assert registry.ids()[-1] == "90.1" and registry.get("90.1").title == "Double a vector"
    monkeypatch.delenv(registry.VARIABLE)
    assert "90.1" not in registry.ids()
    with pytest.raises(CourseError, match="there is no exercise '90.1'"):
        registry.get("90.1")


def test_it_is_judged_by_a_server_that_started_without_it(folder, monkeypatch):
    monkeypatch.delenv(registry.VARIABLE)
    assert not course_lib.check("03.1", "def merge(m_a, l_a, m_b, l_b):\n    return m_a, l_a\n").passed
    monkeypatch.setenv(registry.VARIABLE, str(folder))
    assert course_lib.check("90.1", SUM).passed
    wrong = course_lib.check("90.1", TRIPLE)
    assert wrong.diagnosis.code == "wrong_factor" and wrong.diagnosis.sentence == "Twice 1 is 2; here it is 3."
    task = folder / "90_1_double" / "diagnostics.py"
    task.write_text(task.read_text().replace("Twice 1", "Two times 1"))
    assert "Two times 1" in course_lib.check("90.1", TRIPLE).diagnosis.sentence  # an edited task counts at once


def test_the_command_line_takes_the_folder(folder, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(registry.VARIABLE, "")
    answer = tmp_path / "answer.py"
    answer.write_text(SUM)
    assert main(["--exercises", str(folder), "grade", "90.1", str(answer)]) == 0
    assert main(["--exercises", str(folder), "hint", "90.1"]) == 0
    assert main(["--exercises", str(folder), "show", "90.1"]) == 0
    assert main(["--exercises", str(folder), "progress"]) == 0
    printed = capsys.readouterr().out
    assert "only the exponent changes" in printed and "add a number to itself" in printed
    assert 'raise NotImplementedError("90.1")' in printed and "○  90.1 Double a vector" in printed
    monkeypatch.setenv(registry.VARIABLE, "")
    assert main(["--exercises", str(tmp_path / "nothing"), "progress"]) == 2


def test_the_checklist_passes(folder, capsys):
    assert main(["exercises", "check", str(folder)]) == 0
    assert "killed 3/3, false alarms 0/2" in capsys.readouterr().out


def test_an_id_belongs_to_one_exercise(folder, capsys):
    shutil.copytree(folder, folder.with_name("other"))
    assert main(["exercises", "check", str(folder.with_name("other"))]) == 2
    assert "two exercises have the id 90.1" in capsys.readouterr().err


def test_a_wrong_diagnosis_and_a_thin_task_fail_the_checklist(folder, capsys):
    wrong = folder / "90_1_double" / "wrong.md"
    text = wrong.read_text().replace("`all_zeros`", "`wrong_factor`")
    wrong.write_text(text.replace("### three times", "### a copy"))
    task = folder / "90_1_double" / "task.md"
    task.write_text(
        task.read_text().replace("Multiplying by 2 and adding x to itself are the same thing.", "Multiply.")
    )
    assert main(["exercises", "check", str(folder)]) == 1
    printed = capsys.readouterr().out
    assert "expected FAIL wrong_factor" in printed and "killed 2/3" in printed
    assert "two answers of wrong.md have one name" in printed and "three different hints" in printed


def test_the_notebook_of_a_folder(folder, capsys):
    assert main(["exercises", "build", str(folder)]) == 0
    notebook = nbformat.read(folder / "exercises.ipynb", as_version=4)
    tags = [tag for cell in notebook.cells for tag in cell.metadata.get("tags", ())]
    assert tags == ["predict", "exercise", "check"]
    answer = next(cell for cell in notebook.cells if cell.metadata.get("exercise") == "90.1")
    assert 'raise NotImplementedError("90.1")' in answer.source and "return 2 * x" not in answer.source
    assert "| 90.1 | twice a vector | Python | 1 | 2 |" in notebook.cells[0].source
    assert (
        main(["exercises", "build", str(folder)]) == 2 and "a learner may have worked in it" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("find", "replace", "sentence"),
    [
        ("minutes: 2\n", "", "missing in the header: minutes"),
        ("minutes: 2\n", "minutes: 2\ntime: 3\n", "unknown in the header: time"),
        ("language: python", "language: rust", "language is 'rust'"),
        ("## Hint 2", "## Hints 2", "section 'Hints 2' is unknown"),
        ("## Hint 3", "## Hint 2", "section 'Hint 2' is there twice"),
        ("## Explanation", "Explanation", "missing sections: Explanation"),
        ("---\ntitle", "title", "expected a YAML header"),
    ],
)
def test_a_slip_in_task_md_is_a_sentence(folder, find, replace, sentence):
    task = folder / "90_1_double" / "task.md"
    text = task.read_text()
    assert find in text
    task.write_text(text.replace(find, replace))
    with pytest.raises(CourseError, match=sentence):
        document.read(task.parent)


def test_a_folder_without_an_exercise_is_named(folder, monkeypatch):
    (folder / "90_1_double").rename(folder / "double")
    with pytest.raises(CourseError, match="mine holds no exercise; expected folders called NN_k_name"):
        registry.folders()


def test_texts_are_plain_where_they_are_not_markdown(folder):
    said = registry.get_document("90.1")
    assert said.hints[2] == "return x + x, or return 2 * x; both are right in float32."
    assert document.plain("a\n`b`\n\nc") == "a b\n\nc"
