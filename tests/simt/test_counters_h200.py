"""The SIMT machine counts what an H200 counts: equal on every micro-kernel, and on the chapters' kernels wherever the
compiler keeps the source's accesses; where it does not, the reason is stated and the difference must be there.

The table: ``pytest tests/simt/test_counters_h200.py -s -k table``, ``python -m benchmarks.counters.compare_counters``.
"""

import pytest

from benchmarks.counters import compare_counters
from benchmarks.counters.counter_cases import CASES
from course_lib import cuda

HEAD, MEASURED = compare_counters.readings()


@pytest.fixture(scope="module")
def pairs():
    """Every pair, counted once; a dict of case name to its pairs."""
    return {case.name: compare_counters.compare(case, MEASURED[case.name]) for case in CASES}


def test_every_case_was_measured():
    assert [case.name for case in CASES] == list(MEASURED)
    assert any("NVIDIA H200" in line for line in HEAD) and any(line.startswith("# ncu ") for line in HEAD)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_counters(case, pairs):
    wrong = [pair for pair in pairs[case.name] if not pair.as_expected]
    assert not wrong, "\n".join(
        f"{pair.counter}: counted {pair.as_written}, measured {pair.measured} ({pair.why or 'must be equal'})"
        for pair in wrong
    )


def test_what_differs_is_seen_in_the_machine_code():
    """The reason "one 128-bit load" is read from the cubin, at the lines of the two sums."""
    kernel = cuda.load("softmax/02_online.cu", defines={"BLOCK": 128})
    loads = [
        access for access in kernel.as_compiled("sm_90a").accesses if (access.space, access.kind) == ("shared", "load")
    ]
    assert [(access.bytes, access.count) for access in loads] == [(16, 1), (16, 1)]


def test_table(pairs):
    text = compare_counters.table([pair for row in pairs.values() for pair in row])
    print("\n" + text)
    assert "NOT AS EXPECTED" not in text
