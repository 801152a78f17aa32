"""One limit of memory and of processes for a whole sandbox, by a cgroup, where this user may make one.

Version 2 wherever the folder of this process or the one above it is this user's (a systemd user session, root); version
1 for root. Elsewhere there is none: the zygote's own count (family.py), RLIMIT_AS and RLIMIT_NPROC limit alone.

May import: nothing of the course.
"""

import contextlib
import os
import time
from pathlib import Path

BYTES = 6 << 30  # the 4 GiB of an answer, the zygote with torch, and files in memory
PROCESSES = 512
_ROOT = Path("/sys/fs/cgroup")
_LIMITS = {
    "memory.max": BYTES, "memory.limit_in_bytes": BYTES, "memory.swap.max": 0, "memory.memsw.limit_in_bytes": BYTES,
    "pids.max": PROCESSES,
}  # fmt: skip
_NEEDED = ("memory.max", "memory.limit_in_bytes"), ("pids.max",)


class Group:
    """A new cgroup for one sandbox; `folders` is empty where this user may make none, or not with both limits."""

    def __init__(self, root=_ROOT):
        self.folders = []
        for parents in _candidates(root):
            made = [folder for parent in parents if (folder := _made(parent)) is not None]
            if all(any((folder / name).exists() for folder in made for name in names) for names in _NEEDED):
                self.folders = made
                return
            self.folders = made
            self.close()

    def enter(self):
        """Put this process into the group; for a process that has not begun its program yet."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text("0")

    def close(self):
        """Kill what is left in the group, and remove it."""
        deadline = time.monotonic() + 2.0
        for folder in self.folders:
            with contextlib.suppress(OSError):
                (folder / "cgroup.kill").write_text("1")
            while folder.exists() and time.monotonic() < deadline:
                with contextlib.suppress(OSError):
                    for pid in (folder / "cgroup.procs").read_text().split():
                        os.kill(int(pid), 9)
                    folder.rmdir()
                    break
                time.sleep(0.01)
        self.folders = []


def available():
    """A sentence: whether a cgroup limits a sandbox here."""
    group = Group()
    found = bool(group.folders)
    group.close()
    if found:
        return f"a cgroup limits each sandbox to {BYTES >> 30} GiB of memory and {PROCESSES} processes"
    return (
        "this user may make no cgroup, so the memory of a sandbox is measured 20 times a second and each process "
        "limited on its own"
    )


def _candidates(root):
    """[folders that together may hold a group]: version 2, then version 1 (memory and processes apart)."""
    own = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            own |= dict.fromkeys(controllers.split(","), path.lstrip("/"))
    if (root / "cgroup.controllers").exists():
        here = root / own.get("", "")
        yield from ([folder] for folder in (here.parent, here) if folder.is_relative_to(root))
    if (root / "memory").is_dir() and (root / "pids").is_dir():
        yield [root / name / own.get(name, "") for name in ("memory", "pids")]


def _made(parent):
    """A new folder in `parent` with what limits it has, or None."""
    folder = parent / f"course-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
    except OSError:
        return None
    for name, value in _LIMITS.items():
        if (folder / name).exists():
            with contextlib.suppress(OSError):
                (folder / name).write_text(str(value))
    return folder
