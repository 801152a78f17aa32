"""Count the false alarms of the tolerance rule: every right answer on many hidden seeds, case by case.

    python -m benchmarks.grader.false_alarms                     10 seeds on the CPU, about 5,000 runs
    python -m benchmarks.grader.false_alarms --seeds 3 03.2      fewer
    python -m benchmarks.grader.false_alarms --engine gpu        on the GPU
    python -m benchmarks.grader.false_alarms --write             also stores results/<cpu or its name>/false_alarms.csv

A run is one answer on one case with one seed. Each right answer of solutions/ takes part, and the lecture kernels
in place of the exercise that has their contract. `worst_ratio` is the largest error divided by its tolerance.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.grader import verdict_rows
from course_lib.book.regions import included
from course_lib.checklist import TRITON_HEAD, answers
from course_lib.grading.exercise import registry
from course_lib.grading.judge.judge import judge
from course_lib.grading.judge.prepare import prepare
from course_lib.grading.subjects.softmax import cases as softmax_cases

BLOCK = 64
TWINS = "course_lib/triton_kernels/softmax.py"
LECTURE = (  # (exercise whose contract it has, source, kernel)
    ("03.2", "kernels_cu/softmax/01_three_pass.cu", "three_pass_softmax_kernel"),
    ("03.2", "kernels_cu/softmax/02_online.cu", "online_softmax_kernel"),
    ("03.4", f"{TWINS}#three_pass_softmax_kernel", "three_pass_softmax_kernel"),
    ("03.4", f"{TWINS}#online_softmax_kernel", "online_softmax_kernel"),
)


def block_run(case, tensors):
    """How a lecture kernel in CUDA is launched: one block a row."""
    return softmax_cases.rows_run(case, tensors, threads=BLOCK, constants={"BLOCK": BLOCK})


def right_answers(chosen):
    """Yield (exercise, name, text) for everything that must pass."""
    for exercise in chosen:
        for kind, name, text, _ in answers(exercise):
            if kind in ("solution", "right"):
                yield exercise, name, text
        for exercise_id, source, kernel in LECTURE:
            if exercise_id == exercise.id:
                text = included(source, registry.ROOT)
                if exercise.language == "triton":
                    yield replace(exercise, entry=kernel), source.split("#")[1], TRITON_HEAD + text
                else:
                    yield replace(exercise, entry=kernel, make_run=block_run), Path(source).stem, text


def measure(exercise, name, text, seeds, engine):
    """One dict: runs, false alarms and the worst ratio of error to tolerance of one answer."""
    runs = alarms = 0
    worst, where = 0.0, ""
    for seed in seeds:
        verdict = judge(exercise, text, seed=seed, engine=engine, prepared=prepare(exercise, seed))
        runs += len(exercise.cases)
        alarms += len(exercise.cases) if not verdict.cases else sum(not case.passed for case in verdict.cases)
        for case in verdict.cases:
            if not case.passed:
                print(f"  false alarm: {exercise.id} {name}, seed {seed}, {case}", flush=True)
            if case.tolerance and case.max_error / case.tolerance > worst:
                worst, where = case.max_error / case.tolerance, case.name
    return {
        "exercise": exercise.id,
        "answer": name,
        "engine": engine,
        "runs": runs,
        "false_alarms": alarms,
        "worst_ratio": f"{worst:.3f}",
        "worst_case": where,
    }


def main():
    """Judge, print a line an answer, store when asked to; exit code 1 when there is a false alarm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exercises", nargs="*", help="ids such as 03.2; all without")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--engine", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    chosen = [registry.get(name) for name in arguments.exercises] or list(registry.all().values())
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    rows, started = [], time.perf_counter()
    for exercise, name, text in right_answers(chosen):
        rows.append(measure(exercise, name, text, seeds, arguments.engine))
        print(
            "{exercise} {answer:50} {runs:5} runs, {false_alarms} false alarms, worst ratio {worst_ratio} "
            "({worst_case})".format(**rows[-1]),
            flush=True,
        )
    runs, alarms = sum(row["runs"] for row in rows), sum(row["false_alarms"] for row in rows)
    print(f"false alarms {alarms}/{runs} ({time.perf_counter() - started:.0f} s)")
    if arguments.write:
        verdict_rows.write("false_alarms", rows, "right answers refused by the tolerance rule", arguments.engine)
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
