"""The notebook's side of the judge: start its process, send a text, read a verdict. Nothing is judged here.

May import: errors, answer.text, exercise.registry, report.verdict, worker.
"""

import atexit
import contextlib
import json
import os
import secrets
import threading
from pathlib import Path

from ...errors import CourseError
from ...worker import Worker, WorkerEndedError
from ..answer.text import excerpt
from ..exercise import registry
from ..report.verdict import CaseOutcome, Diagnosis, FirstWrong, Verdict

_PACKAGE = Path(__file__).resolve().parents[2]
_SOURCES = (".py", ".h", ".hpp", ".cpp", ".cu", ".cuh")
_SECONDS = 720.0  # for a verdict, from a judge that may still have to start
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def fingerprint():
    """Number and newest time of the course's source files; a judge that was started on others is stale."""
    count, newest = 0, 0
    for folder, _, names in os.walk(_PACKAGE):
        for name in names:
            if name.endswith(_SOURCES):
                count += 1
                newest = max(newest, os.stat(os.path.join(folder, name)).st_mtime_ns)
    return count, newest


def _judge():
    """A judge's process that is not started yet. Folders of the notebook are not on its path."""
    path = os.pathsep.join(part for part in (str(_PACKAGE.parent), os.environ.get("PYTHONPATH", "")) if part)
    environment = _ONE_THREAD | {"PYTHONPATH": path}
    return Worker("course_lib.grading.judge.server:serve", environment, "the judge's process")


_lock = threading.Lock()
_worker, _source = None, None  # the judge's process, and the fingerprint of the source that it was started on


def warm_up():
    """The judge's process, started without waiting for it, so that the first check is as fast as the second."""
    global _worker, _source
    if _worker is None or not _worker.running() or _source != fingerprint():
        shut_down()
        _worker, _source = _judge(), fingerprint()
        _worker.start()
    return _worker


def start_early():
    """``warm_up`` in a thread of its own. What goes wrong is reported by the check that needs the judge."""

    def start():
        if _lock.acquire(blocking=False):  # else a check is running
            with contextlib.suppress(Exception):
                warm_up()
            _lock.release()

    threading.Thread(target=start, name="judge", daemon=True).start()


@atexit.register
def shut_down():
    """End the judge's process, and with it the zygote and the child."""
    global _worker
    if _worker is not None:
        _worker.close()
        _worker = None


def grade(exercise_id, answer, *, engine=None, seed=None, sandbox=False):
    """Have an answer judged.

    Parameters
    ----------
    exercise_id : str, "03.2"
    answer : Answer (answer.py): text, filename, first_line
    engine : "cpu", "gpu" or None (what this machine has)
    seed : int or None; None draws a random one
    sandbox : bool; run the answer inside bubblewrap

    Returns
    -------
    Verdict

    Raises
    ------
    CourseError  the exercise does not exist, or the judge failed
    """
    request = {
        "exercise": exercise_id,
        "text": answer.text,
        "filename": answer.filename,
        "first_line": answer.first_line,
        "engine": engine,
        "seed": secrets.randbits(48) if seed is None else seed,
        "sandbox": sandbox,
        "folders": os.pathsep.join(map(str, registry.outside())),
    }
    verdict = verdict_from(_ask(request))
    verdict.excerpt = excerpt(answer, verdict.diagnosis.line if verdict.diagnosis else None)
    return verdict


def count_exercises():
    """How many exercises the judge knows, once it is ready; raises CourseError when it cannot start."""
    return _ask({})


def _ask(request):
    """What the judge's process replies; it is started again once when it ends."""
    with _lock:
        for _ in range(2):
            try:
                return json.loads(warm_up().call(request, _SECONDS))
            except WorkerEndedError:
                continue
    raise CourseError(
        "the judge's process ended twice while it worked on this answer; please report this as a bug of the course"
    )


def verdict_from(plain):
    """The Verdict of `Verdict.to_dict`."""
    plain = dict(plain)
    plain["state"] = plain.pop("verdict")
    for name, kind in (("diagnosis", Diagnosis), ("first_wrong", FirstWrong)):
        plain[name] = kind(**plain[name]) if plain[name] else None
    plain["cases"] = [CaseOutcome(**case) for case in plain["cases"]]
    return Verdict(**plain)
