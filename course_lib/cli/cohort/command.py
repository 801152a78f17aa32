"""`course cohort`: collects, judges what the journal lacks, writes gradebook, JSON and pages.

May import: everything.
"""

import contextlib
import os
import sys
import time

from ...book.keep import write_atomic
from ...errors import CourseError, UnsupportedError
from ...grading.exercise import registry
from ...grading.processes import bubblewrap
from . import collect, gradebook, jobs, pages, pool
from .gradebook import Entry, Grades
from .journal import Journal

STOPPED = 130
_SAY_EVERY = 5.0  # seconds


def grade_class(options):
    """Grade, write, and say how many; 0 when every answer got a verdict, 1 otherwise.

    Raises
    ------
    UnsupportedError  a sandbox would not keep its promise, here or on a worker, and --trust is not given
    CourseError       a request that cannot be met
    """
    try:
        if not options.trust and not options.scheduler:
            bubblewrap.usable()
        return _grade(options)
    except UnsupportedError as error:
        raise UnsupportedError(str(error).replace(bubblewrap.WITHOUT, "grade with --trust")) from None


def _grade(options):
    learners, stray = collect.collect(options.folder)
    exercises = _exercises(options.assigned, learners)
    points, wanted = _points(options.points, exercises), _jobs(learners, exercises, options)
    journal = Journal(options.out.with_name(f"{options.out.name}.journal"))
    try:
        errors = _judge(wanted, journal, options)
    except KeyboardInterrupt:
        print(f"course: stopped; the same command goes on from {journal.path}", file=sys.stderr)
        return STOPPED
    finally:
        journal.close()
    grades = Grades(
        exercises,
        points,
        {one.name: {name: _entry(one, name, wanted, journal, errors) for name in exercises} for one in learners},
        {one.name: one.problems for one in learners},
        stray,
    )
    _write(grades, options)
    return int(bool(errors))


def _exercises(assigned, learners):
    """The columns, in the course's order: what is assigned, or what any learner handed in."""
    known = registry.ids()
    if assigned is None:
        return [name for name in known if any(name in one.answers for one in learners)]
    for word in assigned:
        if not any(name == word or name.startswith(f"{word}.") for name in known):
            registry.folder_of(word)  # its error says what there is
    return [name for name in known if name in assigned or name.partition(".")[0] in assigned]


def _points(words, exercises):
    points = dict.fromkeys(exercises, 1.0)
    for word in words:
        name, _, number = word.partition("=")
        if name not in points or not number.replace(".", "", 1).isdigit():
            raise CourseError(
                f"--points {word}: expected NN.k=N with an exercise of this run, such as {[*exercises, '03.2'][0]}=2"
            )
        points[name] = float(number)
    return points


def _jobs(learners, exercises, options):
    """{(learner, exercise): Job}"""
    versions = {name: jobs.version(name) for name in exercises}
    folders = os.pathsep.join(map(str, registry.outside()))
    return {
        (one.name, name): jobs.Job(
            name, found.answer, options.seed, not options.trust, versions[name], options.seconds, folders
        )
        for one in learners
        for name, found in one.answers.items()
        if name in versions
    }


def _judge(wanted, journal, options):
    """Judge what the journal lacks; {key: sentence} of what got no verdict."""
    missing = {job.key: job for job in wanted.values() if job.key not in journal.verdicts}
    count, errors, started, said = len(missing), {}, time.monotonic(), 0.0
    print(f"{len(wanted)} answers, {count} to judge", flush=True)
    workers = max(1, min(options.jobs, count))
    outcomes = pool.outcomes(list(missing.values()), workers=workers, scheduler=options.scheduler)
    with contextlib.closing(outcomes):  # ends the judges at once when this stops early
        for done, (job, outcome) in enumerate(outcomes, 1):
            if "verdict" in outcome:
                journal.add(job.key, outcome["verdict"])
            else:
                errors[job.key] = outcome["error"]
            now = time.monotonic() - started
            if now - said >= _SAY_EVERY or done == count:
                said = now
                print(f"{done} of {count} judged, about {now / done * (count - done):.0f} s left", flush=True)
    return errors


def _entry(learner, exercise, wanted, journal, errors):
    job = wanted.get((learner.name, exercise))
    if job is None:
        return Entry()
    return Entry(learner.answers[exercise].where, journal.verdicts.get(job.key), errors.get(job.key, ""))


def _write(grades, options):
    write_atomic(options.out, gradebook.as_csv(grades))
    if options.json:
        write_atomic(options.json, gradebook.as_json(grades))
    if options.html:
        pages.write(grades, options.html)
    for sentence in grades.stray:
        print(f"  {sentence}")
    for learner, sentences in grades.problems.items():
        for sentence in sentences:
            print(f"  {learner}: {sentence}")
    for name in grades.exercises:
        print(f"{name}  {grades.passed(name)} of {len(grades.entries)} learners pass")
    print(f"{len(grades.entries)} learners; the gradebook is {options.out}")
