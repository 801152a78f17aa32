"""Machines that are not as they should be, made from this one with bubblewrap: the course runs inside one of them."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ODD_NAME = "Kürs 'of' \"a\" $HOME; (1) & kö"
_FULL_BYTES = 2 << 20  # of the disk that is full: the folder for answers fits, a compiled kernel does not
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
_MINE = {"COURSE_CACHE_DIR", "COURSE_WORK_DIR", "HOME", "LC_ALL", "LANG", "PYTHONUTF8", "PYTHONCOERCECLOCALE"}


def _closed(path):
    """The outermost folder above `path` that an ordinary user may not enter, or None."""
    return next((folder for folder in reversed(Path(path).parents) if not folder.stat().st_mode & 0o001), None)


def shown(*paths):
    """Words of bubblewrap that show these paths, read-only, to a user who may not enter the folders above them."""
    words = []
    for folder in sorted({str(_closed(path)) for path in paths} - {"None"}):
        words += ["--perms", "0755", "--tmpfs", folder]
    for path in paths:
        if _closed(path) is not None:
            above = [str(folder) for folder in reversed(Path(path).parents) if folder.is_relative_to(_closed(path))]
            for folder in above[1:]:
                words += ["--perms", "0755", "--dir", folder]
            words += ["--ro-bind", str(path), str(path)]
    return words


class Machine:
    """How a command is run: `words` of bubblewrap, `variables` of the environment, the folder of the course."""

    def __init__(self, scratch):
        self.scratch, self.root, self.prefix = scratch, ROOT, ()
        self.words = ["bwrap", "--dev-bind", "/", "/"]
        self.variables = {"COURSE_CACHE_DIR": str(scratch / "cache"), "COURSE_WORK_DIR": str(scratch / "work")}

    def without(self, program):
        """The program is there and cannot be executed, wherever it is found."""
        for folder in os.get_exec_path():
            if os.path.exists(path := os.path.join(folder, program)):
                self.words += ["--ro-bind", "/dev/null", os.path.realpath(path)]

    def full_disk(self, name):
        """The folder `name` of the scratch folder on a disk of its own that is almost full."""
        (self.scratch / name).mkdir()
        self.words += ["--size", str(_FULL_BYTES), "--tmpfs", str(self.scratch / name)]

    def copy_course(self, name):
        """A copy of the course's files in a folder of that name."""
        self.root = self.scratch / name
        listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True)
        for path in filter(None, listed.stdout.decode().split("\0")):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, self.root / path)

    def run(self, words):
        """`python -m tests.machines` with these words here; its exit status."""
        inside = {name: value for name, value in os.environ.items() if name not in _MINE} | self.variables
        inside |= {"PYTHONPATH": str(self.root), "COURSE_ENGINE": "cpu"}
        command = [*self.words, "--chdir", str(self.root), "--", *self.prefix, sys.executable, "-m", "tests.machines"]
        return subprocess.run([*command, *words], env=inside, cwd=self.root).returncode


def _no_bubblewrap(machine):
    machine.without("bwrap")


def _no_git(machine):
    machine.without("git")


def _no_compiler(machine):
    for name in ("g++", "clang++", "c++"):
        machine.without(name)


def _odd_folder(machine):
    machine.copy_course(ODD_NAME)
    machine.variables = {f"COURSE_{name.upper()}_DIR": str(machine.scratch / f"{ODD_NAME} {name}")
                         for name in ("work", "cache")}  # fmt: skip


def _read_only_course(machine):
    del machine.variables["COURSE_WORK_DIR"]
    machine.words += ["--ro-bind", str(ROOT), str(ROOT)]


def _read_only_home(machine):
    home = machine.scratch / "home"
    home.mkdir()
    machine.words += ["--ro-bind", str(home), str(home)]
    machine.variables = {"HOME": str(home), "COURSE_WORK_DIR": str(home / "work")}


def _full_cache(machine):
    machine.full_disk("cache")


def _full_work(machine):
    machine.full_disk("work")
    machine.prefix = ("sh", "-c", 'head -c 9M /dev/zero >"$COURSE_WORK_DIR/filling" 2>/dev/null; exec "$@"', "sh")


def _ascii(machine):
    machine.variables |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def _ordinary_user(machine):
    machine.scratch.chmod(0o777)
    machine.variables["HOME"] = str(machine.scratch)
    machine.words += shown(ROOT, sys.prefix, sys.base_prefix)
    machine.prefix = NOBODY


MACHINES = {
    "ascii": _ascii,
    "full-cache": _full_cache,
    "full-work": _full_work,
    "no-bubblewrap": _no_bubblewrap,
    "no-compiler": _no_compiler,
    "no-git": _no_git,
    "odd-folder": _odd_folder,
    "ordinary-user": _ordinary_user,
    "read-only-course": _read_only_course,
    "read-only-home": _read_only_home,
}


def run(name, words):
    """The exit status of `python -m tests.machines` with these words on the machine `name`."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="course-machine-", dir="/var/tmp")))
        machine = Machine(scratch)
        MACHINES[name](machine)
        print(f"as {name}:", flush=True)
        return machine.run(words)
