"""Contracts that speak of tl.dot and of bytes are held by the ledger: each break has its own diagnosis."""

from dataclasses import replace

import pytest

from course_lib.grading.exercise.spec import Case
from course_lib.grading.subjects.ledger.dots import dots
from course_lib.grading.subjects.ledger.held import too_much_held
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share

CASE = Case("two tiles", {"n": 64})
HALF = {"lhs": "fp16", "rhs": "fp16", "accumulator": "fp32", "input_precision": "tf32"}
SINGLE = {**HALF, "lhs": "fp32", "rhs": "fp32", "input_precision": "ieee"}


def ledger(*found):
    """One tl.dot of 16 x 16 x 32 a line, executed twice: 16,384 multiply-adds each."""
    return {"dots": [{"line": 10 + i, "shape": [16, 16, 32], "count": 2, **dot} for i, dot in enumerate(found)]}


@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_right_dots_pass(precision):
    two = ledger({**HALF, "input_precision": precision}, HALF)
    assert dots(CASE, two, operands="fp16", fewest=2 * 16_384) is None  # a precision concerns float32 alone
    assert dots(CASE, ledger(SINGLE), operands=("fp16", "fp32")) is None
    assert dots(CASE, ledger({**SINGLE, "input_precision": "tf32"}), operands="fp32", precision=None) is None


@pytest.mark.parametrize(
    ("found", "code", "says"),
    [
        ((), "no_dot", "no tl.dot was executed"),
        ((HALF, SINGLE), "dot_operands", "line 11 multiplies float32 by float32"),
        (({**HALF, "rhs": "bf16"},), "dot_operands", "half by bfloat16"),
        ((HALF, {**HALF, "accumulator": "fp16"}), "dot_accumulator", "line 11 adds the products up in half"),
        ((HALF,), "dots_missing", "line 10 make 16,384 multiply-adds, and the products of the contract take 32,768"),
    ],
)
def test_each_break_of_a_contract_about_dots_has_its_code(found, code, says):
    refused = dots(CASE, ledger(*found), operands="fp16", fewest=32_768)
    assert refused.code == code and says in refused.sentence and "two tiles" in refused.sentence


def test_tf32_is_refused_where_ieee_is_asked():
    refused = dots(CASE, ledger({**SINGLE, "input_precision": "tf32"}), operands="fp32")
    assert refused.code == "dot_precision" and "TF32; pass input_precision='ieee'" in refused.sentence
    assert dots(CASE, ledger(SINGLE), operands="fp32") is None


TRITON = {
    "global_load": {"bytes": 400}, "global_store": {"bytes": 80},
    "lines": [
        {"line": 7, "kind": "load", "bytes": 100}, {"line": 9, "kind": "load", "bytes": 300},
        {"line": 9, "kind": "store", "bytes": 80},
    ],
}  # fmt: skip
CUDA = {
    "global_load": {"bytes": 400}, "global_store": {"bytes": 80},
    "lines": {
        "7": {"global_load": {"bytes": 100}},
        "9": {"global_load": {"bytes": 300}, "global_store": {"bytes": 80}},
    },
}  # fmt: skip


@pytest.mark.parametrize("counted", [TRITON, CUDA], ids=["triton", "cuda"])
def test_bytes_beyond_the_contract_are_refused_with_the_line_that_moves_most(counted):
    assert moved(CASE, counted, read=400, written=80) is None
    assert moved(CASE, counted, read=380, written=80, slack=1.1) is None
    assert moved(CASE, counted) is None
    reads = moved(CASE, counted, read=200, why="each score is read once")
    assert (reads.code, reads.line) == ("extra_reads", 9)
    assert "400 bytes are read where the contract allows 200 (each score is read once); line 9" in reads.sentence
    writes = moved(CASE, counted, written=40, slack=9.0)
    assert (writes.code, writes.line) == ("extra_writes", 9) and "80 bytes are written" in writes.sentence


def test_no_bytes_allowed_is_a_limit_as_well():
    assert moved(CASE, TRITON, read=0).code == "extra_reads"
    assert moved(replace(CASE, name="other"), {**TRITON, "global_load": {"bytes": 0}}, read=0) is None


@pytest.mark.parametrize("unit", ["thread", "program"])
def test_more_than_its_share_is_refused(unit):
    most = {"largest_share": {"global_load": 64, "global_store": 8}}
    assert share(CASE, most, loaded=64, stored=8) is None and share(CASE, most) is None
    refused = share(CASE, most, loaded=63, stored=8, why="a number each", unit=unit)
    assert refused.code == "work_not_shared"
    assert f"one {unit} reads 64 bytes, and its share of the case 'two tiles' is 63 (a number each)" in refused.sentence
    assert "writes 8 bytes" in share(CASE, most, stored=4).sentence


@pytest.mark.parametrize("most, refused", [((400, 100, 450), 0), ((404, 0, 404), 101), ((300, 300, 504), 101)])
def test_tensors_and_python_objects_share_one_limit(most, refused):
    counted = dict(zip(("tensor_bytes", "object_bytes", "held_bytes"), most, strict=True))
    found = too_much_held(counted, 100, str, python_bytes=100)
    assert (found is not None) == bool(refused) and (found is None or found.sentence == str(refused))
