"""Storing the kill table: a part replaces its own rows and leaves those of the other exercises."""

import pytest

from benchmarks.grader import kill_table as module
from course_lib.checklist import answers
from course_lib.grading.exercise import registry


@pytest.fixture
def kill_table(tmp_path, monkeypatch):
    """benchmarks.grader.kill_table, storing into a scratch folder."""
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(module, "_compiled", lambda exercise_id, seed: [])
    return module


def test_a_part_replaces_its_own_rows(kill_table):
    def row(exercise, name, got="FAIL no_max"):
        return kill_table.Row(exercise, "wrong", name, "FAIL no_max", got, 'It, says "so".', got == "FAIL no_max")

    kill_table._write([row("03.1", "a"), row("00.1", "old"), row("03.1", "b"), row("99.9", "gone")], 20)
    kill_table._write([row("00.1", "new", "PASS")], 20)
    stored = kill_table._stored()
    assert [(r.exercise, r.name, r.as_expected) for r in stored] == [
        ("00.1", "new", False), ("03.1", "a", True), ("03.1", "b", True),
    ]  # fmt: skip
    assert stored[1] == row("03.1", "a")


@pytest.fixture
def card(kill_table, tmp_path, monkeypatch):
    """A machine with an H200, its results in a scratch folder."""

    class Card:
        name = "NVIDIA H200"

    monkeypatch.setattr(kill_table.verdict_rows, "ROOT", tmp_path)
    monkeypatch.setattr(kill_table.verdict_rows.device, "current", Card)
    monkeypatch.setattr("sys.argv", [module.__file__, "by", "hand"])


def test_the_table_of_a_card_goes_into_its_own_folder(kill_table, tmp_path, card):
    row = kill_table.Row("03.1", "wrong", "a", "FAIL no_max", "FAIL no_max", "", True)
    kill_table.verdict_rows.write("kills", kill_table.by_exercise([row]), "answers", "gpu")
    head, versions, names, first = (tmp_path / "benchmarks/results/h200/kills.csv").read_text().splitlines()
    assert (
        head == "# answers; python -m benchmarks.grader.kill_table by hand"
        and "NVIDIA H200" in versions
        and "commit" in versions
    )
    assert (names, first) == ("exercise,wrong,killed,right,false_alarms", "03.1,1,1,0,0")


def test_a_part_on_a_card_replaces_its_own_rows(kill_table, tmp_path, card):
    def rows(exercise, count):
        return [kill_table.Row(exercise, "wrong", str(i), "FAIL a", "FAIL a", "", True) for i in range(count)]

    kill_table._write_card(rows("03.1", 2) + rows("00.1", 1) + rows("99.9", 1))
    kill_table._write_card(rows("00.1", 3))
    lines = (tmp_path / "benchmarks/results/h200/kills.csv").read_text().splitlines()[3:]
    assert lines == ["00.1,3,3,0,0", "03.1,2,2,0,0"]


def test_the_parts_hold_every_exercise_and_every_answer_once(kill_table):
    ids = registry.ids()
    parts = [kill_table.part_of(ids, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(sum(parts, [])) == ids and max(map(len, parts)) - min(map(len, parts)) <= 1
    with pytest.raises(ValueError, match="K from 1 to N"):
        kill_table.part_of(ids, "4/3")
    for exercise_id in ("01.1", "03.2"):
        numbers = sorted(sum((list(found) for _, found in kill_table._items([exercise_id])), []))
        assert numbers == list(range(len(list(answers(registry.get(exercise_id))))))
