"""What the ledger of a Triton launch counts, to the byte."""

import json

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib import profile_triton
from course_lib.errors import ArgumentError, KernelFault, UnsupportedError
from course_lib.triton import TritonReport, launch_count, ledger


@triton.jit
def copy_kernel(x, y, n, stride, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i * stride + shift, mask=i < n)
    tl.store(y + i, v, mask=i < n)


def line_of(fn, text):
    """Line number in this file of the one line of `fn` that holds `text`."""
    import inspect

    lines, first = inspect.getsourcelines(fn.fn)
    hits = [first + i for i, line in enumerate(lines) if text in line]
    assert len(hits) == 1
    return hits[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int64])
def test_masked_lanes_are_not_counted(dtype):
    x, y = torch.ones(300, dtype=dtype), torch.zeros(300, dtype=dtype)
    report = profile_triton(copy_kernel, 3, x, y, 300, 1, 0, BLOCK=128)
    size = x.element_size()
    for traffic in (report.load, report.store):
        assert (traffic.count, traffic.elements, traffic.bytes) == (3, 300, 300 * size)
    assert report.ok and torch.equal(x, y)


@pytest.mark.parametrize(
    ("stride", "shift", "sectors"),
    [(1, 0, 16), (1, 1, 17), (2, 0, 32), (4, 0, 64), (8, 0, 128), (32, 0, 128)],
    ids=["stride 1", "one off", "stride 2", "stride 4", "stride 8", "stride 32"],
)
def test_sectors_are_what_memory_moves(stride, shift, sectors):
    """128 floats are 512 bytes: 16 sectors at best; from a stride of 8 floats on, each float costs a sector."""
    x, y = torch.zeros(128 * stride + 1), torch.zeros(128)
    report = profile_triton(copy_kernel, 1, x, y, 128, stride, shift, BLOCK=128)
    assert (report.load.sectors, report.load.ideal_sectors, report.store.sectors) == (sectors, 16, 16)


def test_sectors_do_not_depend_on_where_torch_put_the_tensor():
    base = torch.zeros(1000)
    for offset, sectors in ((0, 16), (3, 17), (8, 16)):
        report = profile_triton(copy_kernel, 1, base[offset : offset + 128], torch.zeros(128), 128, 1, 0, BLOCK=128)
        assert report.load.sectors == sectors


@triton.jit
def shuffled_kernel(x, y, STEP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i * STEP % BLOCK))


@pytest.mark.parametrize("step", [1, 13, 63])
def test_sectors_of_addresses_in_any_order(step):
    x, y = torch.arange(64.0), torch.zeros(64)
    report = profile_triton(shuffled_kernel, 1, x, y, STEP=step, BLOCK=64)
    assert report.load.sectors == 8 and torch.equal(y, x[torch.arange(64) * step % 64])


@triton.jit
def square(v):
    return v * v


@triton.jit
def load_square(p, BLOCK: tl.constexpr):
    return square(tl.load(p + tl.arange(0, BLOCK)))


@triton.jit
def two_lines_kernel(
    x,
    y,
    BLOCK: tl.constexpr,
):
    i = tl.arange(0, BLOCK)
    total = tl.sum(load_square(x, BLOCK) + tl.load(x + i), 0)
    for _ in range(3):
        total += tl.load(y)
    tl.store(y, total)


def test_lines_are_the_authors_own():
    x, y = torch.ones(32), torch.ones(1)
    report = profile_triton(two_lines_kernel, 1, x, y, BLOCK=32)
    counts = {(line.line, kind): traffic.bytes for line in report.lines for kind, traffic in line.traffic()}
    assert counts == {
        (line_of(load_square, "tl.load"), "load"): 128,
        (line_of(two_lines_kernel, "load_square"), "load"): 128,
        (line_of(two_lines_kernel, "tl.load(y)"), "load"): 12,
        (line_of(two_lines_kernel, "tl.store"), "store"): 4,
    }
    assert {line.filename for line in report.lines} == {__file__}
    assert report.lines[0].text.startswith("return square(tl.load")


@triton.jit
def descriptor_kernel(source, target, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    target.store([row, 0], source.load([row, 0]) * 2)


def test_descriptors_count_what_lies_inside_the_tensor():
    x, y = torch.randn(40, 32), torch.zeros(40, 32)
    source, target = (TensorDescriptor.from_tensor(t, [16, 32]) for t in (x, y))
    report = profile_triton(descriptor_kernel, 3, source, target, ROWS=16)
    assert report.ok and torch.equal(y, x * 2)
    assert report.load.bytes == report.store.bytes == 40 * 32 * 4


@triton.jit
def histogram_kernel(x, counts, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + i), 1)


def test_atomics_have_their_own_column_and_are_no_race():
    x = torch.randint(0, 4, (256,), dtype=torch.int32)
    counts = torch.zeros(4, dtype=torch.int32)
    report = profile_triton(histogram_kernel, 4, x, counts, BLOCK=64)
    assert torch.equal(counts.long(), x.long().bincount(minlength=4)) and report.ok
    assert report.atomic.numbers()[:4] == (4, 256, 1024, 4)
    assert report.store.bytes == 0


@triton.jit
def order_kernel(out, log):
    at = tl.atomic_add(log, 1)
    tl.store(out + at, tl.program_id(0) * 100 + tl.program_id(1) * 10 + tl.program_id(2))


def test_schedules_change_the_order_of_the_programs():
    def order(**options):
        out, log = torch.zeros(12, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        report = profile_triton(order_kernel, (2, 3, 2), out, log, **options)
        assert report.ok and report.programs == 12
        return out.tolist()

    forward = [100 * x + 10 * y + z for x in range(2) for y in range(3) for z in range(2)]
    assert order() == forward
    assert order(schedule="reverse") == forward[::-1]
    shuffled = order(schedule="random", seed=1)
    assert shuffled != forward and sorted(shuffled) == forward
    assert shuffled == order(schedule="random", seed=1) != order(schedule="random", seed=2)
    with pytest.raises(ArgumentError, match="resident"):
        order(schedule="resident")


def test_a_ledger_sees_ordinary_launches_and_adds_them_up():
    x, y = torch.randn(256), torch.zeros(256)
    before = launch_count()
    with ledger() as report:
        copy_kernel[(2,)](x, y, 256, 1, 0, BLOCK=128)
        copy_kernel[(1,)](x, y, 100, 1, 0, BLOCK=128)
    assert (report.launches, report.programs, report.load.bytes) == (2, 3, 356 * 4)
    assert launch_count() == before + 2 and torch.equal(x, y)
    copy_kernel[(2,)](x, y, 256, 1, 0, BLOCK=128)
    assert report.launches == 2
    with pytest.raises(UnsupportedError, match="already open"), ledger(), ledger():
        pass
    with ledger() as report:
        copy_kernel[(2,)](x, y, 256, 1, 0, BLOCK=128)
    assert report.launches == 1


def test_device_functions_are_no_launches():
    before = launch_count()
    two_lines_kernel[(1,)](torch.ones(32), torch.ones(1), BLOCK=32)
    assert launch_count() == before + 1


def test_arguments_that_share_memory():
    qkv = torch.randn(3, 64)
    report = profile_triton(copy_kernel, 1, qkv[0], qkv[2], 64, 1, 0, BLOCK=64)
    assert report.ok and torch.equal(qkv[0], qkv[2])
    report = profile_triton(copy_kernel, 1, qkv[0], qkv[0], 64, 1, 0, BLOCK=64)
    assert report.ok


def test_the_report_is_plain_data_and_reads_well():
    report = profile_triton(copy_kernel, 2, torch.ones(200), torch.zeros(200), 200, 1, 0, BLOCK=128)
    data = json.loads(json.dumps(report.ledger()))
    assert data["global_load"] == {"requests": 2, "elements": 200, "bytes": 800, "sectors": 25, "ideal_sectors": 25}
    assert sorted(line["kind"] for line in data["lines"]) == ["load", "store"]
    again = TritonReport.from_dict(json.loads(json.dumps(report.to_dict())))
    assert str(again) == str(report) and again.ledger() == report.ledger()
    assert "copy_kernel: 2 programs" in str(report) and "no findings" in str(report)
    assert "<table>" in report._repr_html_() and "tl.load" in report._repr_html_()


@triton.jit
def undefined_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    b = tl.load(x + i, mask=i < n)
    tl.store(y + i, a + b, mask=i < n)


@pytest.mark.parametrize(("n", "hidden"), [(13, 3), (16, 0)])
def test_loads_that_leave_elements_undefined_are_in_the_ledger(n, hidden):
    report = profile_triton(undefined_kernel, 2, torch.ones(n), torch.zeros(n), n, BLOCK=16)
    line = undefined_kernel.fn.__code__.co_firstlineno + 4
    assert report.ledger()["undefined_loads"] == ([[line, 2 * hidden]] if hidden else [])


@triton.jit
def fp32_dot_kernel(x, y, z, PRECISION: tl.constexpr):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a = tl.load(x + at)
    tl.store(z + at, tl.dot(a, tl.load(y + at), input_precision=PRECISION))


@pytest.mark.parametrize(
    ("dtype", "precision", "remarks"), [("float32", None, 1), ("float32", "ieee", 0), ("float16", None, 0)]
)
def test_a_float32_dot_without_a_precision_gets_a_remark(dtype, precision, remarks):
    x, y = (torch.randn(16, 16).to(getattr(torch, dtype)) for _ in range(2))
    z = torch.zeros(16, 16)
    report = profile_triton(fp32_dot_kernel, 1, x, y, z, PRECISION=precision)
    assert report.ok and len(report.remarks) == remarks
    assert torch.allclose(z, x.float() @ y.float(), atol=1e-5)
    if remarks:
        assert "ieee" in report.remarks[0] and str(line_of(fp32_dot_kernel, "tl.dot")) in report.remarks[0]


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def tuned_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def test_under_autotune_the_first_configuration_is_profiled():
    """Nothing is timed: one launch, BLOCK 64 unless the caller names another."""
    x, y = torch.randn(200), torch.zeros(200)
    report = profile_triton(tuned_kernel, lambda meta: (triton.cdiv(200, meta["BLOCK"]),), x, y, 200)
    assert (report.launches, report.programs, report.ok) == (1, 4, True) and torch.equal(x, y)
    assert profile_triton(tuned_kernel, 2, x, y, 200, BLOCK=128).load.count == 2


@triton.jit
def failing_kernel(x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.store(x, v.no_such_thing())


def test_an_exception_names_the_authors_line_and_closes_the_ledger():
    x = torch.ones(16)
    line = line_of(failing_kernel, "no_such_thing")
    with pytest.raises(KernelFault, match=f"line {line}: AttributeError.*no_such_thing"):
        profile_triton(failing_kernel, 1, x, BLOCK=16)
    assert profile_triton(copy_kernel, 1, x, x, 16, 1, 0, BLOCK=16).ok
    with pytest.raises(ArgumentError, match="got function"):
        profile_triton(lambda: 0, 1)


@triton.jit
def uneven_kernel(x, y, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    program = tl.program_id(0)
    for i in range(program):
        tl.store(y + program * BLOCK + offsets, tl.load(x + offsets) + i, mask=offsets < 5)
    tl.atomic_add(y, 1.0)


@pytest.mark.parametrize("schedule", ["forward", "reverse"])
def test_the_largest_share_of_a_program(schedule):
    report = profile_triton(uneven_kernel, 4, torch.zeros(8), torch.zeros(32), BLOCK=8, schedule=schedule)
    assert report.ledger()["largest_share"] == {"global_load": 3 * 32, "global_store": 3 * 20}
