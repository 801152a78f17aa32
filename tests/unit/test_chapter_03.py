"""Chapter 03 holds what chapters promise: short cells, the judge's sizes and minutes, small pictures with words.

The first chapter is the model for the others; what is checked here by number can be asked of each of them.
"""

import base64
import json
import re
from statistics import median

import pytest

from course_lib.build.chapters import read_chapter

MAX_PNG_BYTES = 60_000
MAX_CELL_LINES = 15


@pytest.fixture(scope="module")
def chapter(root):
    return read_chapter(root / "chapters" / "03_online_softmax.md")


@pytest.fixture(scope="module")
def lecture(root):
    return json.loads((root / "notebooks" / "03_online_softmax.ipynb").read_text(encoding="utf-8"))


def test_code_cells_of_the_lecture_are_short(chapter):
    lengths = [len(cell.source.splitlines()) for cell in chapter.part("lecture") if cell.kind == "code"]
    assert max(lengths) <= MAX_CELL_LINES and median(lengths) <= 8, lengths


def test_quoted_kernel_code_comes_in_pieces_of_at_most_fifteen_lines(chapter):
    """Only what is folded away may be longer."""
    text = "\n".join(cell.source for cell in chapter.part("lecture") if cell.kind == "markdown")
    open_text = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    pieces = re.findall(r"^```(?:c\+\+|python)\n(.*?)^```", open_text, re.MULTILINE | re.DOTALL)
    assert len(pieces) >= 10
    assert max(len(piece.splitlines()) for piece in pieces) <= MAX_CELL_LINES


def test_pictures_of_the_lecture_are_small_and_have_words(lecture):
    pictures = [
        output
        for cell in lecture["cells"]
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= 5
    for picture in pictures:
        assert len(base64.b64decode(picture["data"]["image/png"])) <= MAX_PNG_BYTES
        assert len(picture["metadata"]["image/png"]["alt"]) > 40


def test_links_of_the_chapter_lead_somewhere(chapter, root):
    for cell in chapter.cells:
        folder = root / ("notebooks" if cell.part == "lecture" else "exercises")
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", cell.source if cell.kind == "markdown" else ""):
            assert (folder / target).exists(), target
