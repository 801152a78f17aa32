"""Boxes of 2 to 4 dimensions by TMA on the SIMT machine; tests/gpu has the same cases on the card."""

import pytest
from tensor_map_cases import CASES, require_right, run


@pytest.fixture(autouse=True)
def cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_box_arrives_and_leaves(case):
    seen, stored, _ = run(case, "cpu")
    require_right(case, seen, stored)


@pytest.mark.parametrize("case", CASES[::3], ids=str)
@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_a_box_has_no_finding_in_any_schedule(case, schedule):
    seen, stored, report = run(case, "cpu", schedule=schedule)
    require_right(case, seen, stored)
    assert not report.findings
