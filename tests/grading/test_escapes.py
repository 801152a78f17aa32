"""Answers that try to leave the sandbox: each is tried, as root and as an ordinary user, and each must be held."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from course_lib.cuda.simt.build import machine_files
from tests.machines import odd

ROOT = Path(__file__).resolve().parents[2]
_OWN = (str(ROOT), sys.prefix, sys.base_prefix)


def as_nobody():
    """Words before a command that run it as an ordinary user who may read the course, wherever it is installed."""
    words = odd.shown(*(path for path in _OWN if Path(path).exists()))
    return ["bwrap", "--dev-bind", "/", "/", *words, "--", *odd.NOBODY]


@pytest.fixture
def cache():
    """A cache with nothing but the SIMT machine, which an ordinary user may write: it takes seconds to build."""
    folder = Path(tempfile.mkdtemp(prefix="course-cache-"))
    (folder / "simt").mkdir()
    for path in machine_files():
        copy = shutil.copytree if path.is_dir() else shutil.copyfile
        copy(path, folder / "simt" / path.name)
    subprocess.run(["chmod", "-R", "a+rwX", folder], check=True)
    yield str(folder)
    shutil.rmtree(folder)


def _attacked(cache, prefix=()):
    """{attack: escaped}, or {"refused": sentence} where there is no sandbox."""
    command = [*prefix, sys.executable, "-m", "tests.grading.escapes"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COURSE_CACHE_DIR": cache, "HOME": "/tmp"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("who", ["this user", "an ordinary user, from root"])
def test_every_escape_is_held(who, cache):
    if who != "this user" and os.getuid() != 0:
        return  # this user is an ordinary one
    found = _attacked(cache, as_nobody() if who != "this user" else ())
    if "refused" in found:
        assert "bubblewrap" in found["refused"] and "grade without --sandbox" in found["refused"]
        warnings.warn(found["refused"], stacklevel=1)
        return
    assert len(found) >= 30 and [name for name, worked in found.items() if worked] == []
    print(f"escapes tried {len(found)}, held {sum(not worked for worked in found.values())}")
