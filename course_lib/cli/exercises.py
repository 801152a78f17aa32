"""`course exercises`: check the exercises of a folder, and build a notebook of them.

    course exercises check DIR            every exercise of DIR is complete, and each of its answers gets its verdict
    course exercises check 03.2           one of the course's own
    course exercises build DIR            DIR/exercises.ipynb, with starters

May import: everything.
"""

import os
import secrets
from pathlib import Path

from ..errors import CourseError
from ..grading.exercise import registry

NOTEBOOK = "exercises.ipynb"
_HEADER = """\
---
jupytext: {formats: "md:myst", text_representation: {extension: .md, format_name: myst}}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

+++ {"part": "exercises"}

"""
_SETUP = """\
```{code-cell} ipython3
%load_ext course_lib
import os
os.environ["COURSE_EXERCISES"] = os.getcwd()  # the folder of this notebook holds the exercises
from course_lib import check, hint, predict
```
"""


def add_folders(names):
    """Add folders of exercises to those that COURSE_EXERCISES names, for this process and those it starts.

    Raises
    ------
    CourseError  one of them does not exist
    """
    folders = registry.outside()
    for name in names or ():
        folder = Path(name).expanduser().resolve()
        if not folder.is_dir():
            raise CourseError(f"there is no folder {name}")
        folders += [folder] if folder not in folders else []
    os.environ[registry.VARIABLE] = os.pathsep.join(map(str, folders))


def chosen(names):
    """The ids that command-line words name: an id such as 03.2, or all in a folder; every one without words."""
    if not names:
        return registry.ids()
    add_folders([name for name in names if Path(name).is_dir()])
    ids = []
    for name in names:
        inside = [known for known, folder in registry.folders().items() if folder.is_relative_to(Path(name).resolve())]
        ids += inside if Path(name).is_dir() else [registry.get_document(name).id]
    return ids


def check(names, *, seed=None, engine="cpu", say=print):
    """Check exercises against the checklist; print a line for each answer.

    Returns
    -------
    int, 0 when every answer gets its verdict and nothing is lacking, 1 otherwise
    """
    from .. import checklist

    rows, lacking = [], []
    for exercise_id in chosen(names):
        exercise = registry.get(exercise_id)
        lacking += checklist.incomplete(exercise)
        for row in checklist.judge_all(exercise, seed=secrets.randbits(32) if seed is None else seed, engine=engine):
            rows.append(row)
            mark, got = ("ok ", row.got) if row.as_expected else ("BAD", f"{row.got}, expected {row.expected}")
            say(f"{mark} {row.exercise} {row.kind:8} {row.name:45} {got:30} {row.sentence}")
    say("\n".join([*(f"lacking: {sentence}" for sentence in lacking), checklist.score(rows)]))
    return int(bool(lacking) or not all(row.as_expected for row in rows))


def build(name):
    """Write the starter notebook of a folder of exercises; returns its path.

    Raises
    ------
    CourseError  the notebook exists already
    """
    import nbformat

    from ..book import exercises, notebooks
    from ..book.chapters import chapter_from

    folder = Path(name).resolve()
    target = folder / NOTEBOOK
    if target.exists():
        raise CourseError(f"{target} exists; a learner may have worked in it: move it away first")
    tasks = [registry.get_document(exercise_id) for exercise_id in chosen([name])]
    text = "\n\n".join([f"# {folder.name}: exercises", exercises.table(tasks), _SETUP, *map(exercises.page, tasks)])
    chapter = chapter_from(f"{tasks[0].id[:2]}_{folder.name}", _HEADER + text + "\n", registry.ROOT)
    target.write_text(nbformat.writes(notebooks.build(chapter).exercises) + "\n", encoding="utf-8")
    return target
