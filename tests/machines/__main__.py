"""What the course does on a machine: `python -m tests.machines [--as NAME] [--each N] [NN …]`, for docs/machines.md.

Runs `course doctor`, then sends the solution and the first wrong answer of every exercise to the judge, as a notebook's
`check` does; with NN only of those chapters, with N only of the first N exercises of each. A solution must pass and a
wrong answer get its own diagnosis, or both the sentence why they cannot be judged here; anything else ends with exit
status 1. `--as` does so on a machine that odd.py makes from this one.
"""

import argparse
import collections
import platform
import sys
import time
import warnings

from course_lib import check, checklist
from course_lib.cli import doctor
from course_lib.errors import CourseError
from course_lib.grading.exercise import registry

from . import odd

_SEED = 20


def _answers(exercise):
    """(kind, text, diagnosis that it must get): the solution and the first wrong answer."""
    answers = {kind: (text, one) for kind, _, text, one in reversed(list(checklist.answers(exercise)))}
    yield "solutions", answers["solution"][0], ""
    yield "wrong answers", answers["wrong"][0], answers["wrong"][1].diagnosis


def _said(exercise, text):
    """(state and diagnosis, sentence, remarks) of the judge's verdict; a refusal of the course is a state too."""
    try:
        verdict = check(exercise.id, text, seed=_SEED)
    except CourseError as error:
        return "no verdict", str(error), ""
    code = verdict.diagnosis.code if verdict.diagnosis else ""
    return (
        f"{verdict.state} {code}".strip(),
        verdict.diagnosis.sentence if code else "",
        " ".join(filter(None, [verdict.missing, *verdict.remarks])),
    )


def _exercises(chapters, each):
    """The first `each` exercises of every chapter, or of those named."""
    for exercise_id in registry.ids():
        if (not chapters or exercise_id[:2] in chapters) and int(exercise_id[3:]) <= each:
            yield registry.get(exercise_id)


def _judged(exercises):
    """({(kind, state): count}, {remark: id of its first exercise}, wrong verdicts, remarks) of all answers."""
    counts, remarks, broken = collections.Counter(), {}, []
    for exercise in exercises:
        for kind, text, code in _answers(exercise):
            got, sentence, remark = _said(exercise, text)
            expected = f"FAIL {code}" if code else "PASS"
            counts[kind, "as they must" if got == expected else got] += 1
            if got.startswith("NOT VERIFIED HERE") or "could not be kept" in remark:
                remarks.setdefault(remark, exercise.id)
            if not got.startswith("NOT VERIFIED HERE") and got != expected:
                broken.append(f"{exercise.id} {kind}: expected {expected}, got {got}: {sentence}")
    return counts, remarks, broken


def _examined(exercises):
    """Print what doctor and judge say here; whether all of it is as it must be."""
    started = time.perf_counter()
    for finding in doctor.examine():
        if finding.state != doctor.GOOD or finding.topic in ("Python", "CUDA on the CPU", "Sandbox"):
            print(finding)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        counts, remarks, broken = _judged(exercises)
    for (kind, state), count in sorted(counts.items()):
        print(f"{count} {kind}: {state}")
    for remark, exercise_id in remarks.items():
        print(f"  {exercise_id}: {remark}")
    for text in dict.fromkeys(str(one.message) for one in warned if one.category is UserWarning):
        print(f"warning: {text}")
    print(*broken, sep="\n", end="\n" * bool(broken))
    print(f"{'not as it must be' if broken else 'as it must be'}, in {time.perf_counter() - started:.0f} s")
    return not broken


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__.split("\n\n")[1])
    parser.add_argument("--as", dest="machine", choices=sorted(odd.MACHINES), help="a machine made from this one")
    parser.add_argument("--each", type=int, default=99, metavar="N", help="only the first N exercises of a chapter")
    parser.add_argument("chapters", nargs="*", metavar="NN", help="chapters; all if none is named")
    options = parser.parse_args()
    sys.stdout.reconfigure(errors="replace")  # a terminal of ASCII shows `?` for a tick
    if options.machine:
        return odd.run(options.machine, ["--each", str(options.each), *options.chapters])
    print(f"{platform.platform()}, Python {platform.python_version()}, {sys.stdout.encoding}")
    return int(not _examined(_exercises(options.chapters, options.each)))


if __name__ == "__main__":
    sys.exit(main())
