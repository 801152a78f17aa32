"""The sandbox for other people's answers, by bubblewrap: an allow-list of files, no network, no root, no capability.

One sandbox serves one submission: its processes see no others, and what it writes lies in its own memory and is gone
with it. Before the first answer, a program inside says whether every promise holds; if not, nothing is graded.

May import: errors, cuda.simt.build, confine, visible.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ...errors import CourseError, UnsupportedError
from . import confine, visible

CACHE = "/tmp/course-cache"
_SCRATCH_BYTES = 1 << 30
_KEPT = ("LD_LIBRARY_PATH", "COURSE_CXX", "COURSE_TIME_LIMIT_S")  # of the environment, where they are set
WITHOUT = "grade without --sandbox"
_WITHOUT = f"{WITHOUT}, which limits time, memory and output but not files and network"


def environment(variables):
    """The whole environment of a sandbox: `variables`, and what a compiler and Python need; nothing of the caller's."""
    made = {name: os.environ[name] for name in _KEPT if name in os.environ}
    made |= {
        "PATH": os.pathsep.join(dict.fromkeys((os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"))),
        "HOME": "/tmp",
        "USER": "nobody",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "COURSE_SANDBOXED": "1",
        "COURSE_CACHE_DIR": CACHE,
        "TRITON_CACHE_DIR": f"{CACHE}/triton",
    }
    if folders := visible.site_folders():
        made["PYTHONPATH"] = os.pathsep.join(folders)
    return made | variables


def command_prefix():
    """The words before a program that runs it in a sandbox; UnsupportedError when there is no bubblewrap."""
    program = shutil.which("bwrap")
    if program is None:
        raise UnsupportedError(
            "the sandbox needs bubblewrap, and `bwrap` is not on this machine; install it (Debian: apt install "
            f"bubblewrap) or {_WITHOUT}"
        )
    words = [program, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", *_identity(program)]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for folder in ("/tmp", "/dev/shm"):  # before the allow-list, so that they do not hide a checkout below /tmp
        words += ["--perms", "1777", "--size", str(_SCRATCH_BYTES), "--tmpfs", folder]
    return [*words, *visible.mounts(), *_built(), "--remount-ro", "/", "--chdir", "/tmp", "--"]


def _identity(program):
    """Who the sandbox is: the user, in a namespace that allows no further one; from root, `confine` makes it nobody."""
    if os.getuid() == 0:
        return [word for name in ("SETUID", "SETGID", "SETPCAP") for word in ("--cap-add", f"CAP_{name}")]
    return ["--unshare-user", *(["--disable-userns"] if "--disable-userns" in _help(program) else [])]


@functools.cache
def _help(program):
    return subprocess.run([program, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def _built():
    """The words that show the SIMT machine as it was compiled outside; no kernel of that cache is among it."""
    words = []
    for folder in (CACHE, f"{CACHE}/simt"):
        words += ["--perms", "1777", "--dir", folder]
    try:
        from ...cuda.simt.build import machine_files

        paths = machine_files()
    except (CourseError, OSError):
        return words  # the answer will meet the same error, and say it to the learner
    for path in paths:
        words += ["--ro-bind", str(path), f"{CACHE}/simt/{path.name}"]
    return words


def usable():
    """`command_prefix`, after the sandbox was seen to keep its promise.

    Raises
    ------
    UnsupportedError  no bubblewrap, a system that forbids sandboxes, or a promise that does not hold; the sentence says
        which
    """
    command = command_prefix()
    _promise(tuple(command))
    return command


@functools.cache
def _promise(command):
    root = visible.ROOT
    hidden = [root / "solutions", root / "tests", root / "course_lib" / "reference", Path.home() / ".ssh"]
    words = [*command, sys.executable, "-I", confine.__file__, *map(str, hidden)]
    tried = subprocess.run(words, capture_output=True, text=True, env=environment({}), stdin=subprocess.DEVNULL)
    if tried.returncode != 0:
        said = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1][:200]
        raise UnsupportedError(
            f"bubblewrap is installed, but this system does not let it make a sandbox ({said}); {_WITHOUT}"
        )
    if broken := json.loads(tried.stdout):
        raise UnsupportedError(f"the sandbox would not keep its promise here: {'; '.join(broken)}; {_WITHOUT}")
