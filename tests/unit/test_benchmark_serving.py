"""The serving benchmark: a variant that fails costs its own row, and what the rows hold."""

import csv
import os
import time
from types import SimpleNamespace

import pytest

from benchmarks import serving as case
from benchmarks import serving_grid
from benchmarks.harness import children, main
from benchmarks.harness.step_times import recorder, store_steps
from course_lib.serving import ServingConfig, load, traces
from course_lib.serving.simulator import Line, SimulatedEngine, StepTimes, fit


def target(variant, spec):
    """What the children of these tests call."""
    if variant == "raises":
        raise ValueError("two\nlines")
    if variant == "dies":
        os._exit(7)
    return {"pid": os.getpid(), "spec": spec}


def test_a_child_that_dies_or_raises_costs_its_own_row(monkeypatch):
    made = []
    monkeypatch.setattr(children.subprocess, "Popen", lambda command, **_: made.append(command) or forked(command[-1]))
    monkeypatch.setattr(children, "_end", lambda child: None)
    groups = [["good", "raises", "dies", "after"], ["other"]]
    rows = dict(children.rows_of_children(f"{__name__}:target", groups, {"a": 1}, limit=30))
    assert rows["raises"] == {"note": "failed: ValueError: two lines"}
    assert rows["dies"] == {"note": "failed: its process ended with code 7"}
    assert rows["good"]["spec"] == {"a": 1} and {"after", "other"} <= rows.keys()
    assert len(made) == 3 and list(rows) == [name for group in groups for name in group]


def forked(order):
    """A forked process in place of a new one, which would import everything again."""
    pid = os.fork()
    if pid == 0:
        try:
            children._work(order)
        finally:
            os._exit(0)
    child = SimpleNamespace(pid=pid, returncode=None)

    def poll():
        found, status = os.waitpid(pid, os.WNOHANG) if child.returncode is None else (0, 0)
        child.returncode = os.waitstatus_to_exitcode(status) if found else child.returncode
        return child.returncode

    child.poll = poll
    return child


def test_one_that_hangs_is_given_up(tmp_path):
    lines = tmp_path / "lines"
    lines.write_text('{"variant": "slow"}\n{"variant": "half')
    child = SimpleNamespace(poll=lambda: None, returncode=None)
    assert list(children._read(child, lines, ["slow"], 0.1)) == [("slow", {"note": "failed: longer than 0.1 s"})]


def test_nothing_is_begun_after_the_time_is_over():
    rows = dict(children.rows_of_children("none:none", [["a", "b"]], {}, limit=1, seconds=-1))
    assert rows == {name: {"note": "failed: not begun, -1 s are over"} for name in "ab"}


def test_every_variant_is_known():
    from benchmarks.harness import serving_engines
    from benchmarks.harness.serving_peers import PEERS

    known = {*serving_engines.VARIANTS, *PEERS, "static_batching"}
    assert {name for groups in case.GROUPS.values() for group in groups for name in group} <= known
    assert {name for name, *_ in case.SCENARIOS} <= case.GROUPS.keys() & serving_engines.RUNS.keys()


def test_the_best_peer_is_named():
    speeds = {"course": 12.0, "course_greedy": 20.0, "nano": 10.0, "static": 8.0}
    assert case.against_peers(speeds) == "course: 1.200 of the best peer, nano"
    assert "no ratio" in case.against_peers({"course": 1.0})


def test_columns_are_text_and_tell_of_errors():
    from benchmarks.harness.serving_engines import columns

    line = load.Timeline("r", 0.0, 4, times=[0.5, 1.0])
    row = columns(load.Run({"r": line, "s": load.Timeline("s", 0.0, 4, error="why")}, [], 2.0))
    assert row["tokens_per_s"] == "1.0" and row["ttft_p50_ms"] == "500.00"
    assert row["note"] == "failed: 1 requests, the first with: why"


def test_every_step_has_a_time_but_idle_time_has_no_step(tmp_path):
    engine = SimulatedEngine(ServingConfig(64), StepTimes(Line(0, 0, 0), Line(0, 0, 0)))
    with recorder(engine) as steps:
        load.drive(engine, load.OpenLoop(traces.fixed_trace(2, 20, 3)))
        time.sleep(0.05)
        load.drive(engine, load.OpenLoop(traces.fixed_trace(1, 20, 3, seed=1)))
    assert [step["num_tokens"] for step in steps] == [40, 2, 2, 20, 1, 1]
    assert [step["kv_tokens"] for step in steps] == [40, 42, 44, 20, 21, 22] and steps[1]["is_decode"]
    assert all(0 < step["ms"] < 50 for step in steps)
    assert engine.scheduler.schedule == type(engine.scheduler).schedule.__get__(engine.scheduler)
    spec = {"steps": tmp_path / "steps.csv", "device": "cpu", "load": {"model": "tiny"}}
    store_steps(spec, "course", steps)
    rows = list(csv.DictReader(spec["steps"].read_text().splitlines()))
    assert len(rows) == 6 and fit(rows).decode.base >= 0


@pytest.mark.parametrize("scenario", ["offline", "online"])
def test_static_batching_runs_dry(scenario):
    given = next(item for item in case.loads(dry=True) if item["scenario"] == scenario)
    spec = {"load": given, "device": "cpu", "dry": True, "runs": 1, "temperature": 0.6, "max_tokens": 64}
    row = case.run_variant("static_batching", spec)
    assert row["errors"] == 0 and row["requests"] == given["num_requests"] and float(row["tokens_per_s"]) > 0


def test_the_grid_measures_and_simulates_a_cell(tmp_path):
    out = tmp_path / "grid.csv"
    given = ["--dry", "--out", str(out), "--commit", "abc", "--only", "trace=grid,turns", "batch=2"]
    assert main(serving_grid.BENCHMARK, given) == 0
    rows = list(csv.DictReader(line for line in out.read_text().splitlines() if not line.startswith("#")))
    assert [row["trace"] for row in rows] == ["grid", "turns"] and not any(row["note"] for row in rows)
    for row in rows:
        error = float(row["sim_tokens_per_s"]) / float(row["tokens_per_s"]) - 1
        assert float(row["sim_error"]) == pytest.approx(error, rel=0.02, abs=0.01) and row["model"] == "tiny"
