"""Runs an answer in a limited child process and brings back plain data: outputs, faults, what was printed.

The child is forked from a zygote (zygote.py) that has torch loaded, lives in a session of its own, and is limited in
time, memory, output and file size. What it sends is read as data that cannot run code. Python in one process cannot be
made tamper-proof: this guards against accidents and self-deception, and the sandbox (bubblewrap) against careless
strangers.

May import: errors, bubblewrap, cgroup, family, outcome, wire, zygote.
"""

import atexit
import contextlib
import json
import multiprocessing
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from ...errors import UnsupportedError
from . import bubblewrap, cgroup, family, outcome, wire
from . import zygote as zygote_program

_ROOT = Path(__file__).resolve().parents[3]
_GRACE_SECONDS = 180.0  # beyond the wall limit: the zygote starts and, once for each version, builds the SIMT machine
_GPU_RESIDENT_FACTOR = 4  # a CUDA context alone keeps gigabytes resident
_SINGLE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class CallerGoneError(Exception):
    """The process that asked for the run has gone; the zygote ends the child when its own connection closes."""


class Zygote:
    """A running zygote process and the socket to it; safe to use from several threads, one task after the other."""

    def __init__(self, engine, sandbox=False, fork_without=None):
        """`fork_without`: a Connection; the zygote is a fork of this process that has closed it, not a new program."""
        self.owner = os.getpid()
        self.lock = threading.Lock()
        self.loads = fork_without is None
        self.group, self.folder = None, tempfile.mkdtemp(prefix=zygote_program.FOLDER)
        self.socket, theirs = socket.socketpair()
        if fork_without is not None:
            others = [one.socket for one in _zygotes.values()]
            self.process = _forked(theirs, engine, self.folder, without=(fork_without, self.socket, *others))
        else:
            self.group = cgroup.Group() if sandbox else None
            self.process = _started(theirs, engine, self.folder, self.group)
        theirs.close()

    def load(self):
        """Have it load what its answers need, without waiting: a fork may do so only when the first one comes."""
        if not self.loads:
            self.loads = True
            with contextlib.suppress(OSError):
                self.socket.send(zygote_program.LOAD)

    def alive(self):
        return self.process.poll() is None if self.owner == os.getpid() else True

    def close(self):
        self.socket.close()  # the zygote ends when its socket does
        if self.owner == os.getpid():
            try:
                self.process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.group is not None:
                self.group.close()

    def run(self, task_bytes, limits, caller=None):
        """One task. Returns (the account of how the child ended, None when the zygote died; result bytes)."""
        family.adopt()  # what a zygote leaves that is killed by its answer
        before = family.children(os.getpid())
        try:
            account, data = self._exchange(task_bytes, limits, caller)
            if account is None and self.owner == os.getpid():
                self.process.kill()
                self.process.wait()  # its children are ours only when it is gone; its socket closes before
                ours = [one.process.pid for one in _zygotes.values()]
                family.end_children(but=(*before, *ours, self.process.pid))
            return account, data
        finally:
            family.adopt(False)

    def _exchange(self, task_bytes, limits, caller):
        ours, theirs = socket.socketpair()
        with self.lock, ours, theirs, _file("task") as task, _file("result") as result:
            task.write(task_bytes)
            task.flush()
            try:
                socket.send_fds(
                    self.socket, [json.dumps(limits).encode()], [task.fileno(), result.fileno(), theirs.fileno()]
                )
            except OSError:
                return None, b""
            theirs.close()
            account = _account(ours, limits["wall_seconds"] + _GRACE_SECONDS, caller)
            result.seek(0)
            return account, result.read()


def _large_pages():
    """glibc takes large pages for what torch allocates: a fork copies the table of pages, and its end takes it apart.

    What the user has tuned stays.
    """
    tuned = os.environ.get("GLIBC_TUNABLES", "")
    return {"GLIBC_TUNABLES": ":".join(filter(None, ("glibc.malloc.hugetlb=1", tuned)))}


def _engine_variables(engine):
    if engine == "compile":  # Triton's compiler, which a process has only instead of its interpreter
        return {"COURSE_ENGINE": "cpu", "TRITON_INTERPRET": "0"}
    return {"COURSE_ENGINE": engine}


def _started(connection, engine, folder, group):
    """zygote.py as a program of its own, a subprocess.Popen; in a sandbox with the cgroup `group`, or None."""
    path = Path(__file__).with_name("zygote.py")
    command = [sys.executable, str(path), str(connection.fileno()), engine, str(_ROOT)]
    environment = _SINGLE_THREAD | _large_pages()
    if group is not None:
        command, environment = bubblewrap.usable() + command, bubblewrap.environment(environment)
    else:
        environment = os.environ | environment | {"TMPDIR": folder}
        environment.pop("TRITON_INTERPRET", None)  # course_lib chooses again in the zygote, by the engine
    environment |= _engine_variables(engine)
    if engine != "gpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""  # where there is a GPU, its answers run elsewhere
    return subprocess.Popen(
        command,
        pass_fds=[connection.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
        preexec_fn=group.enter if group is not None else None,
    )


class _Forked(multiprocessing.get_context("fork").Process):
    """A zygote forked from this process, with the methods of subprocess.Popen that Zygote uses."""

    def poll(self):
        return None if self.is_alive() else self.exitcode

    def wait(self, timeout=None):
        self.join(timeout)
        if self.is_alive():
            raise subprocess.TimeoutExpired("zygote", timeout)


def _become_zygote(connection, engine, folder, without):
    os.setsid()
    tempfile.tempdir = folder
    null = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1):
        os.dup2(null, target)
    os.close(null)
    for other in without:
        other.close()
    os.environ.update(_engine_variables(engine))
    zygote_program.main(connection.detach(), engine, str(_ROOT), at_once=engine != "compile")


def _forked(connection, engine, folder, without):
    """zygote.py as a fork of this process, with `without` closed."""
    process = _Forked(target=_become_zygote, args=(connection, engine, folder, without), daemon=True)
    process.start()
    return process


def _account(connection, seconds, caller):
    """The zygote's account, None when it died; CallerGoneError when the caller's connection is closed first."""
    deadline, data = time.monotonic() + seconds, b""
    watched = [connection] if caller is None else [connection, caller]
    while (left := deadline - time.monotonic()) > 0.0:
        ready, _, _ = select.select(watched, [], [], left)
        if connection in ready:
            part = connection.recv(1 << 16)
            if not part:
                break
            data += part
        elif caller in ready:
            raise CallerGoneError
    with contextlib.suppress(ValueError):
        return json.loads(data) if data else None


def _file(name):
    return os.fdopen(zygote_program.memory_file(name), "w+b")


_zygotes: dict[tuple[str, bool], Zygote] = {}


def zygote(engine="cpu", sandbox=False):
    """The zygote of this process (started at first use, and again when it has died)."""
    key = (engine, sandbox)
    current = _zygotes.get(key)
    if current is None or not current.alive():
        if current is not None:
            current.close()
        current = _zygotes[key] = Zygote(engine, sandbox)
    return current


def fork_zygotes(without):
    """Make the zygotes of the CPU and of the compilers forks of this process, which has torch loaded: seconds spared.

    For a process that runs one thread, has loaded no Triton, has not asked for a GPU and knows nothing yet that an
    answer should not see.

    Parameters
    ----------
    without : Connection that the zygotes must not keep open
    """
    for engine in ("cpu", "compile"):
        _zygotes[engine, False] = Zygote(engine, fork_without=without)


@atexit.register
def close_zygotes(sandbox=None):
    """End the zygotes of this process: all, or only those inside or outside a sandbox."""
    for key in [key for key in _zygotes if sandbox in (None, key[1])]:
        current = _zygotes.pop(key)
        if current.owner == os.getpid():
            current.close()


def run_task(task, *, sandbox=False, caller=None):
    """Run one answer in a limited child of its own.

    Parameters
    ----------
    task : ChildTask
    sandbox : bool; inside bubblewrap as well (an allow-list of files, no network, no root); on the CPU only
    caller : Connection or None; the run is given up when its other end is closed

    Returns
    -------
    ChildResult, with one RunResult for every run of the task, in order. It always comes back: an answer that hangs,
    crashes, fills memory or ends the process becomes a Fault.

    Raises
    ------
    UnsupportedError  sandbox asked for and bubblewrap is missing
    CallerGoneError   `caller` was closed
    """
    on_gpu = task.engine == "gpu"
    if on_gpu and sandbox:
        raise UnsupportedError("the sandbox judges on the CPU: a GPU's driver is shared with the whole machine")
    limits = {
        "language": task.language,
        "meta": task.meta,
        "wall_seconds": task.wall_seconds,
        "cpu_seconds": task.cpu_seconds,
        "output_bytes": task.output_bytes,
        "address_bytes": None if on_gpu else task.memory_bytes,
        "resident_bytes": task.memory_bytes * (_GPU_RESIDENT_FACTOR if on_gpu else 1),
    }
    current = zygote(task.engine, sandbox)
    account, data = current.run(wire.pack_task(task), limits, caller)
    if account is None and _zygotes.pop((task.engine, sandbox), None) is not None:
        current.close()
    return outcome.collect(task, account, data)
