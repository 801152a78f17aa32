"""The folder on disk in which everything built is kept.

What is built is moved into place in one step, so that several processes may build the same thing at once.

May import: nothing of the course.
"""

import contextlib
import os
import tempfile
import time
from pathlib import Path

CACHE_BYTES = 256 << 20


def cache_dir():
    """The folder of everything built, created on first use."""
    chosen = os.environ.get("COURSE_CACHE_DIR")
    path = Path(chosen) if chosen else Path.home() / ".cache" / "attention-kernel-by-kernel"
    path = path / "simt"
    path.mkdir(parents=True, exist_ok=True)
    return path


def prune(folder):
    """Keeps the cache below CACHE_BYTES: what was used longest ago goes first, nothing of the last hour."""
    with os.scandir(folder) as entries:  # every build asks, of thousands of files: pathlib takes ten times as long
        kernels = [entry for entry in entries if entry.name.startswith("kernel-") and entry.name.endswith(".so")]
    files = []
    for entry in kernels:
        with contextlib.suppress(FileNotFoundError):  # another process prunes as well
            files.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for used, size, path in sorted(files):
        if total <= CACHE_BYTES or time.time() - used < 3600:
            break
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        total -= size


def build_into(target, make):
    """Calls make(temporary path) and moves what it made to `target`, unless `target` is there already."""
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / target.name
            make(made)
            os.replace(made, target)
    return target


def publish_once(path, target):
    """`path` under the name `target`, unless that exists (FileExistsError); by copy where there are no hard links."""
    try:
        os.link(path, target)
    except FileExistsError:
        raise
    except OSError:
        with open(target, "x") as file:
            file.write(Path(path).read_text())
