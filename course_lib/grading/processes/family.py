"""The processes that an answer started: found, measured together, and ended together. Linux; elsewhere there are none.

A process whose parent has died belongs to the next one above that asked for orphans (`adopt`).

May import: nothing of the course.
"""

import ctypes
import os
import signal
import time

MOST_PROCESSES = 128  # of one answer; a compiler needs four
_SUBREAPER = 36  # prctl option
_PAGE = os.sysconf("SC_PAGE_SIZE")


def adopt(wanted=True):
    """Orphans among this process's descendants become its children, or no longer."""
    try:
        ctypes.CDLL(None).prctl(_SUBREAPER, int(wanted), 0, 0, 0)
    except (OSError, AttributeError):
        pass  # macOS: no such call; killpg alone must do


def children(pid):
    """The numbers of a process's children, those of all its threads."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        pass  # it has ended, or the system shows none
    return found


def below(pid, without=0):
    """The numbers of all processes below `pid`, but `without` and those below it."""
    found = []
    for child in children(pid):
        if child != without:
            found += [child, *below(child)]
    return found


def resident_bytes(pid):
    """Memory that a process holds; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def held_bytes(pid, others, shared):
    """Memory of `pid`, and of the `others` what goes beyond `shared`: the bytes that every fork has from the start."""
    return resident_bytes(pid) + sum(max(0, resident_bytes(other) - shared) for other in others if other != pid)


def kill_group(pid):
    """Kill a process and its group."""
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def wait_for(pid):
    """Collect a child that has ended; nothing when it was collected before."""
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass


def end_children(but=()):
    """Kill and collect the children of this process, in any session, and those that become its children meanwhile."""
    deadline = time.monotonic() + 2.0
    while (pids := [pid for pid in children(os.getpid()) if pid not in but]) and time.monotonic() < deadline:
        for pid in pids:
            kill_group(pid)
        for pid in pids:
            wait_for(pid)
