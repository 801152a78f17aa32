"""A second Python process that answers requests one after the other, kept alive until this process ends.

The grader's judge is one, so that nothing that a notebook patches reaches it. Triton has others, since a process has
one Triton, the interpreter or the compiler: without a GPU the compile gate needs the compiler beside the interpreter,
and on a GPU machine profile_triton needs the interpreter beside the compiler. Starting such a process takes seconds.

May import: errors, loading.
"""

import atexit
import contextlib
import io
import os
import subprocess
import sys
import threading
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

from . import errors
from .loading import kept

_ROOT = Path(__file__).resolve().parents[1]
_workers = {}


class WorkerEndedError(errors.ToolchainError):
    """The process ended, or did not answer in time; the next call starts a fresh one."""


class Worker:
    """A process that answers each request by a function of the course.

    Parameters
    ----------
    factory : str, "module:function" inside the course. The function is called once in the new process, with the
        Connection to this one. It loads what requests need and returns ``handle(request) -> reply``. While `handle`
        runs, the connection is readable only when this process has gone.
    environment : dict of str, what differs from this process's environment
    name : str, what errors call the process
    """

    def __init__(self, factory, environment, name="The Triton process"):
        self._factory, self._environment, self._name = factory, environment, name
        self._owner, self.process, self._connection = os.getpid(), None, None
        self._lock = threading.Lock()

    def running(self):
        """Whether the process is alive and belongs to this process, not to the one that this was forked from."""
        return self._owner == os.getpid() and self.process is not None and self.process.poll() is None

    def start(self):
        """Start the process if it is not running, without waiting until it is ready."""
        if self.running():
            return
        self.close()
        here, there = Pipe()
        paths = [str(_ROOT), *(path for path in sys.path if path)]
        defaults = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(there.fileno()), self._factory],
            env=defaults | self._environment,
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # an interrupted cell interrupts this process alone; `call` then ends the other
        )
        there.close()
        self._owner, self._connection = os.getpid(), here

    def call(self, request, timeout=600.0):
        """Send one request and wait for its reply; what the request printed appears here.

        Raises
        ------
        CourseError       the handler raised it there
        WorkerEndedError  the process ended or did not answer within `timeout` seconds
        """
        with self._lock:
            self.start()
            try:
                kind, payload, printed = self._exchange(request, timeout)
            except BaseException:  # an interrupt, too: the process may be in the middle of the request
                self.close()
                raise
        if printed:
            print(printed, end="")
        if kind == "error":
            raise _rebuilt(*payload)
        return payload

    def _exchange(self, request, timeout):
        with contextlib.suppress(OSError):  # it may have ended with an error as its last word
            self._connection.send(request)
        try:
            if self._connection.poll(timeout):
                return self._connection.recv()
        except (EOFError, OSError) as error:
            code = self.process.wait(5)
            raise WorkerEndedError(f"{self._name} ended with code {code} before it answered.") from error
        raise WorkerEndedError(f"{self._name} was ended: no answer within {timeout:.0f} s.")

    def close(self):
        """End the process; in a fork of the process that started it, forget it."""
        if self.process is None:
            return
        self._connection.close()
        if self._owner == os.getpid():
            self.process.kill()
            self.process.wait()
        self.process = self._connection = None


def worker(factory, environment):
    """Return the worker for this factory, the same one at every call; it ends with this process."""
    key = (factory, os.getpid())
    if key not in _workers:
        _workers[key] = Worker(factory, environment)
        atexit.register(_workers[key].close)
    return _workers[key]


def _rebuilt(name, message, details):
    kind = getattr(errors, name, errors.CourseError)
    error = kind(message)
    for key, value in details.items():
        setattr(error, key, value)
    return error


def _serve(connection, factory):
    """Answer requests until the other side closes; a factory that fails answers the first one with its error."""
    with contextlib.suppress(EOFError, OSError):
        kind, made = _answer(factory, connection)
        if kind == "error":
            connection.send((kind, made, ""))
            return
        while True:
            request, printed = connection.recv(), io.StringIO()
            with contextlib.redirect_stdout(printed):
                reply = _answer(made, request)
            connection.send((*reply, printed.getvalue()))


def _answer(handle, request):
    """("ok", what `handle` returned) or ("error", what is needed to raise its error on the other side)."""
    try:
        return "ok", handle(request)
    except errors.CourseError as error:
        plain = {k: v for k, v in vars(error).items() if isinstance(v, (str, int, float, tuple, type(None)))}
        return "error", (type(error).__name__, str(error), plain)
    except Exception as error:
        return "error", ("CourseError", f"{type(error).__name__}: {error}", {})


def _main(descriptor, factory):
    module, function = factory.split(":")
    connection = Connection(int(descriptor))

    def make(connection):
        with kept():
            __import__(module)
            return getattr(sys.modules[module], function)(connection)

    _serve(connection, make)


if __name__ == "__main__":
    _main(*sys.argv[1:])
