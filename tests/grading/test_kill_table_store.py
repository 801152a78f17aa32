"""Storing the kill table: a part replaces its own rows and leaves those of the other exercises."""

import pytest

from benchmarks.grader import kill_table as module


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


def test_the_table_of_a_card_goes_into_its_own_folder(kill_table, tmp_path, monkeypatch):
    class Card:
        name = "NVIDIA H200"

    monkeypatch.setattr(kill_table.verdict_rows, "ROOT", tmp_path)
    monkeypatch.setattr(kill_table.verdict_rows.device, "current", Card)
    monkeypatch.setattr("sys.argv", [module.__file__, "by", "hand"])
    row = kill_table.Row("03.1", "wrong", "a", "FAIL no_max", "FAIL no_max", "", True)
    kill_table.verdict_rows.write("kills", kill_table.by_exercise([row]), "answers", "gpu")
    head, versions, names, first = (tmp_path / "benchmarks/results/h200/kills.csv").read_text().splitlines()
    assert (
        head == "# answers; python -m benchmarks.grader.kill_table by hand"
        and "NVIDIA H200" in versions
        and "commit" in versions
    )
    assert (names, first) == ("exercise,wrong,killed,right,false_alarms", "03.1,1,1,0,0")
