"""Each contract is held against the judge: a table of its promises, whose wrong answers there are."""

import pytest

from course_lib.book.pages.promises import SECTION, promises
from course_lib.errors import CourseError
from course_lib.grading.exercise import registry


@pytest.mark.parametrize("exercise_id", registry.ids())
def test_every_contract_says_how_it_is_checked(exercise_id):
    rows = promises(exercise_id)
    assert len(rows) >= 3, f"{exercise_id}: a row for each promise of the contract, in the section {SECTION!r}"
    assert all(row.promise and row.check for row in rows)
    assert sum(bool(row.refused) for row in rows) >= len(rows) / 2


def test_a_name_that_is_not_in_wrong_md_is_an_error(monkeypatch):
    document = registry.documents()["00.1"]
    table = "| Promise | How it is checked | Refused |\n|---|---|---|\n| any width | widths 1 to 9 | no such name |"
    monkeypatch.setitem(document.sections, SECTION, table)
    with pytest.raises(CourseError, match="00.1: 'What is checked' names no such name, which"):
        promises("00.1")
    monkeypatch.setitem(document.sections, SECTION, table.replace("Promise", "Said"))
    with pytest.raises(CourseError, match="is a table with the columns Promise, How it is checked, Refused"):
        promises("00.1")
