"""What an answer may see in the sandbox: an allow-list of folders, everything else does not exist there.

The system's programs and libraries (for Python and the C++ compiler), the Python environment, and of the course what a
child needs. The oracles, the solutions, the kernels, the Triton kernels, the judge and the tests are not on the list.

May import: nothing of the course.
"""

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COURSE = (
    "course_lib/__init__.py",
    "course_lib/by_kind.py",
    "course_lib/errors.py",
    "course_lib/notation.py",
    "course_lib/device.py",
    "course_lib/far.py",
    "course_lib/loading.py",
    "course_lib/worker.py",
    "course_lib/cuda",
    "course_lib/triton",
    "course_lib/grading/__init__.py",
    "course_lib/grading/answer",
    "course_lib/grading/processes",
    "kernels_cu/common",
)
_EMPTIED = ("course_lib", "kernels_cu")  # folders of the course that hold more than COURSE names
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
_LOADER = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")
_SITE = ("site-packages", "dist-packages")


def mounts():
    """Return the words of bubblewrap that make the allow-list: folders of the system, environment, course."""
    words, made = ["--perms", "0755", "--dir", "/etc"], {"/etc", "/tmp"}
    for path in (*_SYSTEM, *_LOADER):
        if os.path.islink(path) and path not in _LOADER:
            words += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            words += ["--ro-bind", path, path]
    for folder in _environment():
        words += [*_parents(folder, made), "--ro-bind", folder, folder]
    for name in _EMPTIED:
        words += [*_parents(str(ROOT / name), made), "--perms", "0755", "--tmpfs", str(ROOT / name)]
    for name in COURSE:
        path = str(ROOT / name)
        words += [*_parents(path, made, below=ROOT), "--ro-bind", path, path]
    for name in _EMPTIED:
        words += ["--remount-ro", str(ROOT / name)]
    return words


def site_folders():
    """Folders with installed packages outside the environment, as PYTHONPATH names them or `pip install --user`."""
    roots = [Path(sys.prefix), Path(sys.base_prefix)]
    paths = [Path(path) for path in sys.path if Path(path).name in _SITE and Path(path).is_dir()]
    return [str(path) for path in paths if not any(path.is_relative_to(root) for root in roots)]


def _environment():
    """The interpreter, the environment and a compiler of another place, each once and none below another."""
    found = [sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))]
    found += site_folders()
    if compiler := shutil.which(os.environ.get("COURSE_CXX", "g++")):
        found.append(os.path.dirname(os.path.dirname(os.path.realpath(compiler))))
    outside = {folder for folder in map(os.path.realpath, found) if not folder.startswith(("/usr", "/nix/store"))}
    outside |= {sys.prefix} if not sys.prefix.startswith("/usr") else set()
    outside.discard("/")
    return [one for one in sorted(outside) if not any(one.startswith(other + "/") for other in outside)]


def _parents(path, made, below=None):
    """Words that make the folders above `path`, open to every user: bubblewrap makes them for its own user alone."""
    words = []
    for parent in reversed(Path(path).parents[:-1]):
        inside = below is None or parent.is_relative_to(below)
        if inside and str(parent) not in made and not str(parent).startswith("/usr"):
            made.add(str(parent))
            words += ["--perms", "0755", "--dir", str(parent)]
    return words
