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


class Judge:
    """One judge's process: started when it is needed, and again when it has ended or the course's source has changed.

    Safe to use from several threads, one request after the other.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._worker, self._source = None, None  # the process, and the fingerprint of the source it was started on
        self._ended = False

    def warm_up(self):
        """The judge's process, started without waiting for it, so that the first check is as fast as the second."""
        if self._worker is None or not self._worker.running() or self._source != fingerprint():
            self.shut_down()
            self._worker, self._source = _process(), fingerprint()
            self._worker.start()
        return self._worker

    def start_early(self):
        """``warm_up``, unless a request is running."""
        if self._lock.acquire(blocking=False):
            with contextlib.suppress(Exception):
                self.warm_up()
            self._lock.release()

    def ask(self, request, seconds=_SECONDS):
        """What the judge's process replies within `seconds`; it is started again once when it ends."""
        with self._lock:
            for _ in range(2):
                if self._ended:
                    raise CourseError("the judge was ended before its verdict")
                try:
                    return json.loads(self.warm_up().call(request, seconds))
                except WorkerEndedError as error:
                    ended = error
        raise CourseError(
            f"the judge's process ended twice while it worked on this answer ({ended}); please report this as a bug of "
            "the course"
        )

    def shut_down(self):
        """End the judge's process, and with it the zygote and the child."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def end(self):
        """Shut down for good: a request that waits is not asked again."""
        self._ended = True
        self.shut_down()


def _process():
    """A judge's process that is not started yet. Folders of the notebook are not on its path."""
    path = os.pathsep.join(part for part in (str(_PACKAGE.parent), os.environ.get("PYTHONPATH", "")) if part)
    environment = _ONE_THREAD | {"PYTHONPATH": path}
    return Worker("course_lib.grading.judge.server:serve", environment, "the judge's process")


_usual = Judge()  # of this process's notebook or command
warm_up = _usual.warm_up
shut_down = atexit.register(_usual.shut_down)


def start_early():
    """``warm_up`` in a thread of its own. What goes wrong is reported by the check that needs the judge."""
    threading.Thread(target=_usual.start_early, name="judge", daemon=True).start()


def grade(exercise_id, answer, *, engine=None, seed=None, sandbox=False, judge=_usual, seconds=_SECONDS):
    """Have an answer judged.

    Parameters
    ----------
    exercise_id : str, "03.2"
    answer : Answer (answer.py): text, filename, first_line
    engine : "cpu", "gpu" or None (what this machine has)
    seed : int or None; None draws a random one
    sandbox : bool; run the answer inside bubblewrap
    judge : Judge that is asked; this process's own one
    seconds : float, until the judge is ended and asked once more

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
    verdict = verdict_from(judge.ask(request, seconds))
    verdict.excerpt = excerpt(answer, verdict.diagnosis.line if verdict.diagnosis else None)
    return verdict


def count_exercises():
    """How many exercises the judge knows, once it is ready; raises CourseError when it cannot start."""
    return _usual.ask({})


def verdict_from(plain):
    """The Verdict of `Verdict.to_dict`."""
    plain = dict(plain)
    plain["state"] = plain.pop("verdict")
    for name, kind in (("diagnosis", Diagnosis), ("first_wrong", FirstWrong)):
        plain[name] = kind(**plain[name]) if plain[name] else None
    plain["cases"] = [CaseOutcome(**case) for case in plain["cases"]]
    return Verdict(**plain)
