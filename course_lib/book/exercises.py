"""Exercises as the chapters show them, from their task.md.

A line ``@exercise NN.k`` in a chapter becomes that exercise, ``@exercises`` all of the chapter in order, and
``@exercise-table`` their table.

May import: grading.exercise (documents only), regions, errors.
"""

import re

from ..errors import CourseError
from ..grading.exercise import registry

_LINE = re.compile(r"^@exercise(?: (\d\d\.\d+)|(s)|(-table))[ \t]*$", re.MULTILINE)
_CELL = "```{code-cell} ipython3\n"
_LANGUAGES = {"cuda": "CUDA", "triton": "Triton"}


def expand(text, chapter, root):
    """A chapter's text with its exercise lines replaced.

    Parameters
    ----------
    text : str, MyST Markdown
    chapter : str, two digits
    root : path, the repository

    Raises
    ------
    CourseError  an exercise that has no folder
    """
    if not _LINE.search(text):
        return text
    folders = registry.folders(root)

    def document(exercise_id):
        if exercise_id not in folders:
            raise CourseError(f"@exercise {exercise_id}: solutions/ has no folder for it")
        return registry.read(folders[exercise_id])

    def replaced(match):
        if match[1]:
            return page(document(match[1]))
        own = [document(exercise_id) for exercise_id in folders if exercise_id.startswith(f"{chapter}.")]
        return table(own) if match[3] else "\n\n".join(page(task) for task in own)

    return _LINE.sub(replaced, text)


def table(documents):
    """The Markdown table of some exercises."""
    rows = ["| | you write | in | lines | minutes |", "|---|---|---|---|---|"]
    for task in documents:
        rows.append(f"| {task.id} | {task.summary} | {written_in(task)} | {task.size_lines} | {task.minutes} |")
    return "\n".join(rows)


def written_in(task):
    """ "CUDA", "Triton", "torch" or "Python"."""
    if task.language in _LANGUAGES:
        return _LANGUAGES[task.language]
    text = (registry.ROOT / task.solution.partition("#")[0]).read_text(encoding="utf-8")
    return "torch" if re.search(r"^import torch", text, re.MULTILINE) else "Python"


def page(task):
    """One exercise as MyST Markdown: contract, prediction, answer cell, check cell, and what follows a PASS."""
    lines = f"{task.size_lines} line{'' if task.size_lines == 1 else 's'}"
    blocks = [
        f"## {task.id} {task.title}",
        f"**Contract.** {task.contract}",
        f'**Size** {lines}. **Time** {task.minutes} minutes. **Hints:** `hint("{task.id}")`.',
        task.sections.get("Warm-up", ""),
        _lead("Predict first", task),
        f'{_CELL}---\ntags: [exercise]\nexercise: "{task.id}"\n---\n{_answer(task)}\n```',
        f'{_CELL}:tags: [check]\ncheck("{task.id}", {_handed_over(task)})\n```',
        _lead("After passing", task),
        *(
            f"<details><summary>{name}</summary>\n\n{task.sections[name]}\n\n</details>"
            for name in ("The prediction", "The predictions")
            if name in task.sections
        ),
    ]
    return "\n\n".join(block for block in blocks if block)


def _lead(name, task):
    return f"**{name}.** {task.sections[name]}" if name in task.sections else ""


def _answer(task):
    head = {"cuda": f"%%cuda {task.cell}\n", "triton": "import triton\nimport triton.language as tl\n\n"}
    return f"{head.get(task.language, '')}@include {task.solution}"


def _handed_over(task):
    """What the answer cell binds: for CUDA the name after %%cuda, otherwise the function."""
    return task.cell.split()[0] if task.language == "cuda" else task.entry
