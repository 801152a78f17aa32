"""Time every exercise from the call of a check to its verdict, on the CPU of the machine in hand.

    python -m benchmarks.grader.verdict_times               prints the table
    python -m benchmarks.grader.verdict_times --write       also writes results/cpu/verdict_times.csv

Each text is sent with a unique comment, so that nothing comes from the cache of compiled kernels. Wrong answers take
longer than right ones, because probes follow. The first check of a session, which also starts the judge, is timed
separately.
"""

import argparse
import os
import platform
import secrets
import statistics
import sys
import time

from benchmarks import RESULTS
from benchmarks.harness.about import commit
from benchmarks.harness.rows import stored
from course_lib import checklist
from course_lib.grading.answer.text import Answer
from course_lib.grading.exercise import registry
from course_lib.grading.judge import client
from course_lib.measure.tables import Table

NUM_WRONG = 6  # wrong answers of each exercise, spread over its list
COLUMNS = ("exercise", "language", "pass_s", "fail_median_s", "fail_slowest_s")


def seconds_of(exercise, text):
    """(seconds from call to verdict, state) of one text that the judge has not seen."""
    mark = "//" if exercise.language == "cuda" else "#"
    answer = Answer(
        text=f"{text}\n{mark} {secrets.token_hex(8)}\n", filename="answer", first_line=1, entry=exercise.entry
    )
    started = time.perf_counter()
    verdict = client.grade(exercise.id, answer, engine="cpu")
    return time.perf_counter() - started, verdict.state


def row_of(exercise):
    """One row: seconds of a right answer and of some wrong ones."""
    found = {"solution": [], "wrong": []}
    for kind, _, text, _ in checklist.answers(exercise):
        if kind in found:
            found[kind].append(text)
    step = max(1, len(found["wrong"]) // NUM_WRONG)
    passed, state = seconds_of(exercise, found["solution"][0])
    if state != "PASS":
        sys.exit(f"the solution of {exercise.id} got {state}: nothing wrong is timed")
    failed = [seconds_of(exercise, text)[0] for text in found["wrong"][::step]]
    return {
        "exercise": exercise.id,
        "language": exercise.language,
        "pass_s": round(passed, 2),
        "fail_median_s": round(statistics.median(failed), 2),
        "fail_slowest_s": round(max(failed), 2),
    }


def about():
    """The machine and the software, as a comment line of the CSV."""
    import torch
    import triton

    return (
        f"{os.cpu_count()} cores {platform.machine()} · load before {os.getloadavg()[0]:.1f} · "
        f"python {platform.python_version()} · torch {torch.__version__} · triton {triton.__version__} · "
        f"commit {commit()} · python -m benchmarks.grader.verdict_times --write"
    )


def main():
    """Time every exercise, print the table, store it when asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exercises", nargs="*", help="ids such as 03.2; all without")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    head = about()
    exercises = [registry.get(name) for name in options.exercises] or list(registry.all().values())
    first, _ = seconds_of(exercises[0], next(checklist.answers(exercises[0]))[2])
    rows = [row_of(exercise) for exercise in exercises]
    print(Table(COLUMNS, tuple(tuple(row[column] for column in COLUMNS) for row in rows)))
    middle = statistics.median([row["pass_s"] for row in rows] + [row["fail_median_s"] for row in rows])
    print(f"median {middle:.2f} s; the first check of a session, which starts the judge: {first:.1f} s")
    if options.write:
        with stored(RESULTS / "cpu" / "verdict_times.csv", [head], COLUMNS) as write:
            for row in rows:
                write(row)


if __name__ == "__main__":
    main()
