"""`course progress`: what is passed, chapter by chapter, what comes next, and how many minutes are left.

May import: grading.exercise, grading.records.
"""

from itertools import groupby

from ..grading.exercise import registry
from ..grading.records import predictions, work

TITLE_WIDTH = 56


def lines(progress):
    """The table, then the next exercise and the sum.

    Parameters
    ----------
    progress : dict, exercise id -> {"attempts", "hints", "passed_at"}, as `work.progress()` gives it
    """
    known = registry.documents()
    open_ones = {number: task for number, task in known.items() if "passed_at" not in progress.get(number, {})}
    yield f"{'':2} {'exercise':<{TITLE_WIDTH}} {'minutes':>7} {'tries':>5} {'hints':>5}  passed"
    for chapter, tasks in groupby(known.items(), key=lambda item: item[0].partition(".")[0]):
        tasks = dict(tasks)
        yield ""
        yield _of_chapter(chapter, tasks, [number for number in tasks if number in open_ones])
        yield from (_row(task, progress.get(number, {})) for number, task in tasks.items())
    yield ""
    yield from _what_next(open_ones, len(known))


def _of_chapter(chapter, tasks, unsolved):
    left = sum(tasks[number].minutes for number in unsolved)
    return f"chapter {chapter}: {len(tasks) - len(unsolved)} of {len(tasks)} passed" + (
        f", {_time(left)} left" if left else ""
    )


def _row(task, entry):
    symbol = "✔" if "passed_at" in entry else ("…" if entry.get("attempts") else "○")
    passed = entry.get("passed_at", "").partition("T")[0]
    tries, hints = entry.get("attempts", 0), entry.get("hints", 0)
    name = _cut(f"{task.id} {task.title}")
    return f"{symbol:2} {name:<{TITLE_WIDTH}} {task.minutes:>7} {tries:>5} {hints:>5}  {passed}".rstrip()


def _what_next(open_ones, total):
    left = sum(task.minutes for task in open_ones.values())
    answers = work.root() / "answers"
    yield (
        f"{total - len(open_ones)} of {total} passed"
        + (f", {_time(left)} left" if left else "")
        + f"; your answers are in {answers}"
    )
    if open_ones:
        task = next(iter(open_ones.values()))
        yield f"next: {task.id} {task.title}, {task.minutes} minutes (`course show {task.id}`)"


def guesses():
    """Predictions beside measurements; nothing before the first prediction."""
    rows = [(shown.key, *row) for shown in predictions.kept() for row in shown.rows()]
    if rows:
        yield f"   {'guess first':<30} {'your guess':>14} {'measured':>14}"
    for key, name, guess, measured, remark in rows:
        yield f"   {f'{key} {name}':<30} {guess:>14} {measured if measured != '-' else '':>14}  {remark}"


def _cut(text):
    return text if len(text) <= TITLE_WIDTH else f"{text[: TITLE_WIDTH - 1]}…"


def _time(minutes):
    """ "45 minutes", "12 hours" """
    return f"{minutes} minutes" if minutes < 120 else f"{round(minutes / 60)} hours"
