"""Grade a made-up class with `course cohort`: answers an hour, a judge killed in the middle, nothing lost, equal bytes.

    python -m benchmarks.grader.cohort --learners 200 --seconds 900
    python -m benchmarks.grader.cohort --learners 200 --seconds 900 --write     also results/cpu/cohort.csv

1. All of it with two judges; half way one of them is killed. made_up_class.py says who hands in what.
2. The journal loses its last lines and half of another, as in a crash; the same command again: the same bytes.
3. Some learners with the verdicts of two judges, and again with one: the same bytes.
4. The same learners on a Dask cluster of two processes, one of which is killed: the same bytes.
"""

import argparse
import contextlib
import json
import logging
import os
import platform
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks import RESULTS
from benchmarks.grader.made_up_class import CHAPTER, Class
from benchmarks.harness.about import commit
from benchmarks.harness.rows import stored
from course_lib import cli
from course_lib.cli.cohort import jobs
from course_lib.cli.cohort.command import STOPPED

TORN = 5  # verdicts that the journal loses
COLUMNS = (
    "learners", "answers", "judges", "cores", "load", "seconds", "answers_an_hour", "killed", "lost", "as_expected",
    "escapes", "held", "resume", "one_against_two", "cluster",
)  # fmt: skip


def run(made, out, *words, folder=None):
    """`course cohort`, with two judges unless `words` say otherwise; (exit status, seconds)."""
    started = time.perf_counter()
    files = ["--out", f"{out}.csv", "--json", f"{out}.json", "--html", f"{out}.html"]
    status = cli.main(
        ["cohort", str(folder or made.folder), *files, "--assigned", *made.exercises, "--jobs", "2", *words]
    )
    return status, time.perf_counter() - started


def written(out):
    """{name: bytes} of a run's CSV, JSON and pages."""
    pages = sorted(Path(f"{out}.html").rglob("*.html"))
    paths = [Path(f"{out}.csv"), Path(f"{out}.json"), *pages]
    return {str(path).removeprefix(str(out)): path.read_bytes() for path in paths}


def kill_half_way(journal, answers, victim, killed):
    """In a thread: kill the process `victim()` when half of the verdicts are in the journal, and note its number."""

    def wait():
        while not (journal.exists() and journal.read_bytes().count(b"\n") >= answers // 2):
            time.sleep(0.2)
        killed.append(victim())
        os.kill(killed[-1], signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def resumed(made, out):
    """Whether a journal that lost some verdicts is completed to the same bytes."""
    before, journal = written(out), Path(f"{out}.csv.journal")
    lines = journal.read_bytes().splitlines(True)
    torn = min(TORN, len(lines))
    journal.write_bytes(b"".join(lines[:-torn]) + lines[-torn][:50])
    status, _ = run(made, out)
    return status == 0 and written(out) == before


def some_learners(made, out, count):
    """The folder of the first `count` learners, and the path of their results with the verdicts of two judges."""
    names = tuple(sorted({learner for learner, _ in made.expected})[:count])
    some, two = made.folder.with_name("some"), out.with_name("two")
    some.mkdir()
    for path in made.folder.iterdir():
        if path.name.startswith(names):
            (shutil.copytree if path.is_dir() else shutil.copy2)(path, some / path.name)
    shutil.copy2(f"{out}.csv.journal", f"{two}.csv.journal")
    run(made, two, folder=some)
    return some, two


def with_one_judge(made, some, two):
    """Whether one judge gives the bytes that two gave."""
    one = two.with_name("one")
    return run(made, one, "--jobs", "1", folder=some)[0] == 0 and written(one) == written(two)


def on_a_cluster(made, some, two, killed):
    """Whether a Dask cluster that loses a worker gives the same bytes."""
    from distributed import LocalCluster

    out = two.with_name("cluster")
    with LocalCluster(2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL) as cluster:

        def victim():
            return cluster.workers[0].pid

        kill_half_way(Path(f"{out}.csv.journal"), len(list(some.iterdir())), victim, killed)
        status, _ = run(made, out, "--scheduler", cluster.scheduler_address, folder=some)
    return status == 0 and written(out) == written(two)


def verdicts(out):
    """{(learner, exercise): entry} of a run's JSON."""
    learners = json.loads(Path(f"{out}.json").read_text())["learners"]
    return {(who, name): entry for who, data in learners.items() for name, entry in data["exercises"].items()}


def _code(verdict):
    return verdict["diagnosis"]["code"] if verdict and verdict["diagnosis"] else ""


def measure(options, folder):
    """The row of COLUMNS."""
    made, out, killed = Class(folder, options.learners, options.exercises), folder / "class", []
    answers = len(made.expected)
    journal = Path(f"{out}.csv.journal")
    kill_half_way(journal, answers, lambda: jobs.judges[-1].warm_up().process.pid, killed)
    load = os.getloadavg()[0]
    status, seconds = run(made, out)
    if status == STOPPED:
        done = len(journal.read_bytes().splitlines())
        sys.exit(f"time is up: {done} of {answers} answers judged in {seconds:.0f} s")
    got = verdicts(out)
    found = {key: (one["state"], _code(one["verdict"])) for key, one in got.items()}
    for key in made.expected:
        if found[key] != made.expected[key]:
            print(f"  {key}: expected {made.expected[key]}, got {found[key]}")
    held = [key for key in made.escapes if "REACHED" not in got[key]["verdict"]["printed"] and not made.left.exists()]
    about = {"learners": options.learners, "answers": answers, "judges": 2, "cores": os.cpu_count()}
    about |= {"load": f"{load:.1f} to {os.getloadavg()[0]:.1f}", "seconds": f"{seconds:.0f}"}
    about["answers_an_hour"] = f"{3600 * answers / seconds:.0f}"
    same = {"resume": resumed(made, out)}
    some, two = some_learners(made, out, options.compare)
    same |= {"one_against_two": with_one_judge(made, some, two), "cluster": on_a_cluster(made, some, two, killed)}
    counts = {
        "killed": len(killed),
        "lost": sum(found[key][0] in ("NOT GRADED", "NOT HANDED IN") for key in made.expected),
        "as_expected": sum(found[key] == made.expected[key] for key in made.expected),
        "escapes": len(made.escapes),
        "held": len(held),
    }
    return about | counts | {name: "equal" if equal else "DIFFERENT" for name, equal in same.items()}


def main():
    """Grade the class, print the figures, store them when asked to; 1 when anything is lost, different or reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", type=int, default=200)
    parser.add_argument(
        "--exercises", nargs="+", default=["03.1", "03.3", "03.7"], help=f"of chapter {CHAPTER}, in Python"
    )
    parser.add_argument("--seconds", type=int, default=900, help="for all of it; what is not done then is said")
    parser.add_argument("--compare", type=int, default=12, help="learners that one judge grades again")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    about = (
        f"a made-up class graded by `course cohort`; {platform.machine()} · "
        f"python {platform.python_version()} · commit {commit()} · "
        f"python -m benchmarks.grader.cohort {' '.join(sys.argv[1:])}"
    )
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(options.seconds)
    with tempfile.TemporaryDirectory(prefix="course-cohort-", dir="/var/tmp") as folder:
        row = measure(options, Path(folder))
    signal.alarm(0)
    print(", ".join(f"{name} {value}" for name, value in row.items()))
    if options.write:
        with stored(RESULTS / "cpu" / "cohort.csv", [about], COLUMNS) as write:
            write(row)
    good = row["lost"] == 0 and row["as_expected"] == row["answers"] and row["held"] == row["escapes"]
    return int(not good or "DIFFERENT" in row.values())


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
