"""Kernels and judges that are forked from one process with torch and matplotlib loaded, for 60 notebooks.

A kernel of its own loads them for more than two seconds, and so does its judge. test_browser.py starts both as a
learner does.
"""

import json
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from multiprocessing import forkserver
from pathlib import Path

from jupyter_client.provisioning import local_provisioner

# Not course_lib: it reads settings. Not Triton: a judge compiles in one fork and interprets in the other.
LOADED = ["torch", "matplotlib.pyplot", "ipywidgets", "ipykernel.kernelapp", "ipykernel.debugger"]
ROOT = Path(__file__).resolve().parents[2]
_INLINE = "module://matplotlib_inline.backend_inline"  # what a kernel sets before a notebook imports matplotlib
_JUDGE = ["-P", "-m", "course_lib.worker"]  # how course_lib/worker.py starts it: then a descriptor and what it serves
_context = multiprocessing.get_context("forkserver")


def install():
    """Have jupyter_client fork the kernels that this process asks for."""
    local_provisioner.launch_kernel = ForkedKernel


class ForkedKernel:
    """A kernel's process: what jupyter_client uses of subprocess.Popen. Arguments as those of `launch_kernel`."""

    stdin = stdout = stderr = None

    def __init__(self, command, *, env=None, cwd=None, **_others):
        _start_server()
        ready, started = _context.Pipe(duplex=False)
        arguments = command[command.index("ipykernel_launcher") + 1 :]
        environment = dict(os.environ if env is None else env)
        self.process = _context.Process(target=_become_kernel, args=(arguments, environment, cwd, started))
        self.process.start()
        started.close()  # so that `recv` ends when the process has ended before it could answer
        ready.recv()  # from here on its process group is its own, and may be ended
        self.pid = self.process.pid

    def poll(self):
        return self.process.exitcode

    def wait(self, timeout=None):
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("kernel", timeout)
        return self.process.exitcode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _start_server():
    """The process that is forked, started once; matplotlib reads MPLBACKEND when it is imported."""
    before = os.environ.get("MPLBACKEND")
    os.environ["MPLBACKEND"] = _INLINE
    try:
        _context.set_forkserver_preload(LOADED)
        forkserver.ensure_running()
    finally:
        os.environ.pop("MPLBACKEND")
        if before is not None:
            os.environ["MPLBACKEND"] = before


def _become_kernel(arguments, environment, folder, started):
    """In the forked process: become the kernel that `python -m ipykernel_launcher` would be."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment | {"JPY_PARENT_PID": str(os.getppid())})
    multiprocessing.set_start_method(None, force=True)  # a notebook's processes start as usual
    sys.argv[:] = ["ipykernel_launcher", *arguments]
    sys.path[:] = [entry for entry in sys.path if _is_a_kernels(entry)]
    if folder is not None:
        os.chdir(folder)
    silent = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(silent, descriptor)
    started.send(True)
    started.close()
    _fork_judge()  # while this process has one thread
    from ipykernel import kernelapp

    kernelapp.launch_new_instance(arguments)


def _is_a_kernels(entry):
    """Whether an entry of pytest's sys.path would be a kernel's, too: none that pytest adds below the root."""
    if entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) or entry.startswith(sys.prefix):
        return entry != ""
    return entry != "" and not Path(entry).is_relative_to(ROOT)


def _fork_judge():
    """Keep a fork that becomes this kernel's first judge, and have subprocess.Popen take it for that."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _become_judge(theirs)
    theirs.close()
    waiting, usual = [_Forked(pid, ours)], subprocess.Popen

    class Popen(usual):
        def __new__(cls, command, *arguments, **options):
            if waiting and list(command[1:4]) == _JUDGE and command[-1].endswith("judge.server:serve"):
                return waiting.pop().become(command, options["env"])
            return super().__new__(cls)

    subprocess.Popen = Popen


class _Forked:
    """The fork: what course_lib/worker.py uses of subprocess.Popen."""

    def __init__(self, pid, connection):
        self.pid, self.connection, self.returncode = pid, connection, None

    def become(self, command, environment):
        message = json.dumps({"serves": command[-1], "environment": environment}).encode()
        socket.send_fds(self.connection, [message], [int(command[-2])])
        self.connection.close()
        return self

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout=60.0):
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("judge", timeout)
            time.sleep(0.01)
        return self.returncode

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _become_judge(connection):
    """In the fork: wait for the message of `become`, then run the program that it names; end with the kernel."""
    try:
        os.closerange(3, connection.fileno())
        os.closerange(connection.fileno() + 1, 1 << 12)
        message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 1)
        if not message:
            return
        order = json.loads(message)
        os.setsid()
        os.environ.clear()
        os.environ.update(order["environment"])
        own = os.environ["PYTHONPATH"].split(os.pathsep)
        sys.path[:] = [*own, *(path for path in sys.path if path not in own)]
        sys.argv[:] = ["course_lib.worker", str(descriptors[0]), order["serves"]]
        runpy.run_module("course_lib.worker", run_name="__main__", alter_sys=True)
    finally:
        os._exit(0)
