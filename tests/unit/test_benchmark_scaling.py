"""The benchmark of several ranks, dry: two threads, the course's own variants, each checked and counted."""

import json

import torch

from benchmarks import scaling
from benchmarks.harness import main
from benchmarks.harness.rows import read
from benchmarks.ranks.report import Report
from course_lib.parallel import run
from tests.unit.parallel_schemes import sharing


def test_every_part_runs_dry_on_threads(tmp_path):
    out = tmp_path / "rows.csv"
    assert main(scaling.BENCHMARK, ["--dry", "--backend", "threads", "--out", str(out), "--commit", "abc"]) == 0
    rows = read(out)
    assert {row["part"] for row in rows} == set(scaling.PARTS)
    assert not [row for row in rows if row["note"]] and all(row["ranks"] == "2" for row in rows)
    course = [row for row in rows if row["variant"].startswith("course")]
    assert len(course) >= 16 and all(row["wire_bytes"] for row in course)


def test_a_transfer_into_shared_pages_runs_dry(tmp_path, monkeypatch):
    sharing(monkeypatch)
    out = tmp_path / "rows.csv"
    options = ["--dry", "--backend", "threads", "--only", "part=transfer", "--out", str(out), "--commit", "abc"]
    assert main(scaling.BENCHMARK, options) == 0
    assert [(row["variant"], row["note"]) for row in read(out)] == [("course", ""), ("course, one-sided", "")]


def test_a_part_that_fails_keeps_its_rows_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "of_part", broken)
    out = tmp_path / "rows.csv"
    main(scaling.BENCHMARK, ["--dry", "--backend", "threads", "--only", "part=context", "--out", str(out)])
    first, last = read(out)
    assert first["variant"] == "one" and last["note"].startswith("not finished after")
    assert "rank 1 raised ValueError: no such thing" in last["note"]


def broken(world, part, path, runs, dry):
    Report(world, path, part, runs, dry).put({"variant": "one"})
    world.barrier()
    if world.rank:
        raise ValueError("no such thing")
    world.barrier()


def test_what_is_wrong_or_fails_is_a_row_with_a_note(tmp_path):
    def function(world):
        report = Report(world, str(tmp_path / "rows"), "part", 2, dry=True)
        report.add("counted", lambda: world.all_reduce(torch.zeros(4)), bytes_of=1)
        report.add("inexact", lambda: None, error=0.5, limit=0.1)
        report.add("not a number", lambda: None, error=float("nan"), limit=0.1)
        report.add("fails", lambda: torch.zeros(2) + torch.zeros(3), op="x", tflops=lambda us: us)

    run(function, 2)
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert rows[0]["note"] == "wrong: 16 bytes counted, the formula gives 1"
    assert rows[1]["note"] == "wrong by 5.0e-01: not timed" and rows[2]["note"].startswith("wrong by nan")
    assert rows[3]["note"].startswith("not run: RuntimeError: ") and rows[3]["op"] == "x" and "tflops" not in rows[3]


def test_a_row_that_is_reported_again_replaces_the_first(tmp_path):
    def function(world):
        report = Report(world, str(tmp_path / "rows"), "part", 2, dry=True)
        report.add("course", lambda: None, op="a", seq_len=4)
        report.add("peer", lambda: None, op="a", seq_len=4)
        report.amend({"variant": "course", "seq_len": 4}, ratio_to_best_peer="1.5")

    run(function, 1)
    rows = list(scaling.latest((tmp_path / "rows").read_text().splitlines()))
    assert [(row["variant"], row.get("ratio_to_best_peer")) for row in rows] == [("course", "1.5"), ("peer", None)]
