"""The learner's own folder, work/: passing answers, progress, hints, predictions. No answer overwrites another.

    work/answers/03.2/2026-01-31T09-15-02.cu   every passing answer
    work/drafts/03.2/…                         what `course reset` took out of the notebook
    work/progress.json, work/predictions.json  written whole or not at all, safe with several processes

May import: report.states.
"""

import contextlib
import json
import os
import tempfile
import time
import warnings
from pathlib import Path

from ..report.states import FAIL, NOT_STARTED, PASS

_ROOT = Path(__file__).resolve().parents[3]


def root():
    """The folder: COURSE_WORK_DIR, or work/ beside course_lib. Created when something is written."""
    return Path(os.environ.get("COURSE_WORK_DIR") or _ROOT / "work")


def stamp():
    """The local time as in file names: 2026-01-31T09-15-02."""
    return time.strftime("%Y-%m-%dT%H-%M-%S")


@contextlib.contextmanager
def _locked():
    """One process at a time; without file locks in the system, two may overwrite each other's changes."""
    root().mkdir(parents=True, exist_ok=True)
    with open(root() / ".lock", "w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass
        yield


def load(name):
    """The dict in work/<name>; empty when there is none. A file that cannot be read is moved aside, with a warning."""
    path = root() / name
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data, dict):
            return data
    except FileNotFoundError:
        return {}
    except (ValueError, OSError):
        pass
    aside = _free(path.with_name(f"{path.stem}.damaged-{stamp()}{path.suffix}"))
    try:
        os.replace(path, aside)
    except OSError as error:
        said = f"work/{name} could not be read, and not be moved aside ({error.strerror}); nothing of it is shown."
    else:
        said = f"work/{name} could not be read; it was moved to work/{aside.name}, and a new one begins."
    warnings.warn(said, stacklevel=2)
    return {}


def entry(books, key):
    """The dict under `key` of what `load` gave, made where there is none; one that is damaged begins anew."""
    found = books.get(key)
    if not isinstance(found, dict) or not all(isinstance(found.get(name, 0), int) for name in ("attempts", "hints")):
        found = books[key] = {}
    return found


def _free(path):
    """`path`, or the same with a number, so that no file is overwritten."""
    candidate, number = path, 2
    while candidate.exists():
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return candidate


def _store(name, data):
    _write_whole(root() / name, lambda file: json.dump(data, file, indent=1, sort_keys=True))


def _write_whole(path, write):
    """Have `write` fill a file beside `path`, then give it that name: a full disk leaves the old file, or none."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextlib.contextmanager
def changed(name):
    """Yield the dict in work/<name> for changes, then write it back whole; other processes wait."""
    with _locked():
        data = load(name)
        yield data
        _store(name, data)


def save_text(folder, text, suffix):
    """Keep a text as work/<folder>/<time><suffix>, unless the newest file there holds the same. Returns its path."""
    with _locked():
        place = root() / folder
        place.mkdir(parents=True, exist_ok=True)
        earlier = sorted(place.glob(f"*{suffix}"), key=lambda path: path.stat().st_mtime_ns)
        if earlier and earlier[-1].read_text(encoding="utf-8", errors="replace") == text:
            return earlier[-1]
        path = _free(place / f"{stamp()}{suffix}")
        _write_whole(path, lambda file: file.write(text))
        return path


def suffix_of(text):
    """ ".cu" for CUDA C++, ".py" for the rest."""
    return ".cu" if "__global__" in text else ".py"


def record(verdict, answer):
    """Record a check: the text of a passing answer, and the progress. A full disk becomes a remark."""
    try:
        if verdict.state == PASS:
            save_text(f"answers/{verdict.exercise}", answer.text, suffix_of(answer.text))
        with changed("progress.json") as progress:
            _count(entry(progress, verdict.exercise), verdict)
    except OSError as error:
        verdict.remarks.append(f"The result could not be kept in {root()}: {error.strerror or error}.")


def _count(kept, verdict):
    kept["last"], kept["last_at"] = verdict.state, stamp()
    if verdict.state != NOT_STARTED:
        kept["attempts"] = kept.get("attempts", 0) + 1
    if verdict.hint and verdict.state == FAIL:
        kept["hints"] = max(kept.get("hints", 0), 1)  # the verdict showed the first one
    if verdict.state == PASS and "passed_at" not in kept:
        kept["passed_at"], kept["attempts_to_pass"] = stamp(), kept["attempts"]


def progress():
    """exercise id -> {"last", "last_at", "attempts", "passed_at", "hints"}, as far as there is something to say."""
    books = load("progress.json")
    return {key: entry(books, key) for key in list(books)}


def next_hint(exercise_id, levels, seen=0):
    """How many hints are open now, this one included; one more than recorded or `seen`, up to `levels`.

    A folder that cannot be written keeps no count; the hint is shown all the same.
    """
    level = min(max(entry(load("progress.json"), exercise_id).get("hints", 0), seen) + 1, levels)
    with contextlib.suppress(OSError), changed("progress.json") as books:
        kept = entry(books, exercise_id)
        level = kept["hints"] = min(max(kept.get("hints", 0), seen) + 1, levels)
    return level
