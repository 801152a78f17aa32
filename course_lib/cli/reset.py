"""Replace a cell of an exercises notebook by its starter; the learner's cell is saved in work/ first.

May import: errors, grading.records.work, book.
"""

from pathlib import Path

from ..errors import CourseError
from ..grading.records import work

ROOT = Path(__file__).resolve().parents[2]


def reset(exercise_id, *, root=ROOT):
    """Replace the learner's cell of one exercise by its starter.

    Parameters
    ----------
    exercise_id : str, "03.2"
    root : the repository

    Returns
    -------
    notebook : Path of the notebook that was changed
    kept : Path of the learner's cell in work/, or None when the cell was still the starter

    Raises
    ------
    CourseError  there is no such exercise, or no exercises notebook
    """
    import nbformat

    from ..book import keep
    from ..book.outline import exercises_name

    starter = _starter(exercise_id, root)
    path = Path(root) / exercises_name(exercise_id[:2])
    if not path.exists():
        raise CourseError(f"{path} is missing; `course build {exercise_id[:2]}` makes it")
    notebook = nbformat.read(path, as_version=4)
    learner_cell = _cell(notebook, exercise_id)
    if learner_cell is None:
        raise CourseError(
            f"{path.name} has no cell for {exercise_id} any more; `course build {exercise_id[:2]}` puts it back"
        )
    if learner_cell.source == starter.source:
        return path, None
    kept = work.save_text(f"drafts/{exercise_id}", learner_cell.source, work.suffix_of(learner_cell.source))
    learner_cell.source, learner_cell.metadata = starter.source, starter.metadata
    learner_cell.outputs, learner_cell.execution_count = [], None
    keep.write_atomic(path, nbformat.writes(notebook) + "\n")
    return path, kept


def _starter(exercise_id, root):
    """Return the starter cell of an exercise."""
    from ..book.chapters import read_chapter
    from ..book.notebooks import build
    from ..book.outline import chapter_files

    chapter = next((path for path in chapter_files(root) if path.name[:2] == exercise_id[:2]), None)
    if chapter is None:
        raise CourseError(f"there is no chapter {exercise_id[:2]}, so there is no exercise {exercise_id}")
    starters = build(read_chapter(chapter, root)).exercises
    starter = _cell(starters, exercise_id) if starters is not None else None
    if starter is None:
        raise CourseError(f"{chapter.name} has no exercise {exercise_id}")
    return starter


def _cell(notebook, exercise_id):
    for cell in notebook.cells:
        if cell.metadata.get("exercise") == exercise_id and "exercise" in cell.metadata.get("tags", ()):
            return cell
    return None
