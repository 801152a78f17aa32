"""`course grade-all FOLDER`: judges every submission in a folder, each in a sandbox of its own.

A submission is a file whose name begins with the exercise's id (`anna/03.1.py`, `03_1_merge.py`), or the newest file of
a folder that is named after it, as in a learner's `work/answers/03.1/`. `course cohort` finds and judges them the same
way.

May import: everything.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import CourseError
from ..grading.answer.text import from_file
from ..grading.exercise import registry
from ..grading.judge import client
from ..grading.processes.wire import plain_text
from .as_json import finite

HELP = "judge every submission in a folder, each in a sandbox of its own"
_ID = re.compile(r"(\d\d)[._](\d+)(?!\d)")
_SUFFIXES = (".py", ".cu")
_MOST_BYTES = 1 << 18
_ASIDE = {"drafts", "kept", "solutions", "tests"}  # of work/ and of the course: no answers that were handed in


@dataclass(frozen=True)
class Submission:
    """One file to judge; `name` is its path below the folder, or its folder's."""

    name: str
    exercise: str
    path: Path


def submissions(folder):
    """The submissions below a folder, in order of their names; links are not followed.

    Raises
    ------
    CourseError  there is no such folder, or nothing in it
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CourseError(f"there is no folder {folder}")
    found = answer_files(folder)
    if not found:
        raise CourseError(f"{folder} holds no submission: files such as NAME/03.1.py, or folders such as NAME/03.1/")
    return found


def answer_files(folder, skipped=lambda sentence: None):
    """The submissions below a folder, in order of their names; none is no error. `skipped` as for `plain_files`."""
    known, found = set(registry.ids()), {}
    paths = plain_files(folder, _SUFFIXES, _MOST_BYTES, skipped)
    for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path)):
        for named in (path, path.parent):
            exercise = _ID.match(named.name)
            if named != folder and exercise and (key := f"{exercise[1]}.{exercise[2]}") in known:
                found[str(named.relative_to(folder))] = key, path  # of several files in a folder the newest one stays
                break
    return [Submission(name, *found[name]) for name in sorted(found)]


def plain_files(folder, suffixes, most_bytes, skipped=lambda sentence: None):
    """Files below `folder` with one of `suffixes`: no links, none in a hidden folder or one that is set aside.

    `skipped` is called with a sentence for each link and each file of more than `most_bytes`.
    """
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.suffix not in suffixes or any(part in _ASIDE or part.startswith(".") for part in inside.parts):
            continue
        if any(folder.joinpath(*inside.parts[: end + 1]).is_symlink() for end in range(len(inside.parts))):
            skipped(f"{inside} is a link, and links are not followed")
        elif path.is_file() and path.stat().st_size > most_bytes:
            skipped(f"{inside} has {path.stat().st_size:,} bytes; an answer has at most {most_bytes:,}")
        elif path.is_file():
            yield path


def grade_all(folder, *, seed=None, as_json=False, say=print):
    """Judge every submission in a folder; print a line for each, or JSON.

    Returns
    -------
    int, 0 when every one passes, 1 otherwise

    Raises
    ------
    CourseError  there is nothing to judge, or the sandbox would not keep its promise here
    """
    chosen, verdicts = submissions(folder), []
    width = max(len(plain_text(one.name, 60)) for one in chosen)
    for one in chosen:
        verdict = client.grade(one.exercise, from_file(one.path), seed=seed, sandbox=True)
        verdicts.append(verdict)
        if not as_json:
            said = verdict.diagnosis.sentence if verdict.diagnosis else verdict.missing or ""
            line = f"{plain_text(one.name, 60):{width}}  {one.exercise}  {verdict.state:17}  {said}"
            say(" ".join(plain_text(line, 400).split("\n")).rstrip())
    passed = sum(verdict.passed for verdict in verdicts)
    if as_json:
        rows = [{"name": one.name} | verdict.to_dict() for one, verdict in zip(chosen, verdicts, strict=True)]
        say(json.dumps(finite(rows), indent=1))
    else:
        say(f"{passed} of {len(chosen)} submissions pass.")
    return int(passed != len(chosen))
