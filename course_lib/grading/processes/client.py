"""The notebook's side of the judge server: start it, send a text, read a verdict. Nothing is judged here.

May import: wire, verdict, registry, errors.
"""

import atexit
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path

from ...errors import CourseError
from ..answer.text import excerpt
from ..exercise import registry
from ..report.verdict import CaseOutcome, Diagnosis, FirstWrong, Verdict

_PACKAGE = Path(__file__).resolve().parents[2]
_SOURCES = (".py", ".h", ".hpp", ".cpp", ".cu", ".cuh")
_START_SECONDS, _VERDICT_SECONDS = 120.0, 600.0
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def fingerprint():
    """What the course's own source looks like now; a server that was started on another one is stale."""
    count, newest = 0, 0
    for folder, _, names in os.walk(_PACKAGE):
        for name in names:
            if name.endswith(_SOURCES):
                count += 1
                newest = max(newest, os.stat(os.path.join(folder, name)).st_mtime_ns)
    return count, newest


class Server:
    """A running judge server and the socket to it."""

    def __init__(self):
        self.owner, self.fingerprint, self.ready = os.getpid(), fingerprint(), None
        self.connection, theirs = socket.socketpair()
        path = os.pathsep.join(part for part in (str(_PACKAGE.parent), os.environ.get("PYTHONPATH", "")) if part)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "course_lib.grading.processes.server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | _ONE_THREAD | {"PYTHONPATH": path},
        )
        theirs.close()

    def usable(self):
        return self.owner == os.getpid() and self.process.poll() is None and self.fingerprint == fingerprint()

    def ask(self, request):
        """Send one request and wait for its reply. None when the server is gone."""
        from . import wire

        try:
            if self.ready is None:
                self.connection.settimeout(_START_SECONDS)
                self.ready = wire.receive(self.connection)
            if "error" in self.ready:
                return self.ready
            self.connection.settimeout(_VERDICT_SECONDS)
            wire.send(self.connection, request | {"engine": request["engine"] or self.ready["engine"]})
            return wire.receive(self.connection)
        except (OSError, TypeError):
            return None

    def close(self):
        self.connection.close()  # server, judge and child end with it
        if self.owner == os.getpid():
            try:
                self.process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


_lock = threading.Lock()
_server = None


def warm_up():
    """Start the judge server without waiting for it, so that the first check is as fast as the second."""
    global _server
    if _server is None or not _server.usable():
        shut_down()
        _server = Server()
    return _server


def start_early():
    """``warm_up`` in a thread of its own. Whatever goes wrong is told by the check that needs the judge."""

    def start():
        if _lock.acquire(blocking=False):  # else a check is at it
            with contextlib.suppress(Exception):
                warm_up()
            _lock.release()

    threading.Thread(target=start, name="judge", daemon=True).start()


@atexit.register
def shut_down():
    """End the judge server of this process."""
    global _server
    if _server is not None:
        _server.close()
        _server = None


def grade(exercise_id, answer, *, engine=None, seed=None, sandbox=False):
    """Have an answer judged.

    Parameters
    ----------
    exercise_id : str, "03.2"
    answer : Answer (answer.py): text, filename, first_line
    engine : "cpu", "gpu" or None (what this machine has)
    seed : int or None; None draws one that nobody can guess
    sandbox : bool; run the answer inside bubblewrap

    Returns
    -------
    Verdict

    Raises
    ------
    CourseError  the exercise does not exist, or the judge failed
    """
    request = {
        "op": "grade",
        "exercise": exercise_id,
        "text": answer.text,
        "filename": answer.filename,
        "first_line": answer.first_line,
        "engine": engine,
        "seed": secrets.randbits(48) if seed is None else seed,
        "sandbox": sandbox,
        "exercises": os.pathsep.join(map(str, registry.outside())),
    }
    with _lock:
        reply = _ask(request)
    if reply is None:
        raise CourseError(
            "the judge's process ended twice while it worked on this answer; please report this as a bug of the course"
        )
    if "error" in reply:
        raise CourseError("\n".join(part for part in (reply["error"], reply.get("trace")) if part))
    verdict = verdict_from(reply["verdict"])
    verdict.excerpt = excerpt(answer, verdict.diagnosis.line if verdict.diagnosis else None)
    return verdict


def _ask(request):
    for _ in range(2):
        try:
            reply = warm_up().ask(request)
        except KeyboardInterrupt:
            shut_down()  # the judge and the child end with the server
            raise
        if reply is not None:
            return reply
        shut_down()
    return None


def verdict_from(plain):
    """The Verdict of `Verdict.to_dict`."""
    plain = dict(plain)
    plain["state"] = plain.pop("verdict")
    for name, kind in (("diagnosis", Diagnosis), ("first_wrong", FirstWrong)):
        plain[name] = kind(**plain[name]) if plain[name] else None
    plain["cases"] = [CaseOutcome(**case) for case in plain["cases"]]
    return Verdict(**plain)
