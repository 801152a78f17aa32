"""Chapter 02: its pages, the sizes and minutes that the judge knows, and pictures that show what kernels recorded."""

import base64
import json
import re
from statistics import median

import pytest

from course_lib import viz
from course_lib.build.chapters import read_chapter

STEM = "02_first_kernels"
MAX_PNG_BYTES = 60_000
MAX_CELL_LINES = 15


@pytest.fixture(scope="module")
def chapter(root):
    return read_chapter(root / "chapters" / f"{STEM}.md")


def test_code_comes_in_small_pieces(chapter):
    lengths = [len(cell.source.splitlines()) for cell in chapter.part("lecture") if cell.kind == "code"]
    assert max(lengths) <= MAX_CELL_LINES and median(lengths) <= 8, lengths
    text = "\n".join(cell.source for cell in chapter.part("lecture") if cell.kind == "markdown")
    open_text = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    pieces = re.findall(r"^```(?:c\+\+|python)\n(.*?)^```", open_text, re.MULTILINE | re.DOTALL)
    assert len(pieces) >= 10
    assert max(len(piece.splitlines()) for piece in pieces) <= MAX_CELL_LINES


def test_the_given_kernel_does_not_say_where_its_barrier_is_missing(chapter):
    from course_lib.build import build

    cell = next(c for c in build(chapter).exercises.cells if c.metadata.get("exercise") == "02.5")
    solved = next(c for c in build(chapter).solutions.cells if c.metadata.get("exercise") == "02.5")
    assert cell.source.count("TODO 02.5") == 1
    assert solved.source.count("__syncthreads()") == cell.source.count("__syncthreads()") + 1


def test_pictures_of_the_lecture_are_small_and_have_words(root):
    lecture = json.loads((root / "notebooks" / f"{STEM}.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in lecture["cells"] for output in cell.get("outputs", ())]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) >= 3
    for picture in pictures:
        assert len(base64.b64decode(picture["data"]["image/png"])) <= MAX_PNG_BYTES
        assert len(picture["metadata"]["image/png"]["alt"]) > 40


def test_links_of_the_chapter_lead_somewhere(chapter, root):
    for cell in chapter.cells:
        folder = root / ("notebooks" if cell.part == "lecture" else "exercises")
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", cell.source if cell.kind == "markdown" else ""):
            assert (folder / target).exists(), target


def test_pictures_say_in_words_what_they_show():
    assert "element 4: thread 0 of block 1" in viz.who_picture([0, 0, 0, 0, 1], [0, 1, 2, 3, 0]).alt
    tree = viz.tree_picture([[1, 3, 2, 0], [3, 3, 2, 0], [6, 3, 2, 0]]).alt
    assert "stride 2: places 0 to 1" in tree and "giving 6." in tree
    assert "row_divide reads weights and l and writes out" in viz.fusion_picture().alt
