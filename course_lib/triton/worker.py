"""A second Python process with the other Triton in it, kept alive over many requests.

A process has one Triton: the interpreter or the compiler. On a machine without a GPU the compile gate needs the
compiler beside the interpreter; on a GPU machine profile_triton needs the interpreter beside the compiler. Starting
such a process costs some seconds (torch, triton), so it stays until this process ends.

May import: errors.
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

from .. import errors

_ROOT = Path(__file__).resolve().parents[2]
_workers = {}


class Worker:
    """A process that runs one function of the course, ``handler(request) -> reply``, for each request.

    Parameters
    ----------
    handler : str, "module:function" inside the course
    environment : dict of str, what differs from this process's environment
    """

    def __init__(self, handler, environment):
        self._handler, self._environment = handler, environment
        self._process = self._connection = None
        self._lock = threading.Lock()

    def call(self, request, timeout=600.0):
        """Send one request and wait for its reply; what the request printed appears here.

        Raises
        ------
        CourseError      the handler raised it there
        ToolchainError   the process ended or did not answer within `timeout` seconds; the next call starts a fresh one
        """
        with self._lock:
            self._start()
            try:
                self._connection.send(request)
                if not self._connection.poll(timeout):
                    raise errors.ToolchainError(f"The Triton process was ended: no answer within {timeout:.0f} s.")
                kind, payload, printed = self._connection.recv()
            except (EOFError, OSError) as error:
                code = self._process.wait(5)
                raise errors.ToolchainError(f"The Triton process ended with code {code} before it answered.") from error
            finally:
                if sys.exc_info()[0] is not None:
                    self.close()
        if printed:
            print(printed, end="")
        if kind == "error":
            raise _rebuilt(*payload)
        return payload

    def close(self):
        """End the process."""
        if self._process is None:
            return
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self._process = self._connection = None

    def _start(self):
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        here, there = Pipe()
        paths = [str(_ROOT), *(p for p in sys.path if p)]
        environment = {**os.environ, **self._environment, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "course_lib.triton.worker", str(there.fileno()), self._handler],
            env=environment,
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # an interrupted cell interrupts this process alone; `call` then ends the other
        )
        there.close()
        self._connection = here


def worker(handler, environment):
    """Return the worker for this handler, the same one at every call; it ends with this process."""
    key = (handler, os.getpid())
    if key not in _workers:
        _workers[key] = Worker(handler, environment)
        atexit.register(_end, *key)
    return _workers[key]


def _end(handler, owner):
    if os.getpid() == owner:  # a forked child inherits the registration, not the process
        _workers[handler, owner].close()


def _rebuilt(name, message, details):
    kind = getattr(errors, name, errors.CourseError)
    error = kind(message)
    for key, value in details.items():
        setattr(error, key, value)
    return error


def _serve(connection, handle):
    """Answer requests until the other side closes."""
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            return
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            reply = _answer(handle, request)
        connection.send((*reply, printed.getvalue()))


def _answer(handle, request):
    try:
        return "ok", handle(request)
    except errors.CourseError as error:
        plain = {k: v for k, v in vars(error).items() if isinstance(v, (str, int, float, tuple, type(None)))}
        return "error", (type(error).__name__, str(error), plain)
    except Exception as error:
        return "error", ("CourseError", f"{type(error).__name__}: {error}", {})


def _main(descriptor, handler):
    module, function = handler.split(":")
    __import__(module)
    _serve(Connection(int(descriptor)), getattr(sys.modules[module], function))


if __name__ == "__main__":
    _main(*sys.argv[1:])
