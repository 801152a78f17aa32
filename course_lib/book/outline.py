"""What the course's chapters are, from their texts alone: the plan, the files, their parts, stems and titles.

May import: errors.
"""

import csv
import json
import re
from pathlib import Path
from string import ascii_lowercase

from ..errors import CourseError

PARTS = ("lecture", "exercises")
ROOT = Path(__file__).resolve().parents[2]
_PART = re.compile(r"\+\+\+ (\{.*\"part\".*\})\s*$")
_FENCE = re.compile(r"(`{3,}|~{3,}|:{3,})")


def chapter_files(root=ROOT):
    """The chapters in order, as paths."""
    return sorted((Path(root) / "chapters").glob("[0-9][0-9]_*.md"))


def plan(root=ROOT):
    """The rows of chapters/plan.csv as dicts; none without the file."""
    path = Path(root) / "chapters" / "plan.csv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def lecture_name(stem):
    """Where the lecture `stem` is, from the root."""
    return f"notebooks/{stem}.ipynb"


def exercises_name(number):
    """Where the exercises of a chapter are, from the root: a name, and so a tab, of their own."""
    return f"exercises/{number}_exercises.ipynb"


def solutions_name(number):
    """Where the solved exercises of a chapter are, from the root."""
    return f"solutions/{number}_solutions.ipynb"


def split_parts(text):
    """(YAML header, [(part, stem or None, text), …]); markers inside a fence are text."""
    lines = text.splitlines()
    if lines[:1] != ["---"] or "---" not in lines[1:]:
        raise CourseError("expected a YAML header between two lines '---' at the top")
    end = lines.index("---", 1) + 1
    segments, fence = [("lecture", None, [])], None
    for line in lines[end:]:
        opened = _FENCE.match(line)
        if opened and fence is None:
            fence = opened[1]
        elif opened and line.strip() == fence:
            fence = None
        marker = _PART.match(line) if fence is None else None
        if marker:
            words = json.loads(marker[1])
            if words["part"] not in PARTS:
                raise CourseError(f"unknown part {words['part']!r}; expected one of {', '.join(PARTS)}")
            segments.append((words["part"], words.get("stem"), []))
        else:
            segments[-1][2].append(line)
    header = "\n".join(lines[:end]) + "\n\n"
    filled = [segment for segment in segments if any(map(str.strip, segment[2]))]
    return header, [(part, stem, "\n".join(body) + "\n") for part, stem, body in filled]


def lecture_titles(stem, parts):
    """Stem -> title of each lecture of the chapter `stem`, whose parts are those of `split_parts`.

    Raises
    ------
    CourseError  a lecture whose stem is missing or out of order, or whose first heading does not begin with its number
    """
    lectures = [(named, text) for part, named, text in parts if part == "lecture"]
    _check_stems(stem[:2], [named for named, _ in lectures])
    titles = {}
    for named, text in lectures:
        heading = re.search(r"^# +(.+?)\s*$", text, re.MULTILINE)
        titles.setdefault(named or stem, heading[1] if heading else "")
    for name, title in titles.items():
        label = name.partition("_")[0]
        if title.partition(" ")[0] != label:
            found = f"is {title!r}" if title else "is missing"
            raise CourseError(f"the title of {name} {found}; expected a first heading '# {label} …'")
    return titles


def _check_stems(number, named):
    """Refuse a chapter that names some lectures only, or whose names are not NNa_…, NNb_… in order."""
    for letter, name in zip(ascii_lowercase, named if any(named) else (), strict=False):
        if not re.fullmatch(rf"{number}{letter}_[a-z0-9_]+", name or ""):
            found = f"is called {name!r}" if name else "has no stem, and others have one"
            expected = f'{{"part": "lecture", "stem": "{number}{letter}_…"}}'
            raise CourseError(f"lecture {letter} {found}; expected a line +++ {expected}")
