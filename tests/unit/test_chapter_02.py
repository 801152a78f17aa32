"""Chapter 02: its pages, the sizes and minutes that the judge knows, and pictures that show what kernels recorded."""

import pytest

from course_lib import viz
from course_lib.book.chapters import read_chapter

STEM = "02_first_kernels"


@pytest.fixture(scope="module")
def chapter(root):
    return read_chapter(root / "chapters" / f"{STEM}.md")


def test_the_given_kernel_does_not_say_where_its_barrier_is_missing(chapter):
    from course_lib.book.notebooks import build

    cell = next(c for c in build(chapter).exercises.cells if c.metadata.get("exercise") == "02.5")
    solved = next(c for c in build(chapter).solutions.cells if c.metadata.get("exercise") == "02.5")
    assert cell.source.count("TODO 02.5") == 1
    assert solved.source.count("__syncthreads()") == cell.source.count("__syncthreads()") + 1


def test_pictures_say_in_words_what_they_show():
    assert "element 4: thread 0 of block 1" in viz.who_picture([0, 0, 0, 0, 1], [0, 1, 2, 3, 0]).alt_text
    tree = viz.tree_picture([[1, 3, 2, 0], [3, 3, 2, 0], [6, 3, 2, 0]]).alt_text
    assert "stride 2: elements 0 to 1" in tree and "giving 6." in tree
    fusion = viz.fusion_picture().alt_text
    assert "row_divide reads weights and l and writes out" in fusion
    assert "three kernels, 5 E in sum" in fusion and "one kernel, 2 E in sum" in fusion
