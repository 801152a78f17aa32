"""work/: nothing of the learner's is ever lost, even with concurrent writers."""

import json
import multiprocessing
import os

import pytest
import torch

from course_lib.grading.answer.text import Answer
from course_lib.grading.records import predictions, work
from course_lib.grading.report.states import FAIL, NOT_STARTED, PASS
from course_lib.grading.report.verdict import Verdict


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path / "work"))
    return tmp_path / "work"


def passing(text, exercise="03.2"):
    verdict = Verdict(exercise, PASS)
    work.record(verdict, Answer(text))
    return verdict


def test_passing_answers_are_kept_side_by_side(folder, monkeypatch):
    monkeypatch.setattr(work, "stamp", lambda: "2026-01-31T09-15-02")
    for text in ("__global__ one", "__global__ two", "__global__ two", "__global__ three"):
        passing(text)
    kept = sorted((folder / "answers" / "03.2").iterdir())
    assert sorted(path.read_text() for path in kept) == ["__global__ one", "__global__ three", "__global__ two"]
    assert {path.suffix for path in kept} == {".cu"}


def test_a_failing_answer_counts_and_is_not_kept(folder):
    work.record(Verdict("03.1", NOT_STARTED), Answer("x"))
    work.record(Verdict("03.1", FAIL, hint="look at m"), Answer("x"))
    assert not (folder / "answers").exists()
    assert work.progress()["03.1"] | {"last_at": ""} == {"last": FAIL, "last_at": "", "attempts": 1, "hints": 1}
    work.record(Verdict("03.1", PASS), Answer("x"))
    assert work.progress()["03.1"]["attempts_to_pass"] == 2


@pytest.mark.parametrize("text", ["{not json", "", "[1, 2]", "\x00\xff"])
def test_a_damaged_file_is_moved_aside_with_a_sentence(folder, text):
    folder.mkdir(parents=True)
    (folder / "progress.json").write_text(text, encoding="latin-1")
    with pytest.warns(UserWarning, match="moved to work/progress.damaged-"):
        passing("x")
    aside = list(folder.glob("progress.damaged-*"))
    assert len(aside) == 1 and aside[0].read_text(encoding="latin-1") == text
    assert work.progress()["03.2"]["last"] == PASS


def test_a_folder_that_cannot_be_written_becomes_a_remark(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path / "file" / "work"))
    verdict = passing("x")
    assert "could not be kept" in verdict.remarks[0]


def test_a_writer_that_stops_halfway_leaves_the_old_file(folder):
    passing("x")
    before = (folder / "progress.json").read_text()
    with pytest.raises(TypeError):
        with work.changed("progress.json") as books:
            books["03.3"] = object()
    assert (folder / "progress.json").read_text() == before
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == [".lock", "progress.json"]


def _count_up(name, rounds):
    for _ in range(rounds):
        with work.changed("progress.json") as books:
            books[name] = books.get(name, 0) + 1
            books["all"] = books.get("all", 0) + 1


def test_two_processes_lose_nothing(folder):
    context = multiprocessing.get_context("spawn" if os.name == "nt" else "fork")
    writers = [context.Process(target=_count_up, args=(name, 60)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert json.loads((folder / "progress.json").read_text()) == {"a": 60, "b": 60, "all": 120}


def test_hints_open_one_at_a_time():
    assert [work.next_hint("03.2", 3) for _ in range(5)] == [1, 2, 3, 3, 3]
    assert work.next_hint("03.3", 3, seen=1) == 2 and work.next_hint("03.3", 3, seen=1) == 3


def test_hint_shows_all_that_are_open():
    from course_lib import hint

    first, second = hint("03.1"), hint("03.1")
    assert len(first.shown) == 1 and len(second.shown) == 2 and second.shown[0] == first.shown[0]
    assert "1. " in str(second) and "2 of 3 open" in str(second) and "Hint 2 of 3." in second._repr_html_()


def test_a_measurement_without_a_guess_says_what_to_do():
    shown = predictions.compare("03.none", bytes=4)._repr_html_()
    assert "No guess was kept as 03.none when this ran. Make yours, then run this cell again." in shown
    predictions.predict("03.none", bytes=3)
    assert "No guess was kept" not in predictions.compare("03.none", bytes=4)._repr_html_()


def test_an_output_says_for_jupyterlab_whether_the_guess_is_made():
    made = [predictions.predict("03.open", bytes=value)._repr_mimebundle_()[1]["guess"] for value in (None, 3)]
    assert made == [{"key": "03.open", "made": False}, {"key": "03.open", "made": True}]
    assert predictions.compare("03.open", bytes=4)._repr_mimebundle_() == ({}, {})


def test_predictions_are_kept_and_compared():
    predictions.predict("03.bytes", three=16, two=None)
    predictions.predict("03.bytes", three=32, two=64)
    seen = predictions.compare("03.bytes", three=64, two=64)
    assert seen.rows() == [("three", "32", "64", "2 times too little"), ("two", "64", "64", "✔ right")]
    assert seen.first == {"three": 16}
    assert "2 times too little" in seen._repr_html_() and "measured 64" in str(seen)


def test_what_was_measured_is_kept_beside_the_guess(folder):
    predictions.predict("03.bytes", three=32)
    predictions.predict("01.sectors", column=4)
    predictions.compare("03.bytes", three=torch.tensor(64))
    predictions.compare("02.blocks", blocks=8)  # measured, never guessed
    first, second = predictions.kept()
    assert first.rows() == [("column", "4", "-", "kept")]
    assert second.rows() == [("three", "32", "64", "2 times too little")]
    predictions.predict("03.bytes", three=64)  # a later guess keeps the measurement
    assert predictions.kept()[1].rows()[0][3] == "✔ right"


def test_an_open_prediction_keeps_nothing(folder):
    shown = predictions.predict("03.limit", resource=None)
    assert not (folder / "predictions.json").exists()
    assert "Still open: resource" in shown._repr_html_()


@pytest.mark.parametrize(
    ("guess", "measured", "word"),
    [
        (1.02, 1.0, "✔ close"),
        (4.0, 1.0, "4 times too much"),
        ("memory", "Memory ", "✔ right"),
        ("alu", "memory", "✘ no"),
        (None, 3, "no guess"),
        (-1, 3, "✘ no"),
        (0, 3, "✘ no"),
        (3, 0, "✘ no"),
        (True, True, "✔ right"),
    ],
)
def test_a_guess_against_a_measurement(guess, measured, word):
    assert predictions.compare_values(guess, measured) == word
