"""A chapter says of each exercise what the judge knows: size and minutes; and no part of its text is missing."""

import re

import pytest

from course_lib.build.chapters import read_chapter
from course_lib.grading import registry

# chapter 00 teaches the verdict with an exercise of another form; test_chapter_00.py holds it
IDS = [exercise_id for exercise_id in registry.all() if not exercise_id.startswith("00.")]
PARTS = ("**Contract.**", "**Predict first.**", "**After passing.**", "<details><summary>The prediction")


@pytest.fixture(scope="module")
def exercises_text(root):
    """Number of a chapter -> the Markdown of its exercises part."""
    texts = {}
    for path in (root / "chapters").glob("[0-9][0-9]_*.md"):
        cells = read_chapter(path).part("exercises")
        texts[path.name[:2]] = "\n".join(cell.source for cell in cells if cell.kind == "markdown")
    return texts


@pytest.mark.parametrize("exercise_id", IDS)
def test_every_exercise_says_what_the_judge_says(exercises_text, exercise_id):
    exercise, text = registry.get(exercise_id), exercises_text[exercise_id[:2]]
    own = re.search(rf"^## {re.escape(exercise_id)} .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[0]
    lines = "1 line" if exercise.size_lines == 1 else f"{exercise.size_lines} lines"
    assert f"**Size** {lines}. **Time** {exercise.minutes} minutes." in own
    assert f'hint("{exercise_id}")' in own
    for part in PARTS:
        assert part in own, part
    row = next(line for line in text.splitlines() if line.startswith(f"| {exercise_id} |"))
    assert row.endswith(f"| {exercise.size_lines} | {exercise.minutes} |")
