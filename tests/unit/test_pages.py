"""README.md and docs/ are up to date; the chapters' plan, the support matrix, the verdict and the pictures."""

import re

import pytest

from course_lib.book.chapters import read_chapter
from course_lib.book.outline import ROOT, chapter_files, plan
from course_lib.book.pages import PAGES, PICTURES, between, chapter_map, filled, overview, verdict

PLAN = "number,title,needs,helped_by\n00,Start,,\n41,Before,00,\n42,Add,41,00\n43,After,42 00,\n"
NEEDS = "// Needs     compute capability 8.0\n"


@pytest.fixture
def planned_course(tiny_course, monkeypatch):
    (tiny_course / "chapters" / "plan.csv").write_text(PLAN)
    kernel = tiny_course / "kernels_cu" / "add" / "01_add.cu"
    kernel.write_text(NEEDS + kernel.read_text())
    kernel.with_name("02_other.cu").write_text(NEEDS.replace("8.0", "9.0"))
    monkeypatch.setattr(overview, "SHORT_CUTS", {"only adding": "42"})
    return tiny_course


def test_written_chapters_have_links_and_the_others_are_planned(planned_course):
    lines = overview.chapters_table(planned_course).splitlines()
    assert lines[-2] == "| 43 | After | planned |" and "(exercises/42_exercises.ipynb)" in lines[-3]


def test_the_map_shows_what_needs_what(planned_course):
    assert "42 needs 41 (better after 00)" in chapter_map.in_words(planned_course)
    picture = chapter_map.picture(planned_course)
    assert picture.count("<path") == 2 * 5 and picture.count('stroke-dasharray="2 5"') == 1  # five arcs, one dotted
    assert "42  Add" in picture and "43  After (planned)" in picture
    assert overview.short_cuts(planned_course) == "- **only adding**: 00, 41, 42"


def test_what_is_refused_says_why_and_other_chapters_kernels_do_not_count(planned_course):
    text = overview.support_table(planned_course)
    assert "| 42 | 1 CUDA file | emulated | refused<sup>1</sup> | compiles |" in text
    assert "<sup>1</sup> Refused of CUDA: add/01_add.cu: needs compute capability 8.0." in text
    assert "02_other" not in text


def test_the_plan_holds_every_chapter_with_its_own_number():
    rows = {row["number"]: row for row in plan(ROOT)}
    for path in chapter_files(ROOT):
        assert read_chapter(path).number in rows
    for number, row in rows.items():
        assert all(one in rows and one < number for one in (row["needs"] + " " + row["helped_by"]).split())


def test_only_decode_is_the_way_that_the_course_promises():
    assert overview.needed("10", plan(ROOT)) == ["00", "01", "03", "07", "09", "10"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_up_to_date(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert filled(page, text, without=("verdict",)) == text, f"{page} is out of date; run: make docs"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_up_to_date(name):
    stored = (ROOT / name).read_text(encoding="utf-8")
    assert stored == PICTURES[name](ROOT), f"{name} is out of date; run: make docs"
    assert len(stored) < 80_000


def test_the_verdict_of_the_readme_is_what_the_judge_says():
    def words(card):  # digits of an error, and so the shades of the map, may differ between CPUs
        return re.sub(r"[░▒█]", "x", re.sub(r"\d[\d.e-]*", "0", card)).replace("·", "x")

    stored = between((ROOT / "README.md").read_text(encoding="utf-8"), "verdict")
    assert words(stored) == words(verdict.verdict_card(ROOT)), "README.md is out of date; run: make docs"
    assert "multiply it" in stored


def test_the_readme_is_short_and_shows_its_pictures():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert all(f"]({name})" in text for name in ("docs/front.svg", "docs/ladder.svg"))


def test_the_readme_says_how_to_get_the_course_how_long_it_takes_and_how_much_disk():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.search(r"```bash\n(.*?)```", text, re.DOTALL)[1].splitlines()
    assert [line.split()[:2] for line in commands] == [["git", "clone"], ["make", "lab"], ["make", "update"]]
    assert re.search(r"about \d+ hours of lectures and \d+ of exercises", text)
    assert re.search(r"\d GB of disk", text)
