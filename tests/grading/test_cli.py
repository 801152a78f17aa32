"""`course`: exit codes, JSON for programs, sentences for people."""

import json
import shutil
import subprocess
import sys

import nbformat
import pytest

from course_lib import cli, device
from course_lib.cli import doctor
from course_lib.cli.reset import reset
from course_lib.errors import CourseError

GOOD = """
import torch

def merge(m_a, l_a, m_b, l_b):
    m = torch.maximum(m_a, m_b)
    base = torch.where(torch.isinf(m), torch.zeros_like(m), m)
    return m, l_a * torch.exp(m_a - base) + l_b * torch.exp(m_b - base)
"""
ANSWERS = {
    "PASS": (GOOD, 0),
    "FAIL": (GOOD.replace("+ l_b", "- l_b"), 1),
    "NOT STARTED": ("def merge(m_a, l_a, m_b, l_b):\n    raise NotImplementedError('03.1')\n", 3),
}


@pytest.fixture(autouse=True)
def _own_work_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path / "work"))


@pytest.fixture
def answer(tmp_path):
    def write(text):
        path = tmp_path / "answer.py"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize("state", ANSWERS)
def test_grade_says_the_verdict_and_exits_by_it(state, answer, capsys):
    text, status = ANSWERS[state]
    assert cli.main(["grade", "03.1", answer(text)]) == status
    assert state in capsys.readouterr().out


def test_grade_as_json_is_json(answer, capsys):
    assert cli.main(["grade", "03.1", answer(ANSWERS["FAIL"][0]), "--json", "--seed", "5"]) == 1
    first = json.loads(capsys.readouterr().out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert {"exercise", "verdict", "diagnosis", "cases", "ledger", "seconds"} <= set(first)
    assert first["exercise"] == "03.1" and first["verdict"] == "FAIL" and first["diagnosis"]["sentence"]
    cli.main(["grade", "03.1", answer(ANSWERS["FAIL"][0]), "--json", "--seed", "5"])
    assert json.loads(capsys.readouterr().out)["first_wrong"] == first["first_wrong"]


def test_numbers_that_json_lacks_become_words():
    assert cli.finite({"a": [float("nan"), float("inf"), 1.5], "b": (-float("inf"),)}) == {
        "a": ["NaN", "Infinity", 1.5],
        "b": ["-Infinity"],
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["grade", "03.99", "FILE"], "there is no exercise '03.99'"),
        (["grade", "03.1", "nowhere.py"], "nowhere.py cannot be read"),
        (["grade", "03.1", __file__ + "/.."], "Not a directory"),
        (["grade", "03.1", sys.executable], "it is no text in UTF-8"),
        (["grade", "3.1", "FILE"], "there is no exercise '3.1'; did you mean 03.1?"),
        (["show", "ex_03_1"], "did you mean 03.1?"),
        (["watch", "3.1", "FILE"], "did you mean 03.1?"),
        (["watch", "03.1", "/nowhere/answer.py"], "/nowhere/answer.py cannot be written"),
        (["hint", "99.1"], "there is no exercise"),
        (["reset", "99.1"], "there is no chapter 99"),
    ],
)
def test_a_request_that_cannot_be_met_is_a_sentence(words, said, answer, capsys):
    words = [answer(GOOD) if word == "FILE" else word for word in words]
    assert cli.main(words) == cli.BAD_REQUEST
    captured = capsys.readouterr()
    assert said in captured.err and "Traceback" not in captured.err


def test_an_engine_that_is_not_here_is_a_sentence(answer, capsys, monkeypatch):
    monkeypatch.setattr(device, "has_gpu", lambda: False)
    assert cli.main(["grade", "03.1", answer(GOOD), "--engine", "gpu"]) == 2
    assert "--engine gpu needs an NVIDIA GPU" in capsys.readouterr().err


def test_a_sandbox_without_bubblewrap_is_a_sentence(answer, capsys, monkeypatch):
    from course_lib.grading.judge import client

    client.shut_down()
    monkeypatch.setenv("PATH", "/nowhere")
    assert cli.main(["grade", "03.1", answer(GOOD), "--sandbox"]) == cli.BAD_REQUEST
    client.shut_down()
    assert "the sandbox needs bubblewrap" in capsys.readouterr().err


def test_progress_lists_every_exercise_and_what_was_done(answer, capsys):
    from course_lib import check, compare, predict

    check("03.1", GOOD)
    cli.main(["hint", "03.2"])
    capsys.readouterr()
    assert cli.main(["progress"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("✔  03.1") for line in lines) and any(line.startswith("○  03.2") for line in lines)
    assert any(line.startswith("1 of ") for line in lines)
    assert not any("guess first" in line for line in lines)
    predict("03.bytes", three=32)
    compare("03.bytes", three=64)
    cli.main(["progress"])
    assert capsys.readouterr().out.splitlines()[-1].split("  ")[-1] == "2 times too little"
    cli.main(["progress", "--json"])
    assert json.loads(capsys.readouterr().out)["03.2"]["hints"] == 1


def test_progress_says_what_comes_next_and_how_long_it_takes(capsys):
    from course_lib import check
    from course_lib.grading.exercise import registry

    check("03.1", GOOD)
    capsys.readouterr()
    cli.main(["progress"])
    lines = capsys.readouterr().out.splitlines()
    tasks = registry.documents()
    left = sum(task.minutes for number, task in tasks.items() if number.startswith("03.") and number != "03.1")
    [chapter] = [line for line in lines if line.startswith("chapter 03: 1 of 7 passed")]
    assert chapter.endswith(f"{left} minutes left")
    assert any(line.startswith("next: 00.1 ") and "`course show 00.1`" in line for line in lines)
    assert all(len(line) <= 100 for line in lines if line[:1] in "✔○…")


def test_watch_judges_at_each_save_and_writes_nothing_over(tmp_path):
    from course_lib.cli.watch import watch

    path = tmp_path / "answer.py"
    said = watch("03.1", path, looks=4)
    assert "begins with the starter of 03.1" in next(said) and "raise NotImplementedError" in path.read_text()
    assert next(said).startswith(f"watching {path}")
    assert "NOT STARTED" in next(said)
    path.write_text(GOOD)
    assert "PASS" in next(said) and path.read_text() == GOOD
    path.write_text("def merge(:\n")
    assert "FAIL" in next(said)
    assert list(said) == []  # no save, no verdict
    assert "starter" not in next(watch("03.1", path, looks=1)) and path.read_text() == "def merge(:\n"


def test_the_doctor_speaks_in_sentences(capsys):
    status = cli.main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)
    assert status == int(any(finding["state"] == "missing" for finding in findings))
    assert {"Python", "torch", "GPU", "Triton", "Judge"} <= {finding["topic"] for finding in findings}
    assert all(finding["sentence"].rstrip().endswith(".") for finding in findings)


def test_a_doctor_who_stumbles_still_answers():
    def _heart():
        raise OSError("gone")

    finding = doctor._safely(_heart)
    assert finding.state == doctor.MISSING and "heart: could not be examined: OSError: gone" in str(finding)


def test_reset_puts_the_starter_back_and_keeps_the_learners_cell(tmp_path, root):
    for folder in ("chapters", "kernels_cu", "course_lib", "solutions", "exercises"):
        shutil.copytree(root / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "exercises" / "03_exercises.ipynb"
    notebook = nbformat.read(path, as_version=4)
    cell = next(cell for cell in notebook.cells if cell.metadata.get("exercise") == "03.2")
    starter, cell.source = cell.source, "%%cuda online_softmax_warp\n__global__ my work"
    others = [other.source for other in notebook.cells if other is not cell]
    nbformat.write(notebook, path)
    changed, kept = reset("03.2", root=tmp_path)
    after = nbformat.read(path, as_version=4)
    assert changed == path and kept.read_text() == "%%cuda online_softmax_warp\n__global__ my work"
    assert kept.parent.parent.name == "drafts" and kept.suffix == ".cu"
    assert next(cell for cell in after.cells if cell.metadata.get("exercise") == "03.2").source == starter
    assert [other.source for other in after.cells if other.metadata.get("exercise") != "03.2"] == [
        source
        for source, other in zip(others, [c for c in notebook.cells if c is not cell], strict=True)
        if other.metadata.get("exercise") != "03.2"
    ]
    assert reset("03.2", root=tmp_path) == (path, None)


def test_reset_of_an_unknown_exercise_is_a_sentence():
    with pytest.raises(CourseError, match="has no exercise 03.99"):
        reset("03.99")


@pytest.mark.parametrize("command", ["build", "grade", "progress"])
def test_every_command_has_help(command):
    done = subprocess.run([sys.executable, "-m", "course_lib.cli", command, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "usage: course" in done.stdout
