"""Judge every answer of the repository: each wrong one must get its diagnosis, each right one must pass.

    python -m benchmarks.grader.kill_table                  prints the table for all exercises
    python -m benchmarks.grader.kill_table 03.2 03.5 --seed 7   for some, on other inputs
    python -m benchmarks.grader.kill_table --write          also writes kill_table.csv, kills.csv and
                                                            compiled_answers.csv of results/cpu
    python -m benchmarks.grader.kill_table 03.2 --write     replaces the rows of 03.2 in them and leaves the others
    python -m benchmarks.grader.kill_table --engine gpu --jobs 15 --part 1/2 --write
                                                            on the GPU, every second exercise; replaces their rows in
                                                            results/<its name>/kills.csv and leaves the others

Right answers are judged first: on a GPU they take longest. Nothing is stored unless --write is given.
tests/grading/test_kill_table.py judges the same answers.
"""

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

import torch

from benchmarks import RESULTS as ALL_RESULTS
from benchmarks.grader import verdict_rows
from benchmarks.harness.rows import read, stored
from course_lib.checklist import Row, answers, judge_one, score
from course_lib.grading.exercise import registry
from course_lib.grading.judge import compiled
from course_lib.grading.judge.prepare import prepare
from course_lib.grading.judge.session import Session
from course_lib.grading.processes import isolation

RESULTS = ALL_RESULTS / "cpu"
WHAT = "every answer in solutions/ against the judge"
CHUNK = 8  # wrong answers of one exercise that a process judges one after the other
HEAD = f"{WHAT}; python -m benchmarks.grader.kill_table --write"
KEPT_LETTERS = 165  # of each sentence in kill_table.csv


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
        "kill_table": [vars(row) | {"sentence": _beginning(row.sentence)} for row in rows],
        "kills": by_exercise(rows),
        compiled.SHIPPED.stem: compiling,
    }
    for name, table in tables.items():
        with stored(RESULTS / f"{name}.csv", [HEAD], list(table[0])) as write:
            for row in table:
                write(row)


def _beginning(sentence):
    """What is kept of a sentence: enough to know it by; the file stays small enough to be read and kept."""
    return sentence if len(sentence) <= KEPT_LETTERS else sentence[: KEPT_LETTERS - 1] + "…"


def _write_card(judged):
    """Store the rows of a GPU; those of exercises that still exist and were not judged stay."""
    rows, path = by_exercise(judged), verdict_rows.path("kills", "gpu")
    others = set(registry.ids()) - {row["exercise"] for row in rows}
    rows += [row for row in read(path) if row["exercise"] in others] if path.is_file() else []
    verdict_rows.write("kills", sorted(rows, key=lambda row: row["exercise"]), WHAT, "gpu")


def part_of(exercise_ids, part):
    """The exercises of part "K/N": every N-th from the K-th on, which spreads a chapter over the parts.

    Raises
    ------
    ValueError  not a part
    """
    number, parts = (int(piece) for piece in part.split("/"))
    if not 1 <= number <= parts:
        raise ValueError(f"part {part}: expected K/N with K from 1 to N, such as 1/2")
    return exercise_ids[number - 1 :: parts]


def _items(exercise_ids):
    """Work for one process each, (exercise id, numbers of the answers): right answers one by one, then the others.

    A GPU runs only right answers, and they take longest.
    """
    right, others = [], []
    for exercise_id in exercise_ids:
        kinds = [kind for kind, *_ in answers(registry.get(exercise_id))]
        numbers = {True: [], False: []}
        for number, kind in enumerate(kinds):
            numbers[kind in ("solution", "right")].append(number)
        right += [(exercise_id, (number,)) for number in numbers[True]]
        rest = numbers[False]
        others += [(exercise_id, tuple(rest[at : at + CHUNK])) for at in range(0, len(rest), CHUNK)]
    return right + others


def _judged(item, seed, engine):
    """[((exercise id, number), Row, seconds)] of the answers of an item."""
    exercise_id, numbers = item
    exercise, found = registry.get(exercise_id), []
    shipped, prepared = list(answers(exercise)), prepare(exercise, seed)
    for number in numbers:
        started = time.perf_counter()
        row = judge_one(exercise, shipped[number], seed=seed, engine=engine, prepared=prepared)
        found.append(((exercise_id, number), row, time.perf_counter() - started))
    return found


def judge_items(exercise_ids, seed, engine, jobs):
    """Judge every answer and print a line for each. Returns the rows in the exercises' order."""
    done = []
    alone = {"initializer": torch.set_num_threads, "initargs": (1,)}  # several on one core wait for one another
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), **alone) as pool:
        waiting = [pool.submit(_judged, item, seed, engine) for item in _items(exercise_ids)]
        for judged in as_completed(waiting):
            for one in judged.result():
                done.append(one)
                row = one[1]
                mark = "ok " if row.as_expected else "BAD"
                print(f"{mark} {row.exercise} {row.kind:8} {row.name:45} {row.got:30} {row.sentence}", flush=True)
    slowest = sorted(done, key=lambda one: -one[2])[:5]
    print("slowest:", "; ".join(f"{row.exercise} {row.name} {seconds:.1f} s" for _, row, seconds in slowest))
    return [row for _, row, _ in sorted(done, key=lambda one: one[0])]


def main():
    """Judge, print a line an answer, store when asked to; exit code 1 when a verdict is not the expected one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exercises", nargs="*", help="ids such as 03.2; all without")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="answers that are judged at the same time")
    parser.add_argument("--part", help="K/N: every N-th exercise from the K-th on")
    parser.add_argument("--write", action="store_true", help="store the rows of what was judged")
    arguments = parser.parse_args()
    chosen = [registry.get(name).id for name in arguments.exercises] or registry.ids()
    if arguments.part:
        chosen = part_of(chosen, arguments.part)
    rows = judge_items(chosen, arguments.seed, arguments.engine, arguments.jobs)
    print(score(rows))
    if arguments.write and arguments.engine == "gpu":
        _write_card(rows)
    elif arguments.write:
        _write(rows, arguments.seed)
    return 0 if all(row.as_expected for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
