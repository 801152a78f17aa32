"""One answer to be judged, wherever that happens: its key, its seed, its verdict as data.

May import: errors, worker, grading.
"""

import functools
import hashlib
import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from ...errors import CourseError, UnsupportedError
from ...grading.answer.text import Answer
from ...grading.exercise import registry
from ...grading.judge import client

_PACKAGE = Path(__file__).resolve().parents[2]
_JUDGE_NOTHING = {"book", "cli", "labextension", "viz"}  # rooms of course_lib
_SOURCES = {".py", ".h", ".hpp", ".cpp", ".cu", ".cuh", ".md"}


@dataclass(frozen=True)
class Job:
    """What decides a verdict, and nothing else: equal answers of two learners are one job."""

    exercise: str
    answer: Answer
    seed: int  # of the run; each text gets inputs of its own from it
    sandbox: bool
    version: str  # of the course and this exercise, as `version` gives it
    seconds: float  # until the judge is ended and asked once more
    folders: str  # of exercises outside the course

    @property
    def key(self):
        """A digest of everything that the verdict depends on."""
        answer = self.answer
        parts = [self.exercise, answer.text, answer.filename, answer.first_line, self.seed, self.sandbox, self.version]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def inputs_seed(self):
        """The judge's seed: the same for the same text, so that a second run gives the same verdict."""
        digest = hashlib.sha256(json.dumps([self.seed, self.exercise, self.answer.text]).encode())
        return int.from_bytes(digest.digest()[:6])


def version(exercise_id):
    """A digest of what judges: the course's source, the kernels' headers and the exercise's folder."""
    folders = (_PACKAGE, _PACKAGE.parent / "kernels_cu" / "common", registry.folder_of(exercise_id))
    return hashlib.sha256(b"".join(map(_digest, folders))).hexdigest()


@functools.cache
def _digest(folder):
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        judges = path.relative_to(folder).parts[0] not in _JUDGE_NOTHING
        if judges and path.suffix in _SOURCES and path.is_file():
            digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


new_judge = client.Judge
judges, _of_thread = [], threading.local()


def judged(job):
    """Judge it, in this thread's own judge.

    Returns
    -------
    dict, {"verdict": as `Verdict.to_dict` gives it, without times}, or {"error": sentence} when there is none

    Raises
    ------
    UnsupportedError  the sandbox would not keep its promise on this machine
    CourseError       this machine has another version of the course
    """
    os.environ[registry.VARIABLE] = job.folders
    if version(job.exercise) != job.version:
        raise CourseError("a worker has another version of the course; install the same one everywhere")
    if not hasattr(_of_thread, "judge"):
        _of_thread.judge = new_judge()
        judges.append(_of_thread.judge)
    try:
        verdict = client.grade(
            job.exercise,
            job.answer,
            engine="cpu",
            seed=job.inputs_seed,
            sandbox=job.sandbox,
            judge=_of_thread.judge,
            seconds=job.seconds,
        )
    except UnsupportedError:
        raise
    except CourseError as error:
        return {"error": str(error).split("\n")[0]}
    except Exception as error:  # a bug of the course, met by one answer
        return {"error": f"the judge failed, please report it: {type(error).__name__}: {error}"}
    verdict.seconds = 0.0
    return {"verdict": verdict.to_dict()}


def end_judges():
    """End the judges of every thread of this process, and with them what they work on."""
    for judge in judges:
        judge.end()
