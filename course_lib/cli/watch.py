"""`course watch 03.2 answer.cu`: the verdict again at each save, for those who write in an editor of their own.

May import: errors, checklist, grading.
"""

import time

from ..errors import CourseError
from ..grading.answer.text import from_file
from ..grading.exercise import registry
from ..grading.judge import client

PAUSE_S = 0.3  # between two looks at the file
CLEAR = "\n" + "─" * 72


def watch(exercise_id, path, *, engine=None, looks=None):
    """Judge the file now and whenever it has changed, until Ctrl+C.

    Parameters
    ----------
    exercise_id : str, "03.2"
    path : Path; a file that is not there begins as the starter, one that is there is never written
    looks : int or None; how often to look at the file, for tests; None looks for ever

    Yields
    ------
    str, what to print
    """
    task = registry.get_document(exercise_id)
    if not path.exists():
        _begin(task, path)
        yield f"{path} begins with the starter of {task.id}; write your answer there."
    yield f"watching {path}: save it for a verdict on {task.id}, Ctrl+C ends"
    before, look = None, 0
    while looks is None or look < looks:
        look += 1
        now = _stamp(path)
        if now is not None and now != before:
            yield f"{CLEAR}\n{_verdict(task.id, path, engine)}"
        before = now or before
        if looks is None or look < looks:
            time.sleep(PAUSE_S)


def _begin(task, path):
    from ..checklist import starter_text

    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(starter_text(task))
    except OSError as error:
        raise CourseError(f"{path} cannot be written: {error.strerror}; name a file in a folder that exists") from None


def _stamp(path):
    """What changes when the file is saved; None while an editor replaces it."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _verdict(exercise_id, path, engine):
    try:
        return client.grade(exercise_id, from_file(path), engine=engine)
    except CourseError as error:  # a half-written file is no reason to stop watching
        return f"course: {error}"
