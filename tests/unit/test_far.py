"""Far: a kernel reaches the tensor behind 2^31 others, an index of 32 bits does not; the judge hands the address on."""

import pytest
import torch
import triton
import triton.language as tl

from course_lib import cuda
from course_lib.far import Far, address
from course_lib.grading.processes import wire
from course_lib.grading.processes.protocol import Ref, Run
from course_lib.grading.processes.tensors import Bindings
from course_lib.triton import ledger

BEFORE = 1 << 31
SOURCE = """extern "C" __global__ void plus_one_kernel(const float* x, float* y, long long before) {
    const INDEX i = before + threadIdx.x;
    y[i] = x[i] + 1.0f;
}"""


@triton.jit
def plus_one(x_ptr, y_ptr, row, WIDE: tl.constexpr):
    first = row.to(tl.int64) * 1024 if WIDE else row * 1024
    i = first + tl.arange(0, 32)
    tl.store(y_ptr + i, tl.load(x_ptr + i) + 1.0)


@pytest.mark.parametrize(("index", "reached"), [("long long", True), ("int", False)])
def test_a_cuda_kernel_reaches_it_with_an_index_of_64_bits(index, reached):
    x, y = torch.arange(32.0), torch.zeros(32)
    kernel = cuda.compile(SOURCE, "plus_one_kernel", defines={"INDEX": index}, checked=True)
    report = kernel.profile(1, 32, Far.of(x, BEFORE), Far.of(y, BEFORE), BEFORE)
    assert torch.equal(y, x + 1) == reached
    assert [finding.kind for finding in report.findings] == ([] if reached else ["out_of_bounds"])


@pytest.mark.parametrize("wide", [True, False])
def test_a_triton_kernel_reaches_it_with_an_index_of_64_bits(wide):
    x, y = torch.arange(32.0), torch.zeros(32)
    with ledger() as report:
        plus_one[(1,)](Far.of(x, BEFORE), Far.of(y, BEFORE), BEFORE // 1024, WIDE=wide)
    assert torch.equal(y, x + 1) == wide
    assert bool(report.findings) != wide


def test_the_judge_passes_it_on():
    """`before` of a Ref survives the way to the child and shifts the address by as many elements."""
    task = wire.unpack(wire.pack({"one": Ref("x", before=BEFORE), "other": Ref("x")}))[0]
    assert task == {"one": Ref("x", before=BEFORE), "other": Ref("x")}
    bound = Bindings(Run("far", {"x": torch.arange(4.0)}, {}, (task["one"], task["other"])))
    far, plain = bound.arguments
    assert plain.data_ptr() == address(far) == (far.data_ptr() + 4 * BEFORE) % 2**64  # addresses wrap round
