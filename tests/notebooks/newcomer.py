"""A scratch course for the browser test of a newcomer's first hours: an origin, a learner's clone, a newer chapter."""

import subprocess

LECTURE, EXERCISES = "notebooks/00_the_driving_question.ipynb", "exercises/00_exercises.ipynb"
NEWS = "A sentence of a newer course."


def git(folder, *words):
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True)


def clone(root, origin, target):
    """Put the first chapter's notebooks of the repository into a course of its own, and clone it."""
    for name in (LECTURE, EXERCISES):
        (origin / name).parent.mkdir(parents=True)
        (origin / name).write_bytes((root / name).read_bytes())
    git(origin, "init", "--quiet")
    _commit(origin)
    git(origin.parent, "clone", "--quiet", str(origin), str(target))


def publish_news(origin):
    """Change a text of both notebooks in the course."""
    for name in (LECTURE, EXERCISES):
        text = (origin / name).read_text()
        title = '"# 00 '
        assert text.count(title) == 1
        (origin / name).write_text(text.replace(title, f'"{NEWS}\\n",\n    {title}'))
    _commit(origin)


def _commit(origin):
    git(origin, "add", "--all")
    git(origin, "commit", "--quiet", "-m", "newer")
