"""README's generated tables: from files only, between markers, gone when there is nothing to say."""

import pytest

from course_lib.build import readme
from course_lib.errors import CourseError

EMPTY = "\n".join(f"<!-- begin {name} -->\nold\n<!-- end {name} -->" for name in readme.TABLES)


def store(root, device, family, text):
    path = root / "benchmarks" / "results" / device / f"{family}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_chapters_are_listed_with_their_notebooks(tiny_course):
    text = readme.refreshed(EMPTY, tiny_course)
    assert "| 42 | Add two numbers | [read](notebooks/42_add.ipynb) · [2 exercises](exercises/42_add.ipynb) |" in text


def test_without_stored_rows_there_is_no_table_and_no_heading(tiny_course):
    text = readme.refreshed(EMPTY, tiny_course)
    assert "###" not in text and "old" not in text


def test_kills_are_summed(tiny_course):
    rows = "exercise,killed,wrong,false_alarms,right\n03.1,4,4,0,2\n03.2,8,9,1,3\n"
    store(tiny_course, *readme.KILLS, rows)
    text = readme.refreshed(EMPTY, tiny_course)
    assert "killed 12/13, false alarms 1/5" in text and "| 03.2 | 8 of 9 | 1 of 3 |" in text


def test_speed_shows_each_device(tiny_course):
    store(
        tiny_course,
        "h200",
        "softmax",
        "# made by bench\nkernel,shape,milliseconds,gbps\n02_online,4096 x 4096,0.0412,3251.7\n",
    )
    text = readme.refreshed(EMPTY, tiny_course)
    assert "**softmax** on H200" in text and "| 02_online | 4096 x 4096 | 0.0412 | 3.25e+03 |" in text


def test_refreshing_twice_changes_nothing(tiny_course):
    once = readme.refreshed(EMPTY, tiny_course)
    assert readme.refreshed(once, tiny_course) == once


def test_a_missing_marker_is_named(tiny_course):
    with pytest.raises(CourseError, match="end kills"):
        readme.refreshed(EMPTY.replace("<!-- end kills -->", ""), tiny_course)
