"""task.md: everything that a learner reads about one exercise, as data.

A YAML header of plain `key: value` lines, then Markdown sections, each under a `## Heading`:

    Contract         what goes in, what comes out, what is guaranteed
    Warm-up          optional: cells between the contract and the prediction
    Predict first    the question, with its `predict` cell
    After passing    what to try next
    The prediction   the folded answer; `The predictions` for several
    Hint 1 … Hint 3  from vague to nearly given
    Explanation      shown with a PASS
    What is checked  for authors: a table of each promise of the contract, how the judge checks it, and the names of
                     wrong answers that it refuses (in wrong.md); not shown to the learner

The header's `answer` names a ladder step, "kernels_cu/….cu" or "course_lib/triton_kernels/….py#function"; without it
the folder holds answer.cu or answer.py.

May import: errors.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import CourseError

ROOT = Path(__file__).resolve().parents[3]
LANGUAGES = ("cuda", "triton", "python")
_FOLDER = re.compile(r"(\d\d)_(\d+)_[a-z0-9_]+")
_NEEDED = ("title", "summary", "language", "entry", "size_lines", "minutes")
_OPTIONAL = ("answer", "cell")
_SECTIONS = ("Contract", "Hint 1", "Hint 2", "Hint 3", "Explanation")
_OTHER_SECTIONS = ("Warm-up", "Predict first", "After passing", "The prediction", "The predictions", "What is checked")
_FENCE = re.compile(r"(`{3,}|~{3,})")


@dataclass(frozen=True)
class Document:
    """The content of a task.md.

    Attributes
    ----------
    folder : Path, the exercise's folder
    title : str, the heading of the exercise
    summary : str, what the learner writes, for the table of a chapter
    language : "cuda", "triton" or "python"
    entry : str, name of the kernel or function that the learner writes
    size_lines, minutes : int
    solution : str, the reference answer: a path from the repository's root (absolute outside it), with "#name" for one
        function of a Python file
    cell : str, what follows ``%%cuda`` in the answer cell: the notebook's name of the kernel, and -D options
    sections : dict, heading -> Markdown
    """

    folder: Path
    title: str
    summary: str
    language: str
    entry: str
    size_lines: int
    minutes: int
    solution: str
    cell: str
    sections: dict[str, str] = field(default_factory=dict)

    @property
    def id(self):
        return exercise_id(self.folder)

    @property
    def contract(self):
        return self.sections["Contract"]

    @property
    def hints(self):
        """The three hints as plain text."""
        return tuple(plain(self.sections[f"Hint {number}"]) for number in (1, 2, 3))

    @property
    def explanation(self):
        return plain(self.sections["Explanation"])


def exercise_id(folder):
    """The id that a folder's name gives, "03.2" for 03_2_online_warp; None when it is not the name of an exercise."""
    match = _FOLDER.fullmatch(Path(folder).name)
    return f"{match[1]}.{match[2]}" if match else None


def plain(markdown):
    """Paragraphs without their line breaks and code marks, an empty line between two."""
    paragraphs = re.split(r"\n\s*\n", markdown.strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).replace("`", "")


def read(folder):
    """The Document in `folder`.

    Raises
    ------
    CourseError  no task.md, a key of the header or a section that is missing or unknown, or no answer
    """
    path = Path(folder).resolve() / "task.md"
    if not path.is_file():
        raise CourseError(f"{path} is missing; the folder of an exercise holds task.md, task.py, wrong.md and right.py")
    try:
        header, body = _split(path.read_text(encoding="utf-8"))
        values = _values(header)
        sections = _sections(body)
        sizes = {name: int(values.pop(name)) for name in ("size_lines", "minutes")}
    except (CourseError, ValueError) as error:
        raise CourseError(f"{path}: {error}") from None
    values["solution"] = values.pop("answer", "") or _own_answer(path.parent, values["language"], values["entry"])
    values.setdefault("cell", values["entry"].removesuffix("_kernel"))
    return Document(path.parent, **values, **sizes, sections=sections)


def _split(text):
    """Header lines and the Markdown after them."""
    lines = text.splitlines()
    if lines[:1] != ["---"] or "---" not in lines[1:]:
        raise CourseError("expected a YAML header between two lines '---' at the top")
    end = lines.index("---", 1)
    return lines[1:end], lines[end + 1 :]


def _values(lines):
    pairs = (line.partition(":")[::2] for line in lines if line.strip() and not line.startswith("#"))
    values = {key.strip(): value.strip().strip('"') for key, value in pairs}
    unknown, missing = values.keys() - {*_NEEDED, *_OPTIONAL}, set(_NEEDED) - values.keys()
    if unknown:
        raise CourseError(f"unknown in the header: {', '.join(sorted(unknown))}")
    if missing:
        raise CourseError(f"missing in the header: {', '.join(sorted(missing))}")
    if values["language"] not in LANGUAGES:
        raise CourseError(f"language is {values['language']!r}; expected one of {', '.join(LANGUAGES)}")
    return values


def _sections(lines):
    """{heading: Markdown}; a `## ` inside a fence is text."""
    sections, name, fence = {}, None, None
    for line in lines:
        mark = _FENCE.match(line)
        if mark and fence is None:
            fence = mark[1]
        elif mark and line.strip() == fence:
            fence = None
        elif line.startswith("## ") and fence is None:
            name = line[3:].strip()
            if name not in _SECTIONS + _OTHER_SECTIONS or name in sections:
                raise CourseError(f"section {name!r} is {'there twice' if name in sections else 'unknown'}")
            sections[name] = []
            continue
        if name is not None:
            sections[name].append(line)
        elif line.strip():
            raise CourseError(f"text before the first section: {line!r}")
    missing = [name for name in _SECTIONS if name not in sections]
    if missing:
        raise CourseError(f"missing sections: {', '.join(missing)}")
    return {name: "\n".join(body).strip("\n") for name, body in sections.items()}


def _own_answer(folder, language, entry):
    name = "answer.cu" if language == "cuda" else "answer.py"
    if not (folder / name).is_file():
        raise CourseError(f"{folder} has no {name}, and the header of task.md names no other answer")
    path = folder / name
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return f"{place.as_posix()}#{entry}" if language == "triton" else place.as_posix()
