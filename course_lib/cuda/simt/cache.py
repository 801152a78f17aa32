"""The cache folder of built libraries and headers.

A finished file is moved to its final name in one step, so that several processes may build the same thing at once.

May import: errors.
"""

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path

from ...errors import ToolchainError

CACHE_BYTES = 256 << 20


def cache_dir():
    """Return the cache folder, created on first use; a temporary one, with a warning, where that cannot be written."""
    chosen = os.environ.get("COURSE_CACHE_DIR")
    path = Path(chosen) if chosen else Path.home() / ".cache" / "attention-kernel-by-kernel"
    path = path / "simt"
    try:
        path.mkdir(parents=True, exist_ok=True)
        if os.access(path, os.W_OK | os.X_OK):
            return path
        reason = "it cannot be written"
    except OSError as error:
        reason = error.strerror
    return _instead_of(path, reason)


@functools.cache
def _instead_of(path, reason):
    """A folder that ends with this process, in place of `path`."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="course-cache-"))
    except OSError as error:
        raise ToolchainError(
            f"The cache {path} cannot be used ({reason}), nor can a temporary folder be made ({error.strerror}). Set "
            "COURSE_CACHE_DIR to a folder that can be written."
        ) from None
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    warnings.warn(
        f"The cache {path} cannot be used ({reason}); kernels are compiled into {folder} and forgotten with this "
        "process. Set COURSE_CACHE_DIR to a folder that can be written.",
        stacklevel=4,
    )
    return folder


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
        with no_space(target.parent), tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / target.name
            make(made)
            os.replace(made, target)
    return target


@contextlib.contextmanager
def no_space(folder):
    """ToolchainError in place of an OSError: `folder` takes nothing more."""
    try:
        yield
    except OSError as error:
        raise ToolchainError(
            f"{folder} took no compiled kernel ({error.strerror}); free some space there, or set COURSE_CACHE_DIR to "
            "another folder."
        ) from None


def publish_once(path, target):
    """Give `path` the name `target`, unless that exists (FileExistsError); by copy where there are no hard links."""
    try:
        os.link(path, target)
    except FileExistsError:
        raise
    except OSError:
        with open(target, "x", encoding="utf-8") as file:
            file.write(Path(path).read_text("utf-8"))
