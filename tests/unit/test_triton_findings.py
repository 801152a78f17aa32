"""Findings of the ledger: out of bounds, races, uninitialised reads. Each has a correct variant without findings."""

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib import profile_triton
from course_lib.errors import KernelFault
from course_lib.triton import ledger


@triton.jit
def shifted_kernel(x, y, n, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i + shift, mask=i < n, other=0)
    tl.store(y + i, v, mask=i < n)


@pytest.mark.parametrize(
    ("shift", "bad", "position"),
    [
        (5, 5, "1 element past its end"),
        (-3, 3, "3 elements before its start"),
        (1000, 200, "801 elements past its end"),
        (2**29, 200, "every argument"),
        (-(2**29), 200, "every argument"),
    ],
)
def test_reads_outside(shift, bad, position):
    """Far outside would end the process if the access were carried out."""
    x, y = torch.arange(200.0), torch.zeros(200)
    report = profile_triton(shifted_kernel, 2, x, y, 200, shift, BLOCK=128)
    findings = report.out_of_bounds
    assert sum(f.count for f in findings) == bad and not report.ok
    assert position in findings[0].message and findings[0].filename == __file__
    assert findings[0].tensor == ("" if "every" in position else "x")
    assert int(y.isnan().sum()) == bad  # a suppressed read is never a plausible number
    assert report.load.elements == 200 - bad


@triton.jit
def overrun_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n, other=7))


def test_writes_outside_are_not_carried_out():
    memory = torch.zeros(300)
    report = profile_triton(overrun_kernel, 2, torch.ones(200), memory[:200], 200, BLOCK=128)
    (finding,) = report.findings
    assert (finding.kind, finding.tensor, finding.count, finding.program) == ("out_of_bounds", "y", 56, (1, 0, 0))
    assert "writes outside y (shape (200,), float32)" in finding.message
    assert memory[:200].sum() == 200 and memory[200:].sum() == 0


@triton.jit
def far_atomic_kernel(x, shift):
    tl.atomic_add(x + shift, 1.0)


def test_without_a_ledger_a_launch_is_stopped_before_it_leaves_its_arguments():
    """The process survives accesses that would end it, and neighbours keep their numbers."""
    x, y = torch.ones(128), torch.zeros(128)
    overrun_kernel[(1,)](x, y, 128, BLOCK=128)
    assert torch.equal(x, y)
    with pytest.raises(
        KernelFault, match=r"line \d+: program \(1, 0, 0\) writes 128 of 128 elements outside every arg"
    ):
        overrun_kernel[(2,)](x, y, 128, BLOCK=128)
    with pytest.raises(KernelFault, match="reads 128 of 128 elements"):
        shifted_kernel[(1,)](x, y, 128, 2**40, BLOCK=128)
    with pytest.raises(KernelFault, match="updates 1 of 1 elements") as caught:
        far_atomic_kernel[(1,)](x, -(2**40))
    assert caught.value.__cause__ is None  # the sentence alone, without the interpreter's wrapping
    shifted_kernel[(1,)](x[64:], y[:64], 64, -64, BLOCK=64)  # a view's storage counts as a whole
    descriptor = TensorDescriptor.from_tensor(torch.ones(16, 16), [16, 16])
    descriptor_kernel[(1,)](descriptor, y, BLOCK=16)
    assert y[:16].sum() == 16


@triton.jit
def descriptor_kernel(source, y, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), tl.sum(source.load([0, 0]), 0) / BLOCK)


@triton.jit
def rows_kernel(x, y, cols, stride, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    tl.store(y + row * BLOCK + c, tl.load(x + row * stride + c, mask=c < cols))


def test_the_gap_between_rows_is_out_of_bounds():
    wide = torch.ones(4, 48)
    report = profile_triton(rows_kernel, 4, wide[:, :32], torch.zeros(4, 32), 32, 48, BLOCK=32)
    assert report.ok
    report = profile_triton(rows_kernel, 4, wide[:, :30], torch.zeros(4, 32), 32, 48, BLOCK=32)
    assert sum(f.count for f in report.findings) == 8 and "between its rows" in report.findings[0].message


@triton.jit
def half_width_kernel(x, y):
    p = (x + 0).to(tl.pointer_type(tl.float32))
    tl.store(y, tl.load((p.to(tl.int64) + 2).to(tl.pointer_type(tl.float32))))


def test_misaligned_addresses():
    report = profile_triton(half_width_kernel, 1, torch.zeros(8), torch.zeros(1))
    assert [f.kind for f in report.findings] == ["misaligned"] and len(report.misaligned) == 1


@triton.jit
def accumulate_kernel(x, y, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * BLOCK + c)
    if ATOMIC:
        tl.atomic_add(y + c, v)
    else:
        old = tl.load(y + c)
        tl.store(y + c, old + v)


def test_accumulation_needs_atomics():
    x, right, wrong = torch.randn(4, 32), torch.zeros(32), torch.zeros(32)
    assert profile_triton(accumulate_kernel, 4, x, right, ATOMIC=True, BLOCK=32).ok
    report = profile_triton(accumulate_kernel, 4, x, wrong, ATOMIC=False, BLOCK=32)
    assert torch.allclose(right, wrong)  # the value alone shows nothing
    assert report.races and {f.kind for f in report.findings} == {"race"}
    race = report.races[0]
    assert race.tensor == "y" and race.line != race.other_line and race.space == "global"
    assert "y[0]" in race.message and "(0, 0, 0)" in race.message and "(1, 0, 0)" in race.message


@triton.jit
def neighbour_kernel(x, y, n, OUT_OF_PLACE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0) + tl.load(x + i + 1, mask=i + 1 < n, other=0)
    if OUT_OF_PLACE:
        tl.store(y + i, v, mask=i < n)
    else:
        tl.store(x + i, v, mask=i < n)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_a_read_of_what_another_program_writes(schedule):
    """In forward order the neighbour is read before it is written, in reverse order after: both are the same race."""
    x, y = torch.ones(64), torch.zeros(64)
    assert profile_triton(neighbour_kernel, 4, x, y, 64, schedule=schedule, OUT_OF_PLACE=True, BLOCK=16).ok
    report = profile_triton(neighbour_kernel, 4, x, y, 64, schedule=schedule, OUT_OF_PLACE=False, BLOCK=16)
    assert sum(f.count for f in report.races) == 3
    lines = {report.races[0].line, report.races[0].other_line}
    assert len(lines) == 2


def test_two_programs_that_write_the_same_address():
    x, y = torch.ones(2, 32), torch.zeros(32)
    report = profile_triton(rows_kernel, 2, x, y.expand(2, 32), 32, 32, BLOCK=32)
    assert report.out_of_bounds  # y.expand has one row of memory
    report = profile_triton(same_row_kernel, 3, x, y, BLOCK=32)
    (race,) = report.findings
    assert race.kind == "race" and race.line == race.other_line and race.count == 64


@triton.jit
def same_row_kernel(x, y, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    tl.store(y + c, tl.load(x + c))


@triton.jit
def collide_kernel(x, y, n, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    tl.store(y + c // n, tl.load(x + c))


def test_lanes_of_one_store_that_disagree():
    x, y = torch.arange(32.0), torch.zeros(32)
    assert profile_triton(collide_kernel, 1, x, y, 1, BLOCK=32).ok
    assert profile_triton(collide_kernel, 1, torch.ones(32), y, 2, BLOCK=32).ok
    (race,) = profile_triton(collide_kernel, 1, x, y, 2, BLOCK=32).findings
    assert race.kind == "race" and "different values" in race.message and race.count == 16


@triton.jit
def last_block_kernel(
    x, partial, counter, out, SEM: tl.constexpr, TICKET: tl.constexpr, BLOCK: tl.constexpr, NUM: tl.constexpr
):
    c = tl.arange(0, BLOCK)
    tl.store(partial + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * BLOCK + c), 0))
    if TICKET:
        done = tl.atomic_add(counter, 1, sem=SEM)
    else:
        done = tl.program_id(0)
    if done == NUM - 1:
        tl.store(out, tl.sum(tl.load(partial + tl.arange(0, NUM)), 0))


@pytest.mark.parametrize(
    ("sem", "ticket", "clean"),
    [("acq_rel", True, True), ("relaxed", True, False), ("release", True, False), ("acq_rel", False, False)],
)
def test_the_last_program_reduces(sem, ticket, clean):
    """An acquire and release ticket orders the partial results before the last program; anything less does not."""
    x, partial, counter, out = torch.randn(64), torch.zeros(4), torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    report = profile_triton(
        last_block_kernel,
        4,
        x,
        partial,
        counter,
        out,
        outputs=("partial", "out"),
        SEM=sem,
        TICKET=ticket,
        BLOCK=16,
        NUM=4,
    )
    assert torch.allclose(out, x.sum(), atol=1e-5)
    assert report.ok == clean and (clean or report.races)
    if clean:
        assert [r for r in report.remarks if "debug_barrier" in r]  # its own partial result, read without a barrier


@triton.jit
def hand_over_kernel(values, counter, out, WRITE_FIRST: tl.constexpr):
    p = tl.program_id(0)
    if WRITE_FIRST:
        tl.store(values + p, p)
    ticket = tl.atomic_add(counter, 1)
    if not WRITE_FIRST:
        tl.store(values + p, p)
    if ticket > 0:
        tl.store(out + p, tl.load(values + p - 1))


def test_a_ticket_orders_what_came_before_it_and_nothing_else():
    values, counter, out = (torch.zeros(4, dtype=torch.int32) for _ in range(3))
    assert profile_triton(hand_over_kernel, 4, values, counter, out, WRITE_FIRST=True).ok
    counter.zero_()
    report = profile_triton(hand_over_kernel, 4, values, counter, out, WRITE_FIRST=False)
    assert [f.count for f in report.races] == [3]


@triton.jit
def scratch_kernel(x, y, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.exp(tl.load(x + i)))
    if BARRIER:
        tl.debug_barrier()
    tl.store(y + i, tl.load(y + i) * 2)


def test_reading_back_without_a_barrier_is_a_remark():
    x, y = torch.zeros(64), torch.empty(64)
    with_barrier = profile_triton(scratch_kernel, 2, x, y, outputs=("y",), BARRIER=True, BLOCK=32)
    without = profile_triton(scratch_kernel, 2, x, y, outputs=(y,), BARRIER=False, BLOCK=32)
    assert with_barrier.ok and without.ok
    assert not with_barrier.remarks and len(without.remarks) == 1 and "debug_barrier" in without.remarks[0]


def test_reads_of_what_nothing_has_written():
    x, y = torch.ones(2, 32), torch.zeros(32)
    report = profile_triton(accumulate_kernel, 1, x, y, outputs=("y",), ATOMIC=False, BLOCK=32)
    (finding,) = report.uninitialised_reads
    assert finding.tensor == "y" and finding.count == 32 and "y[0]" in finding.message
    assert profile_triton(accumulate_kernel, 1, x, y, ATOMIC=False, BLOCK=32).ok
    assert profile_triton(accumulate_kernel, 1, x, y, outputs=(y,), ATOMIC=True, BLOCK=32).uninitialised_reads
    with ledger(outputs=("y",)) as report:  # the first launch writes half of what the second reads
        same_row_kernel[(1,)](x, y, BLOCK=16)
        accumulate_kernel[(1,)](x, y, ATOMIC=False, BLOCK=32)
    assert [f.count for f in report.uninitialised_reads] == [16] and not report.races


@triton.jit
def bytes_kernel(x, y, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    source, target = x.to(tl.pointer_type(tl.int8)), y.to(tl.pointer_type(tl.int8))
    tl.store(target + 2 * c + p, tl.load(source + 2 * c + p))


def test_programs_that_share_an_element_but_no_byte():
    x, y = torch.arange(16, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    report = profile_triton(bytes_kernel, 2, x, y, BLOCK=32)
    assert report.ok and torch.equal(x, y)


@triton.jit
def through_a_table_kernel(table, out, BLOCK: tl.constexpr):
    p = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.arange(0, BLOCK), tl.load(p + tl.arange(0, BLOCK)))


def test_memory_reached_through_an_address_in_a_tensor():
    hidden, out = torch.arange(16.0), torch.zeros(16)
    table = torch.tensor([hidden.data_ptr()], dtype=torch.int64)
    with ledger() as report:
        through_a_table_kernel[(1,)](table, out, BLOCK=16)
    assert report.out_of_bounds and "every argument" in report.findings[0].message
    with ledger(hidden) as report:
        through_a_table_kernel[(1,)](table, out, BLOCK=16)
    assert report.ok and torch.equal(out, hidden)


@triton.jit
def weighted_tail_kernel(w, v, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    weights = tl.load(w + i, mask=i < n, other=0.0)
    tl.store(y, tl.sum(weights * tl.load(v + i, mask=i < n), axis=0))


def test_what_a_masked_load_without_other_leaves_out_is_no_zero():
    """0 times anything is not always 0: on a GPU a masked element is undefined."""
    w, v, y = torch.ones(16), torch.ones(16), torch.zeros(1)
    profile_triton(weighted_tail_kernel, 1, w, v, y, 16, BLOCK=16)
    assert y.item() == 16.0  # no element is masked
    report = profile_triton(weighted_tail_kernel, 1, w, v, y, 13, BLOCK=16)
    assert y.isnan().all() and report.ok and report.load.elements == 26
