"""An untouched exercises notebook runs from top to bottom, and every check of it says NOT STARTED."""

import pytest

from course_lib.book import notebooks
from course_lib.book.chapters import read_chapter
from course_lib.book.notebooks import build
from course_lib.book.outline import chapter_files

CHAPTERS = chapter_files()


def texts(cell):
    """Everything that a cell put out, as one text."""
    parts = [output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "\n".join(parts)


@pytest.fixture(scope="module", params=CHAPTERS, ids=lambda path: path.stem)
def ran(request, tmp_path_factory):
    """The starter as the chapter gives it (not the file, in which a learner may have worked), after a run."""
    starter = build(read_chapter(request.param)).exercises
    if starter is None:
        return None
    return notebooks.execute(starter, folder=tmp_path_factory.mktemp("exercises"), strict=False)


def test_untouched_checks_say_not_started(ran):
    checks = [cell for cell in ran.cells if "check" in cell.metadata.get("tags", ())] if ran else []
    exercises = [cell for cell in ran.cells if "exercise" in cell.metadata.get("tags", ())] if ran else []
    assert len(checks) == len(exercises)
    for cell in checks:
        assert "NOT STARTED" in texts(cell), f"{cell.source}\n{texts(cell)}"


def test_untouched_exercises_say_nothing_alarming(ran):
    for cell in ran.cells if ran else ():
        for output in cell.get("outputs", ()):
            assert output.get("name") != "stderr", f"{cell.source}\n{output.text}"
