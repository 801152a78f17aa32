"""Grade a made-up class with `course cohort`: answers an hour, a judge killed in the middle, nothing lost, equal bytes.

    python -m benchmarks.grader.cohort --learners 200 --seconds 900
    python -m benchmarks.grader.cohort --learners 200 --seconds 900 --write     also results/cpu/cohort.csv

The learners hand in solutions, right answers, known wrong ones and untouched starters, as work/ folders, notebooks in
folders and notebooks with their names; every 40th notebook is damaged, one answer tries what the list of refused names
knows and one what only the sandbox holds. Every text has its learner's name in it, so that none is judged once for two.

1. All of it with two judges; half way one of them is killed.
2. The journal loses its last lines and half of another, as in a crash; the same command again: the same bytes.
3. Some learners with one judge, and with the verdicts of two: the same bytes.
"""

import argparse
import contextlib
import json
import os
import platform
import random
import re
import shutil
import signal
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

from benchmarks import RESULTS, ROOT
from benchmarks.harness.about import commit
from benchmarks.harness.rows import stored
from course_lib import checklist, cli
from course_lib.cli.cohort import jobs
from course_lib.cli.cohort.command import STOPPED
from course_lib.grading.exercise import registry

CHAPTER = "03"  # a notebook holds all its exercises
SHARES = {"solution": 30, "right": 20, "wrong": 35, "starter": 15}  # per cent
DAMAGED_EVERY = 40  # notebooks
TORN = 5  # verdicts that the journal loses
COLUMNS = (
    "learners", "answers", "judges", "cores", "load", "seconds", "answers_an_hour", "killed", "lost", "as_expected",
    "escapes", "held", "resume", "one_against_two",
)  # fmt: skip
_ESCAPE = """
_reached = []
for _path in ({solution!r}, {secret!r}):
    try:
        _reached.append(bytes(torch.from_file(_path, size=16, dtype=torch.uint8).tolist()))
    except RuntimeError:
        pass
try:
    torch.from_file({left!r}, shared=True, size=4).fill_(1.0)
except RuntimeError:
    pass
print("REACHED" if _reached else "nothing", _reached)
"""


class Class:
    """The made-up class in a folder, and what each answer must get: {(learner, exercise): (state, diagnosis)}."""

    def __init__(self, folder, learners, exercises, seed=11):
        self.folder, self.exercises, self.expected, self.escapes = folder / "in", exercises, {}, []
        self.secret, self.left = folder / "secret.txt", folder / "left.bin"
        self.secret.write_text("of another learner\n")
        self._draw = random.Random(seed)
        self._known = {name: _known(name) for name in exercises}
        for number in range(learners):
            self._hand_in(f"learner{number:04}", number)

    def _hand_in(self, name, number):
        texts = {exercise: self._answer(name, exercise) for exercise in self.exercises}
        if number in (1, 2):
            texts[self.exercises[0]] = self._escape(name, by_os=number == 1)
        if number % 3 == 0:
            for exercise, text in texts.items():
                _put(self.folder / name / "work" / "answers" / exercise / "2026-01-31T09-15-02.py", text)
            return
        path = self.folder / (
            f"{name}_{CHAPTER}_exercises.ipynb" if number % 3 == 1 else f"{name}/hw/{CHAPTER}_exercises.ipynb"
        )
        text = _notebook(texts)
        if number % DAMAGED_EVERY == DAMAGED_EVERY - 1:
            text, self.expected = text[: len(text) // 2], {k: v for k, v in self.expected.items() if k[0] != name}
        _put(path, text)

    def _answer(self, learner, exercise):
        [kind] = self._draw.choices(list(SHARES), list(SHARES.values()))
        text, state, code = self._draw.choice(self._known[exercise][kind])
        self.expected[learner, exercise] = state, code
        return _within(exercise, text, f"# by {learner}")

    def _escape(self, learner, by_os):
        exercise = self.exercises[0]
        solution = self._known[exercise]["solution"][0][0]
        self.escapes.append((learner, exercise))
        if by_os:
            self.expected[learner, exercise] = "FAIL", "refused"
            return _within(exercise, solution, f"import os; os.system('touch {self.left}')  # by {learner}")
        self.expected[learner, exercise] = "PASS", ""
        task = str(registry.folder_of(exercise) / "task.py")
        attack = _ESCAPE.format(solution=task, secret=str(self.secret), left=str(self.left))
        return _within(exercise, solution, f"# by {learner}\n{attack}")


def _known(exercise_id):
    """{kind: [(text, state, diagnosis)]} of the answers that an exercise ships."""
    found = {kind: [] for kind in SHARES}
    for kind, _, text, submission in checklist.answers(registry.get(exercise_id)):
        state = {"starter": "NOT STARTED", "wrong": "FAIL"}.get(kind, "PASS")
        if _head(exercise_id).search(text):
            found[kind].append((text, state, submission.diagnosis if kind == "wrong" else ""))
    return found


def _head(exercise_id):
    """The line that begins the function of an exercise."""
    return re.compile(rf"^def {registry.get(exercise_id).entry}\(.*:$", re.MULTILINE)


def _within(exercise_id, text, lines):
    """The answer with lines put at the beginning of its function: a notebook's answer is the function alone."""
    return _head(exercise_id).sub(lambda head: f"{head[0]}\n{textwrap.indent(lines, '    ')}", text, count=1)


def _notebook(texts):
    plain = json.loads((ROOT / "exercises" / f"{CHAPTER}_exercises.ipynb").read_text())
    for cell in plain["cells"]:
        if text := texts.get(cell["metadata"].get("exercise")):
            cell["source"] = text.splitlines(True)
    return json.dumps(plain)


def _put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(made, out, num_jobs, folder=None):
    """`course cohort`; (exit status, seconds)."""
    started = time.perf_counter()
    words = [
        "cohort",
        str(folder or made.folder),
        "--out",
        f"{out}.csv",
        "--json",
        f"{out}.json",
        "--html",
        f"{out}.html",
    ]
    status = cli.main([*words, "--assigned", *made.exercises, "--jobs", str(num_jobs)])
    return status, time.perf_counter() - started


def written(out):
    """{name: bytes} of a run's CSV, JSON and pages."""
    pages = sorted(Path(f"{out}.html").rglob("*.html"))
    paths = [Path(f"{out}.csv"), Path(f"{out}.json"), *pages]
    return {str(path).removeprefix(str(out)): path.read_bytes() for path in paths}


def kill_half_way(journal, answers, killed):
    """Kill one judge's process when half of the verdicts are in the journal."""
    while not (journal.exists() and journal.read_bytes().count(b"\n") >= answers // 2):
        time.sleep(0.2)
    process = jobs.judges[-1].warm_up().process
    process.kill()
    killed.append(process.pid)


def resumed(made, out):
    """Whether a journal that lost some verdicts is completed to the same bytes."""
    before, journal = written(out), Path(f"{out}.csv.journal")
    lines = journal.read_bytes().splitlines(True)
    torn = min(TORN, len(lines))
    journal.write_bytes(b"".join(lines[:-torn]) + lines[-torn][:50])
    status, _ = run(made, out, 2)
    return status == 0 and written(out) == before


def one_against_two(made, out, count):
    """Whether one judge gives the bytes that two gave, for the first `count` learners."""
    names = tuple(sorted({learner for learner, _ in made.expected})[:count])
    some = made.folder.with_name("some")
    shutil.copytree(
        made.folder,
        some,
        ignore=lambda folder, inside: [
            name for name in inside if Path(folder) == made.folder and not name.startswith(names)
        ],
    )
    one, two = out.with_name("one"), out.with_name("two")
    shutil.copy2(f"{out}.csv.journal", f"{two}.csv.journal")
    statuses = [run(made, two, 2, some)[0], run(made, one, 1, some)[0]]
    return statuses == [0, 0] and written(one) == written(two)


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
    threading.Thread(target=kill_half_way, args=(journal, answers, killed), daemon=True).start()
    load = os.getloadavg()[0]
    status, seconds = run(made, out, 2)
    if status == STOPPED:
        done = len(journal.read_bytes().splitlines())
        sys.exit(f"time is up: {done} of {answers} answers judged in {seconds:.0f} s")
    got = verdicts(out)
    found = {key: (one["state"], _code(one["verdict"])) for key, one in got.items()}
    for key in made.expected:
        if found[key] != made.expected[key]:
            print(f"  {key}: expected {made.expected[key]}, got {found[key]}")
    held = [key for key in made.escapes if "REACHED" not in got[key]["verdict"]["printed"] and not made.left.exists()]
    return {
        "learners": options.learners,
        "answers": answers,
        "judges": 2,
        "cores": os.cpu_count(),
        "load": f"{load:.1f} to {os.getloadavg()[0]:.1f}",
        "seconds": f"{seconds:.0f}",
        "answers_an_hour": f"{3600 * answers / seconds:.0f}",
        "killed": len(killed),
        "lost": sum(found[key][0] in ("NOT GRADED", "NOT HANDED IN") for key in made.expected),
        "as_expected": sum(found[key] == made.expected[key] for key in made.expected),
        "escapes": len(made.escapes),
        "held": len(held),
        "resume": "equal" if resumed(made, out) else "DIFFERENT",
        "one_against_two": "equal" if one_against_two(made, out, options.compare) else "DIFFERENT",
    }


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
