"""Runs an answer in a limited child process and brings back plain data: outputs, faults, what was printed.

The child is forked from a zygote (zygote.py) that has torch loaded, lives in a session of its own, and is limited in
time, memory, output and file size. What it sends is read as data that cannot run code. Python in one process cannot be
made tamper-proof: this guards against accidents and self-deception, and the sandbox (bubblewrap) against careless
strangers.

May import: protocol, wire, torch.
"""

import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from ..errors import UnsupportedError
from . import wire
from .protocol import ChildResult, Fault, RunResult

_ROOT = Path(__file__).resolve().parents[2]
_GRACE_SECONDS = 180.0  # beyond the wall limit: the zygote starts and, once for each version, builds the SIMT machine
_GPU_RESIDENT_FACTOR = 4  # a CUDA context alone keeps gigabytes resident
_SINGLE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Zygote:
    """A running zygote process and the socket to it; safe to use from several threads, one task after the other."""

    def __init__(self, engine, sandbox=False):
        self.engine, self.sandbox = engine, sandbox
        self.owner = os.getpid()
        self.lock = threading.Lock()
        self.socket, theirs = socket.socketpair()
        command = [sys.executable, str(Path(__file__).with_name("zygote.py")), str(theirs.fileno()), engine, str(_ROOT)]
        environment = os.environ | _SINGLE_THREAD | {"COURSE_ENGINE": engine}
        environment.pop("TRITON_INTERPRET", None)  # course_lib chooses again in the zygote, by the engine
        if sandbox:
            command = usable_sandbox(environment) + command
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        theirs.close()

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

    def run(self, task_bytes, limits):
        """One task. Returns (the account of how the child ended, None when the zygote died; result bytes)."""
        ours, theirs = socket.socketpair()
        with self.lock, ours, theirs, _memory_file("task") as task, _memory_file("result") as result:
            task.write(task_bytes)
            task.flush()
            try:
                socket.send_fds(
                    self.socket, [json.dumps(limits).encode()], [task.fileno(), result.fileno(), theirs.fileno()]
                )
            except OSError:
                return None, b""
            theirs.close()
            account = _account(ours, limits["wall_seconds"] + _GRACE_SECONDS)
            result.seek(0)
            return account, result.read()


def _memory_file(name):
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create(name), "w+b")
    return tempfile.TemporaryFile()


def _account(connection, seconds):
    connection.settimeout(seconds)
    data = b""
    try:
        while part := connection.recv(1 << 16):
            data += part
        return json.loads(data) if data else None
    except (TimeoutError, ConnectionError, ValueError):
        return None


def sandbox_command(environment):
    """The bubblewrap prefix: read-only files, no network, own processes. UnsupportedError when there is none."""
    program = shutil.which("bwrap")
    if program is None:
        raise UnsupportedError(
            "the sandbox needs bubblewrap, and `bwrap` is not on this machine; install it (Debian: apt install "
            "bubblewrap) or grade without --sandbox, which limits time, memory and output but not files and network"
        )
    usual = environment.get("COURSE_CACHE_DIR") or str(Path.home() / ".cache" / "attention-kernel-by-kernel")
    environment["COURSE_CACHE_OUTSIDE"], environment["COURSE_CACHE_DIR"] = usual, "/tmp/course-cache"
    environment["TRITON_CACHE_DIR"] = "/tmp/course-cache/triton"
    environment["HOME"] = "/tmp"
    return [
        program,
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/run",
        *_visible_roots(),
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--chdir",
        "/tmp",
        "--",
    ]


def usable_sandbox(environment):
    """`sandbox_command`, after it was seen to work; UnsupportedError when this system forbids sandboxes."""
    command = sandbox_command(environment)
    tried = subprocess.run(
        [*command, "true"], capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL
    )
    if tried.returncode != 0:
        raise UnsupportedError(
            f"bubblewrap is installed, but this system does not let it make a sandbox ({tried.stderr.strip()[:200]}); "
            "grade without --sandbox, which limits time, memory and output but not files and network"
        )
    return command


def _visible_roots():
    """The course and the Python environment again, should they lie under a folder that the sandbox empties."""
    roots = {str(_ROOT), sys.prefix, sys.base_prefix}
    return [word for root in sorted(roots) if root.startswith(("/tmp/", "/run/")) for word in ("--ro-bind", root, root)]


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


@atexit.register
def close_zygotes():
    """End the zygotes of this process."""
    while _zygotes:
        _, current = _zygotes.popitem()
        if current.owner == os.getpid():
            current.close()


def run_task(task, *, sandbox=False):
    """Run one answer in a limited child of its own.

    Parameters
    ----------
    task : ChildTask
    sandbox : bool; inside bubblewrap as well (read-only file system, no network)

    Returns
    -------
    ChildResult, with one RunResult for every run of the task, in order. It always comes back: an answer that hangs,
    crashes, fills memory or ends the process becomes a Fault.

    Raises
    ------
    UnsupportedError  sandbox asked for and bubblewrap is missing
    """
    on_gpu = task.engine == "gpu"
    limits = {
        "wall_seconds": task.wall_seconds,
        "output_bytes": task.output_bytes,
        "address_bytes": None if on_gpu else task.memory_bytes,
        "resident_bytes": task.memory_bytes * (_GPU_RESIDENT_FACTOR if on_gpu else 1),
    }
    current = zygote(task.engine, sandbox)
    account, data = current.run(wire.pack_task(task), limits)
    if account is None and _zygotes.pop((task.engine, sandbox), None) is not None:
        current.close()
    return _collect(task, account, data)


def _collect(task, account, data):
    records, damaged = _records(data)
    results = {}
    started, fault, finished = None, None, False
    for record in records:
        kind = record.get("record")
        if kind == "started":
            started = record.get("name")
        elif kind == "run":
            result = record["result"]
            results[result.name] = result
            started = None
        elif kind == "fault":
            fault = record["fault"]
        finished = finished or kind == "done"
    if damaged:
        fault = Fault(
            "exited",
            "The answer wrote into the channel that carries its results, so they cannot be read; "
            "write only to the outputs and to standard output.",
        )
    elif account is None or not finished:
        fault = fault or _ending(task, account)
    runs = [results.get(run.name) or RunResult(run.name) for run in task.runs]
    for result in runs:
        if result.name == started and fault is not None:
            result.fault = fault
    return ChildResult(runs, fault, _printed(account), account["seconds"] if account else task.wall_seconds)


def _records(data):
    """The child's records, and whether anything in them was not of the child's making."""
    records, position = [], 0
    try:
        while position < len(data):
            record, position = wire.unpack(data, position)
            if record.get("record") == "run":
                record["result"] = wire.run_result_from(record["result"])
            elif record.get("record") == "fault":
                record["fault"] = wire.fault_from(record["fault"])
            records.append(record)
    except (wire.WireError, AttributeError, KeyError, TypeError):
        return records, True
    return records, False


def _printed(account):
    if account is None:
        return ""
    dropped = account["dropped"]
    return account["printed"] + (f"\n[{dropped:,} more bytes of output were dropped]" if dropped else "")


def _ending(task, account):
    """The Fault for a child that did not come to its end."""
    if account is None:
        return Fault("killed", "The answer ended the process that watches it; nothing could be judged.")
    if account["stopped"] == "timeout":
        return _timeout(task, account["where"])
    if account["stopped"] == "memory":
        return _out_of_memory(task)
    if account["signalled"]:
        return _signal(account)
    return Fault(
        "exited",
        f"The answer ended its process with exit code {account['status']} before it was finished; "
        "return instead of calling exit.",
    )


def _out_of_memory(task):
    return Fault(
        "out_of_memory",
        f"The answer asked for more memory than the {task.memory_bytes / 2**30:.0f} GiB that it may have.",
    )


def _timeout(task, where):
    line, detail = _line_of(where), where
    at = f"; it stood in line {line}" if line else ""
    return Fault(
        "timeout",
        f"The answer was still running after {task.wall_seconds:g} s and was stopped{at}.",
        line,
        detail=detail,
    )


def _signal(account):
    number = account["status"]
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    line = _line_of(account["where"])
    at = f" in line {line}" if line else ""
    if number in (signal.SIGSEGV, signal.SIGBUS):
        return Fault(
            "out_of_bounds",
            f"The answer touched memory that is not its own{at} ({name}).",
            line,
            detail=account["where"],
        )
    if number == signal.SIGXFSZ:
        return Fault("killed", "The answer wrote a file larger than it may.", line)
    if number == signal.SIGXCPU:
        return Fault("timeout", f"The answer used up its processor time and was stopped{at}.", line)
    return Fault(
        "killed",
        f"The answer's process was killed{at} ({name}); an answer must return by itself.",
        line,
        detail=account["where"],
    )


_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+)')


def _line_of(trace):
    """The innermost line of the learner's own text in a faulthandler trace (newest frame first), or None."""
    from .loading import is_learners_file

    for frame in _FRAME.finditer(trace):
        if is_learners_file(frame["file"]):
            return int(frame["line"])
    return None
