"""The sandbox for other people's answers: a read-only file system and no network, by bubblewrap.

May import: errors.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from ...errors import UnsupportedError

_ROOT = Path(__file__).resolve().parents[3]


def command_prefix(environment):
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


def usable(environment):
    """`command_prefix`, after it was seen to work; UnsupportedError when this system forbids sandboxes."""
    command = command_prefix(environment)
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
