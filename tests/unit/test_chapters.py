"""What every chapter promises: short cells and quotations, small pictures with words, links that lead somewhere, and of
each exercise what the judge knows."""

import re
from pathlib import Path
from statistics import median

import nbformat
import pytest

from course_lib.book.chapters import read_chapter
from course_lib.book.notebooks import pictures
from course_lib.grading.exercise import registry

# chapter 00 teaches the verdict with an exercise of another form; test_chapter_00.py holds it
IDS = [exercise_id for exercise_id in registry.ids() if not exercise_id.startswith("00.")]
PARTS = ("**Contract.**", "**Predict first.**", "**After passing.**", "<details><summary>The prediction")

CHAPTERS = sorted(path.stem for path in (Path(__file__).parents[2] / "chapters").glob("[0-9][0-9]_*.md"))
MAX_LINES, MEDIAN_LINES = 15, 10  # of a code cell, and of a quotation
MAX_PNG_BYTES, MIN_ALT_LETTERS, MIN_PICTURES = 120_000, 40, 3  # CONTRIBUTING.md
WORDS = ("warp", "lane", "engine", "barrier")  # in verdicts or ledgers before the chapter that explains them
GLOSSARY = "(../chapters/glossary.md#{word})"


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
    exercise, text = registry.get_document(exercise_id), exercises_text[exercise_id[:2]]
    own = re.search(rf"^## {re.escape(exercise_id)} .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[0]
    lines = "1 line" if exercise.size_lines == 1 else f"{exercise.size_lines} lines"
    assert f"**Size** {lines}. **Time** {exercise.minutes} minutes." in own
    assert f'hint("{exercise_id}")' in own
    for part in PARTS:
        assert part in own, part
    row = next(line for line in text.splitlines() if line.startswith(f"| {exercise_id} |"))
    assert row.endswith(f"| {exercise.size_lines} | {exercise.minutes} |")


@pytest.fixture(params=CHAPTERS)
def chapter(root, request):
    return read_chapter(root / "chapters" / f"{request.param}.md")


def markdown(chapter, part):
    """The Markdown of a part, without what is folded away: answers may be longer."""
    text = "\n".join(cell.source for cell in chapter.part(part) if cell.kind == "markdown")
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)


def test_code_cells_and_quotations_of_a_lecture_are_short(chapter):
    lengths = [len(cell.source.splitlines()) for cell in chapter.part("lecture") if cell.kind == "code"]
    assert max(lengths) <= MAX_LINES and median(lengths) <= MEDIAN_LINES, lengths
    pieces = re.findall(r"^```(?:c\+\+|python)\n(.*?)^```", markdown(chapter, "lecture"), re.MULTILINE | re.DOTALL)
    assert all(len(piece.splitlines()) <= MAX_LINES for piece in pieces)
    assert len(pieces) >= 4 or chapter.stem.startswith("00"), "a lecture reads its kernels region by region"


def test_pictures_of_a_lecture_are_small_and_have_words(root, chapter):
    for lecture in chapter.lectures:
        notebook = nbformat.read(root / "notebooks" / f"{lecture.stem}.ipynb", as_version=4)
        outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
        shown = [picture for output in outputs for picture in pictures(output.get("data", {}))]
        assert len(shown) >= MIN_PICTURES, lecture.stem
        for png, alt in shown:
            assert len(png) <= MAX_PNG_BYTES and len(alt) > MIN_ALT_LETTERS


def test_links_lead_somewhere(root, chapter):
    for cell in chapter.cells:
        folder = root / ("notebooks" if cell.part == "lecture" else "exercises")
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", cell.source if cell.kind == "markdown" else ""):
            assert (folder / target).exists(), target


@pytest.mark.parametrize("number", ["00", "01", "02", "03"])
def test_the_first_use_of_a_word_leads_to_the_glossary(root, number):
    (path,) = (root / "chapters").glob(f"{number}_*.md")
    text = "\n".join(cell.source for cell in read_chapter(path).part("lecture") if cell.kind == "markdown")
    plain = re.sub(r"^```.*?^```|^#+ .*?$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    for word in WORDS:
        used = re.search(rf"[^\n]{{0,40}}\b{word}s?\b[^\n]{{0,40}}", plain, re.IGNORECASE)
        linked = re.search(rf"\[\**{word}s?\**\]{re.escape(GLOSSARY.format(word=word))}", plain, re.IGNORECASE)
        if used:
            assert linked and linked.start() <= used.end(), used[0]


def test_a_lecture_ends_with_a_recap(chapter):
    for lecture in chapter.lectures:
        recap = lecture.cells[-1].source.strip().split("\n\n")[-1]
        for words in (
            r"^\*\*Recap\.\*\* \*What chang",
            r"\*What .*cost.*\*:",
            r"\*What limits .*\*:",
            r"\*What comes next\*:",
        ):
            assert re.search(words, recap), (lecture.stem, words)


def test_a_prediction_follows_its_question(chapter):
    text = ""
    for cell in chapter.part("lecture"):
        if cell.kind == "markdown":
            text = cell.source
        elif cell.source.startswith("predict("):
            assert "?" in text.rstrip().rpartition("\n\n")[2], cell.source


def test_a_lecture_folds_its_comparisons_until_the_guess_is_made(chapter):
    for lecture in chapter.lectures:
        asked = [key for cell in lecture.cells for key in re.findall(r'^predict\("([^"]+)"', cell.source, re.MULTILINE)]
        compared = [
            (key, cell.metadata.get("after_guess", ""))
            for cell in lecture.cells
            for key in re.findall(r'\bcompare\(\s*"(\d\d\.\w+)"', cell.source)
        ]
        assert sorted(asked) == sorted(key for key, _ in compared), lecture.stem
        assert [key for key, waits_for in compared if key not in waits_for.split()] == [], lecture.stem
