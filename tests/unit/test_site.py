"""What Sphinx builds the site from: collected pages, docstrings, the API; tests/site has the tests of the result."""

import re

import nbformat
import pytest

from course_lib.book import chapters
from course_lib.book.outline import ROOT
from course_lib.book.site import api, sources
from course_lib.book.site.docstrings import inline, to_rst

DOCSTRING = """\
Attention with a `mask`, one launch; |x| and *args stay as they are.

    out = attention(q)

Parameters
----------
q : tensor, (batch_size, head_dim),
    contiguous
causal : bool; keeps
    1 1 0
    1 1 1

Raises
------
ShapeError        shapes that do not fit
UnsupportedError  no such variant

Notes
-----
Cost      4 FLOP
"""
RST = r"""
Attention with a ``mask``, one launch; \|x\| and \*args stay as they are.

::

        out = attention(q)

.. rubric:: Parameters

``q``
    tensor, (batch_size, head_dim),
    contiguous

``causal``
    | bool; keeps
    | 1 1 0
    | 1 1 1

.. rubric:: Raises

``ShapeError``
    shapes that do not fit

``UnsupportedError``
    no such variant

.. rubric:: Notes

``Cost``
    4 FLOP
"""


def test_docstrings_of_the_course_become_restructured_text():
    assert "\n".join(to_rst(DOCSTRING.splitlines())).strip() == RST.strip()
    assert to_rst([]) == []


def test_a_code_span_keeps_its_characters():
    assert inline("``a*b|c`` and `d_`s, e_ *f*") == r"``a*b|c`` and ``d_``\ s, e\_ \*f\*"


def test_a_notebook_page_says_how_to_run_it_and_leads_to_its_exercises(tmp_path):
    links = "[Solutions](../solutions/42_solutions.ipynb) · [Front page](../README.md)"
    cells = [
        nbformat.v4.new_markdown_cell(f"Previous: 41 · {links}", metadata={"tags": ["navigation"]}),
        nbformat.v4.new_markdown_cell("# 42 Add\n\nText."),
        nbformat.v4.new_code_cell("1 + 1", metadata={"after_guess": "42.sum"}),
    ]
    for folder, stem in (("notebooks", "42a_add"), ("notebooks", "42b_more"), ("exercises", "42_exercises")):
        (tmp_path / folder).mkdir(exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / folder / f"{stem}.ipynb")
    lectures = (chapters.Lecture("42a_add", "42a Add", ()), chapters.Lecture("42b_more", "42b More", ()))
    chapter = chapters.Chapter("42_add", lectures, (chapters.Cell("markdown", "", "exercises"),))
    lecture, following, exercises = sources.chapter_pages(chapter, tmp_path).values()
    first, last = lecture.cells[1].source, following.cells[-1].source
    assert lecture.cells[0].source == "Previous: 41 · [Front page](../index.md)"
    assert first.startswith("# 42 Add\n\n````{admonition} Open in JupyterLab") and first.endswith("\nText.")
    assert "open `notebooks/42a_add.ipynb`" in first
    assert lecture.cells[2].metadata["tags"] == ["hide-output"]
    assert last.startswith("```{toctree}") and "Exercises </exercises/42_exercises>" in last
    assert "open `exercises/42_exercises.ipynb`" in exercises.cells[1].source
    assert "toctree" not in exercises.cells[-1].source + lecture.cells[-1].source


def test_every_page_of_docs_is_in_the_table_of_contents():
    pages = {f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {*sources.REFERENCE, *sources.PROJECT}


@pytest.mark.parametrize("room", api.ROOMS)
def test_a_room_has_an_api_page_with_its_public_names(room):
    page = api.room_page(room)
    assert page.startswith(f"{api.ROOMS[room]}\n====") and ".. auto" in page.partition(":no-members:")[2]


@pytest.mark.parametrize("room", api.ROOMS)
def test_an_api_page_points_to_pages_that_exist(room):
    assert set(re.findall(r":doc:`([^`]+)`", api.room_page(room))) <= api.ROOMS.keys()
