"""Judge every answer of the repository: each wrong one must get its diagnosis, each right one must pass.

    python -m benchmarks.grader.kill_table                  prints the table for all exercises
    python -m benchmarks.grader.kill_table 03.2 03.5 --seed 7   for some, on other inputs
    python -m benchmarks.grader.kill_table --write          also writes kill_table.csv, kills.csv and
                                                            compiled_answers.csv of results/cpu
    python -m benchmarks.grader.kill_table 03.2 --write     replaces the rows of 03.2 in them and leaves the others
    python -m benchmarks.grader.kill_table --engine gpu --jobs 12 --write
                                                            on the GPU; writes results/<its name>/kills.csv

Nothing is stored unless --write is given. tests/grading/test_kill_table.py judges the same answers.
"""

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from benchmarks import RESULTS as ALL_RESULTS
from benchmarks.grader import verdict_rows
from benchmarks.harness.rows import read, stored
from course_lib.checklist import Row, answers, judge_all, score
from course_lib.grading.exercise import registry
from course_lib.grading.judge import compiled
from course_lib.grading.judge.prepare import prepare
from course_lib.grading.judge.session import Session
from course_lib.grading.processes import isolation

RESULTS = ALL_RESULTS / "cpu"
WHAT = "every answer in solutions/ against the judge"
HEAD = f"{WHAT}; python -m benchmarks.grader.kill_table --write"


def by_exercise(rows):
    """One dict an exercise: wrong, killed, right, false_alarms."""
    table = []
    for exercise in sorted({row.exercise for row in rows}):
        wrong = [row for row in rows if row.exercise == exercise and row.kind == "wrong"]
        right = [row for row in rows if row.exercise == exercise and row.kind in ("solution", "right")]
        table.append(
            {
                "exercise": exercise,
                "wrong": len(wrong),
                "killed": sum(row.as_expected for row in wrong),
                "right": len(right),
                "false_alarms": sum(not row.as_expected for row in right),
            }
        )
    return table


def _stored():
    """The rows of results/cpu/kill_table.csv; none when there is no such file."""
    return [Row(**{**row, "as_expected": row["as_expected"] == "True"}) for row in read(RESULTS / "kill_table.csv")]


def _compiled(exercise_id, seed):
    """A row for each right answer of an exercise that a compiler for GPUs takes."""
    exercise = registry.get(exercise_id)
    if exercise.language == "python":
        return []
    prepared = prepare(exercise, seed)
    texts = [text for kind, _, text, _ in answers(exercise) if kind in ("solution", "right")]
    sessions = [Session(exercise, text, isolation.run_task, "answer", 1) for text in texts]
    return [compiled.shipped_row(session, prepared) for session in sessions]


def _write(judged, seed):
    """Store what was judged; stored rows of exercises that still exist and were not judged stay."""
    chosen = {row.exercise for row in judged}
    others = set(registry.ids()) - chosen
    rows = sorted([row for row in _stored() if row.exercise in others] + judged, key=lambda row: row.exercise)
    before = read(compiled.SHIPPED) if compiled.SHIPPED.is_file() else []
    compiling = [row for row in before if row["exercise"] in others]
    compiling += [row for exercise_id in chosen for row in _compiled(exercise_id, seed)]
    compiling.sort(key=lambda row: (row["exercise"], row["digest"]))
    tables = {
        "kill_table": [vars(row) for row in rows],
        "kills": by_exercise(rows),
        compiled.SHIPPED.stem: compiling,
    }
    for name, table in tables.items():
        with stored(RESULTS / f"{name}.csv", [HEAD], list(table[0])) as write:
            for row in table:
                write(row)


def _judged(exercise_id, seed, engine):
    return list(judge_all(registry.get(exercise_id), seed=seed, engine=engine))


def main():
    """Judge, print a line an answer, store when asked to; exit code 1 when a verdict is not the expected one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exercises", nargs="*", help="ids such as 03.2; all without")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="exercises that are judged at the same time")
    parser.add_argument("--write", action="store_true", help="store the rows; on a GPU those of all exercises together")
    arguments = parser.parse_args()
    chosen = [registry.get(name).id for name in arguments.exercises] or registry.ids()
    if arguments.write and arguments.engine == "gpu" and arguments.exercises:
        parser.error("--write on a GPU stores the whole table: leave out the exercises")
    one, rows = partial(_judged, seed=arguments.seed, engine=arguments.engine), []
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        for row in (row for part in pool.map(one, chosen) for row in part):
            rows.append(row)
            mark = "ok " if row.as_expected else "BAD"
            print(f"{mark} {row.exercise} {row.kind:8} {row.name:45} {row.got:30} {row.sentence}", flush=True)
    print(score(rows))
    if arguments.write and arguments.engine == "gpu":
        verdict_rows.write("kills", by_exercise(rows), WHAT, "gpu")
    elif arguments.write:
        _write(rows, arguments.seed)
    return 0 if all(row.as_expected for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
