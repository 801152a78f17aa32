"""The process from which children are forked: torch is loaded once, every answer gets a fresh copy in milliseconds.

It takes requests from a socket, one after the other: limits as one line of JSON, and with it three descriptors (the
task's bytes, the file for the results, a socket for the answer). It forks the child, keeps the limits, and afterwards
kills every process that the child started.

Runs as a script, or without a GPU as a fork of the judge. Before it forks it imports the course, but for answers
that run on a GPU: a forked copy of a process that has asked the NVIDIA driver for its GPUs cannot use them.

May import: confine, family, loading; child, child_cuda, meta_warm, torch, each after the start.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time

if __name__ == "__main__":  # a script of its own: the third argument names the folder that holds the course
    sys.path[0] = sys.argv[3]
from course_lib.grading.processes import confine, family  # noqa: E402
from course_lib.loading import kept  # noqa: E402

_DEATH_SIGNAL = 1  # prctl option
LOAD = b"load"  # a request to load what answers need
FOLDER = "course-zygote-"  # how the folder begins in which a zygote makes those of its answers
_SAMPLE_SECONDS = 0.05
_TRACE_SECONDS = 1.0  # how long a stopped answer may take to write its stack


def _prctl(option, value):
    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # macOS: no such call; killpg alone must do


def _processor_seconds(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0  # macOS: the wall time alone must do


def _ending(pid):
    """None while the child runs, then (ended by a signal, signal or exit code); where possible it stays a zombie."""
    if hasattr(os, "waitid"):
        info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return info and (info.si_code != os.CLD_EXITED, info.si_status)
    found, status = os.waitpid(pid, os.WNOHANG)  # macOS before Python 3.13
    if found == 0:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code < 0, abs(code)


class _Output:
    """Reads what the child prints: the first `keep` bytes are kept, the rest is counted and dropped."""

    def __init__(self, descriptor, keep):
        self.descriptor, self.keep = descriptor, keep
        self.kept, self.dropped, self.open = bytearray(), 0, True
        os.set_blocking(descriptor, False)

    def drain(self, rounds=64):
        for _ in range(rounds):
            try:
                chunk = os.read(self.descriptor, 1 << 16)
            except BlockingIOError:
                return
            if not chunk:
                self.open = False
                return
            room = max(self.keep - len(self.kept), 0)
            self.kept += chunk[:room]
            self.dropped += len(chunk[room:])


class _Watch:
    """Waits for one child within its limits."""

    def __init__(self, pid, limits, output, reply, trace, wake, builder):
        self.pid, self.limits, self.output, self.reply, self.trace, self.wake = pid, limits, output, reply, trace, wake
        self.builder, self.shared = builder, family.resident_bytes(os.getpid())
        self.stopped = ""  # why we ended it: "timeout", "memory", "processes", "abandoned"

    def run(self):
        """Returns ((ended by a signal, signal or exit code), the child's last stack as text)."""
        deadline = time.monotonic() + self.limits["wall_seconds"]
        where, kill_at = "", None
        while True:
            ending = _ending(self.pid)
            self.output.drain()
            if ending is not None:
                return ending, where or self._trace_text()
            now = time.monotonic()
            if not self.stopped:
                self.stopped = self._reason(now, deadline)
                if self.stopped == "timeout":  # have it write its stack before it is killed
                    os.kill(self.pid, signal.SIGUSR1)
                    kill_at = now + _TRACE_SECONDS
                elif self.stopped:
                    kill_at = now
            if kill_at is not None and (now >= kill_at or is_whole(where := self._trace_text())):
                family.kill_group(self.pid)
            self._wait(deadline - now)

    def _reason(self, now, deadline):
        if now >= deadline:
            return "timeout"
        if 0 < self.limits["cpu_seconds"] < _processor_seconds(self.pid):
            return "timeout"
        others = family.below(os.getpid(), without=self.builder)
        if family.held_bytes(self.pid, others, self.shared) > self.limits["resident_bytes"]:
            return "memory"
        return "processes" if len(others) > family.MOST_PROCESSES else ""

    def _wait(self, seconds):
        sources = [self.wake] + ([self.output.descriptor] if self.output.open else [])
        if not self.stopped:
            sources.append(self.reply)
        ready, _, _ = select.select(sources, [], [], max(min(seconds, _SAMPLE_SECONDS), 0.005))
        if self.wake in ready:
            os.read(self.wake, 512)
        if self.reply in ready and self.reply.recv(1) == b"":  # the judge is gone
            self.stopped = "abandoned"
            family.kill_group(self.pid)

    def _trace_text(self):
        size = os.fstat(self.trace).st_size
        return os.pread(self.trace, min(size, 1 << 16), 0).decode(errors="replace")


def _fork_child(task, result, trace, out, folder, limits, others):
    pid = os.fork()
    if pid:
        return pid
    try:
        for descriptor in others:
            os.close(descriptor)
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
        from course_lib.grading.processes import child

        child.main(task, result, trace, out, folder, limits)
    finally:
        os._exit(70)


def is_whole(stack):
    """Whether faulthandler has written all frames: it writes one after the other, at most 100, the outermost last.

    That is of a program of its own, or of a module that was run by -m.
    """
    return stack.endswith((" in <module>\n", " in _run_module_as_main\n", "  ...\n"))


def memory_file(name):
    """The descriptor of a file in memory, or on disk where the system has none."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _serve(request, descriptors, main, wake, builder):
    """Run one task and send the account of how its child ended."""
    task, result, reply_descriptor = descriptors
    reply = socket.socket(fileno=reply_descriptor)
    limits = json.loads(request)
    if builder and limits["language"] == "cuda":
        family.wait_for(builder)  # the SIMT machine must be built before an answer's time runs
        from course_lib.grading.processes import child_cuda

        child_cuda.load_machine()
    if limits["meta"]:
        from course_lib.grading.processes import meta_warm

        meta_warm.warm()
    folder = tempfile.mkdtemp(prefix="course-answer-")
    trace = memory_file("trace")
    try:
        account = _run_child(task, result, trace, reply, folder, limits, [main.fileno(), wake], builder)
        shutil.rmtree(folder, ignore_errors=True)
        reply.sendall(json.dumps(account).encode())
    except (BrokenPipeError, ConnectionResetError):
        pass  # the judge is gone and the child is dead
    finally:
        for descriptor in (task, result, trace):
            os.close(descriptor)
        reply.close()
        shutil.rmtree(folder, ignore_errors=True)


def _run_child(task, result, trace, reply, folder, limits, others, builder):
    """Fork the child, wait for it within its limits, kill what is left of it. Returns the account of how it ended."""
    started = time.monotonic()
    read_end, write_end = os.pipe()
    try:
        pid = _fork_child(task, result, trace, write_end, folder, limits, [*others, reply.fileno(), read_end])
        os.close(write_end)
        output = _Output(read_end, limits["output_bytes"])
        watch = _Watch(pid, limits, output, reply, trace, others[-1], builder)
        (signalled, status), where = watch.run()
        family.kill_group(pid)  # its leader is still a zombie, so the number belongs to no other process
        family.wait_for(pid)
        family.end_children(but=(builder,))
        output.drain()
    finally:
        os.close(read_end)
    return {
        "stopped": watch.stopped,
        "signalled": signalled,
        "status": status,
        "where": where,
        "printed": output.kept.decode(errors="replace"),
        "dropped": output.dropped,
        "seconds": time.monotonic() - started,
    }


def _preload(engine):
    import torch

    torch.set_num_threads(1)
    if engine == "cpu":
        from course_lib.grading.processes import child

        return child.preload()
    if engine == "compile":
        from course_lib.grading.processes import child_compile

        child_compile.preload()
    return 0


def main(descriptor, engine, root, at_once=True):
    """Serve requests on the socket `descriptor` until its other end is closed; not `at_once`, load at the first one."""
    sys.path[0] = root
    if os.environ.get("COURSE_SANDBOXED") == "1":
        confine.enter_sandbox()  # before anything else is loaded
    confine.hide_memory()
    connection = socket.socket(fileno=descriptor)
    family.adopt()
    wake, wake_write = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    closed = not at_once and not connection.recv(1, socket.MSG_PEEK)
    with kept():
        builder = 0 if closed else _preload(engine)
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
        if not request:
            if builder in family.children(os.getpid()):  # else its number may belong to another process by now
                family.kill_group(builder)
            if FOLDER in tempfile.gettempdir():
                shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)
            return
        request = request.removeprefix(LOAD)  # two messages may come as one
        if request:
            _serve(request, descriptors, connection, wake, builder)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
