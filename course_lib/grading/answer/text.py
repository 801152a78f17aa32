"""An answer as text: what a learner hands to `check` becomes the one thing that travels to the judge.

May import: errors, gather, loading.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import CourseError
from . import gather, loading

_MAGIC = re.compile(r"\A(\s*)%%cuda\b.*")


@dataclass(frozen=True)
class Answer:
    """The text of an answer, and how its lines are numbered.

    Attributes
    ----------
    text : str
    filename : str, as shown to the learner
    first_line : int, number of the text's first line in that file or cell
    entry : str or None, the kernel or function that was handed over; None for a plain text
    """

    text: str
    filename: str = "answer"
    first_line: int = 1
    entry: str | None = None


def extract(answer, language=None):
    """The text of whatever was handed to `check`.

    Parameters
    ----------
    answer : a cuda.Kernel, a @triton.jit function, a Python function, a pathlib.Path, or the text itself
    language : "cuda", "triton", "python" or None; only for the sentence when the kind does not fit

    Returns
    -------
    Answer

    Raises
    ------
    CourseError  the thing has no text, or uses something that cannot be taken along; the message names it
    """
    if isinstance(answer, Answer):
        return replace(answer, text=plain(answer.text))
    if isinstance(answer, Path):
        return from_file(answer)
    if isinstance(answer, str):
        return Answer(plain(answer))
    if hasattr(answer, "source") and hasattr(answer, "filename"):  # a cuda.Kernel
        return Answer(answer.source, answer.filename or "<cell>", getattr(answer, "first_line", 1), answer.name)
    function = getattr(answer, "fn", answer)  # a triton JITFunction holds its Python function
    if hasattr(function, "__code__"):
        text = gather.text_of(function, handed_over=answer)
        return Answer(text, "<cell>", 1, function.__name__)
    wanted = {"cuda": "the kernel that %%cuda made", "triton": "the @triton.jit function"}.get(language, "the function")
    raise CourseError(f"check got a {type(answer).__name__}; hand it {wanted}, or the answer's text.")


def plain(text):
    """A text without what a notebook or an editor puts before its first line: a byte order mark, the line %%cuda.

    The line stays as an empty one, so that the others keep their numbers.
    """
    return _MAGIC.sub(r"\1", text.removeprefix("\ufeff"))


def from_file(path):
    """The Answer in a file; CourseError when it cannot be read."""
    path = Path(path)
    try:
        return Answer(plain(path.read_text(encoding="utf-8")), path.name)
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CourseError(f"{path} cannot be read: it is no text in UTF-8") from None


def excerpt(answer, line, context=1):
    """The answer's lines round `line`, numbered as the learner sees them, the line itself marked with an arrow.

    Parameters
    ----------
    answer : Answer
    line : int or None, in the learner's numbering
    """
    if line is None:
        return ""
    numbered = {}
    for text, _, first in loading.split(answer.text, answer.filename, answer.first_line):
        numbered |= dict(enumerate(text.splitlines(), first))
    shown = [number for number in range(line - context, line + context + 1) if number in numbered]
    if line not in numbered:
        return ""
    return "\n".join(f"{'→' if number == line else ' '} {number:4d} | {numbered[number]}" for number in shown)
