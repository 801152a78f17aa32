"""The cache folder of built libraries and headers.

A finished file is moved to its final name in one step, so that several processes may build the same thing at once.

May import: nothing of the course.
"""

import contextlib
import os
import tempfile
import time
from pathlib import Path

CACHE_BYTES = 256 << 20


def cache_dir():
    """Return the cache folder; it is created on first use."""
    chosen = os.environ.get("COURSE_CACHE_DIR")
    path = Path(chosen) if chosen else Path.home() / ".cache" / "attention-kernel-by-kernel"
    path = path / "simt"
    path.mkdir(parents=True, exist_ok=True)
    return path


def prune(folder):
    """Delete the least recently used kernels while the cache exceeds CACHE_BYTES; none used within the last hour."""
    with os.scandir(folder) as entries:  # thousands of files at every build: pathlib is ten times slower
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
    """Call make(temporary path) and move the result to `target`, unless `target` exists. Returns `target`."""
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / target.name
            make(made)
            os.replace(made, target)
    return target


def publish_once(path, target):
    """Give `path` the name `target`, unless that exists (FileExistsError); by copy where there are no hard links."""
    try:
        os.link(path, target)
    except FileExistsError:
        raise
    except OSError:
        with open(target, "x") as file:
            file.write(Path(path).read_text())
