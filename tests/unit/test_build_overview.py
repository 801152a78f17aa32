"""README's overview: chapters that stand and that are planned, what needs what, what runs where; the front picture."""

import importlib.util

import pytest

from course_lib.book import overview, readme
from course_lib.book.chapters import ROOT, chapter_files, read_chapter

PLAN = "number,title,needs,helped_by\n00,Start,,\n41,Before,00,\n42,Add,41,00\n43,After,42 00,\n"
STATES = """file,machine,state,note
add/01_add.cu,cpu,emulated,
add/01_add.cu,sm_75,refused,needs compute capability 8.0
add/01_add.cu,sm_80,compiles,
add/02_other.cu,sm_80,compiles,
"""


@pytest.fixture
def planned_course(tiny_course, monkeypatch):
    (tiny_course / "chapters" / "plan.csv").write_text(PLAN)
    (tiny_course / "kernels_cu" / "support.csv").write_text(STATES)
    monkeypatch.setattr(overview, "SHORT_CUTS", {"only adding": "42"})
    return tiny_course


def test_chapters_that_stand_have_links_and_the_others_their_state(planned_course):
    lines = overview.chapters_table(planned_course).splitlines()
    assert lines[-1] == "| 43 | After | planned |" and "(exercises/42_add.ipynb)" in lines[-2]


def test_the_graph_is_drawn_and_said(planned_course):
    text = overview.graph(planned_course)
    assert "c42 --> c43" in text and "c00 -.-> c42" in text
    assert 'c42["42 Add"]\n' in text and 'c43["43 After"]:::planned' in text
    assert "42 needs 41 (better after 00)" in text and "**only adding**: 00, 41, 42." in text


def test_what_is_refused_says_why_and_other_chapters_kernels_do_not_count(planned_course):
    text = overview.support_table(planned_course)
    assert "| 42 | 1 CUDA file | emulated | refused<sup>1</sup> | compiles |" in text
    assert "<sup>1</sup> Refused: add/01_add.cu: needs compute capability 8.0." in text


def test_the_plan_holds_every_chapter_with_its_own_number():
    rows = {row["number"]: row for row in overview.plan(ROOT)}
    for path in chapter_files(ROOT):
        assert read_chapter(path).number in rows
    for number, row in rows.items():
        assert all(one in rows and one < number for one in (row["needs"] + " " + row["helped_by"]).split())


def test_only_decode_is_the_way_that_the_course_promises():
    assert overview.needed("10", overview.plan(ROOT)) == ["00", "01", "03", "07", "09", "10"]


def test_the_readme_is_fresh():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("chapters", "graph", "support"):
        begin, end = f"<!-- begin {name} -->\n", f"\n<!-- end {name} -->"
        shown = text[text.index(begin) + len(begin) : text.index(end)]
        assert shown == readme.TABLES[name](ROOT), f"the table {name!r} of README.md is stale: make readme"


def test_the_front_picture_says_what_the_machine_says_today():
    path = ROOT / "scripts" / "front_picture.py"
    spec = importlib.util.spec_from_file_location("front_picture", path)
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    stored = (ROOT / "docs" / "front.svg").read_text(encoding="utf-8")
    assert stored == drawing.picture(), "docs/front.svg is stale: python scripts/front_picture.py"
    assert len(stored) < 80_000 and "docs/front.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
