"""The command that builds notebooks from chapters/.

May import: errors, outline, chapters, keep, notebooks.
"""

import argparse
import sys
from pathlib import Path

import nbformat

from ..errors import CourseError
from . import FOLDERS, keep
from .chapters import read_chapter
from .notebooks import build, check_outputs, execute
from .outline import ROOT, chapter_files


def build_chapter(path, *, root=ROOT, run=True, say=print):
    """Write the notebooks of one chapter; returns the paths that changed.

    The lectures are executed on the CPU engine unless `run` is False. A learner's answers and predictions stay. A
    notebook of a name that the chapter gives no more is deleted; one that has another name now takes its place.
    """
    built = build(read_chapter(path, root))
    files = built.files()
    former = _former(built.number, files, root)
    written = []
    for name, notebook in files.items():
        target = Path(root) / name
        if name.startswith("notebooks/") and run:
            say(f"{name}: running")
            notebook = execute(notebook, folder=target.parent)
            check_outputs(notebook, target.name)
        _take_place(target, former, files)
        if target.exists():
            notebook = _keep_learners_work(target, notebook, root, say)
        if keep.write_atomic(target, nbformat.writes(notebook) + "\n"):
            written.append(target)
            say(f"{name}: written")
    for path in former:
        _keep_learners_work(path, None, root, say)
        path.unlink()
        say(f"{path.relative_to(root)}: deleted; chapter {built.number} has no notebook of that name any more")
    return written + former


def _former(number, files, root):
    """The chapter's notebooks of names that are not in `files`; a notebook of the learner's own is none of them."""
    return [
        path
        for folder in FOLDERS
        for path in sorted((Path(root) / folder).glob(f"{number}*.ipynb"))
        if f"{folder}/{path.name}" not in files and not all(map(keep.own, nbformat.read(path, as_version=4).cells))
    ]


def _take_place(target, former, files):
    """Give the only former notebook of the folder the name `target`, if that is its only notebook: it was renamed."""
    folder = target.parent
    olds = [path for path in former if path.parent == folder]
    if not target.exists() and len(olds) == 1 and sum(name.startswith(f"{folder.name}/") for name in files) == 1:
        olds[0].rename(target)
        former.remove(olds[0])


def _keep_learners_work(target, notebook, root, say):
    """`notebook` with what the learner wrote into the file at `target`, of which a copy is made first.

    Solutions, and a notebook None, take nothing over.
    """
    existing = nbformat.read(target, as_version=4)
    if not keep.touched(existing):
        return notebook
    copy = keep.back_up(target, Path(root) / "work")
    say(f"{target.relative_to(root)}: you have worked in it; the file as it is now is in {copy.relative_to(root)}")
    return notebook if notebook is None or target.parent.name == "solutions" else keep.merge(notebook, existing)


def main(arguments=None):
    """Entry point of ``python -m course_lib.book`` and ``course build``; returns the exit status."""
    parser = argparse.ArgumentParser(prog="course build", description="Build the notebooks from chapters/.")
    parser.add_argument("chapters", nargs="*", metavar="NN", help="chapter numbers; all when none is given")
    parser.add_argument("--no-run", action="store_true", help="do not execute the lectures (they lose their outputs)")
    options = parser.parse_args(arguments)
    files = [path for path in chapter_files() if not options.chapters or path.name[:2] in options.chapters]
    unknown = set(options.chapters) - {path.name[:2] for path in files}
    if unknown:
        print(f"There is no chapter {', '.join(sorted(unknown))} in chapters/.", file=sys.stderr)
        return 2
    for path in files:
        try:
            build_chapter(path, run=not options.no_run)
        except CourseError as error:
            print(error, file=sys.stderr)
            return 1
    return 0
