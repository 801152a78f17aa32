"""mbarriers, TMA, named barriers and setmaxnreg on the card: the right kernels of tests/simt, and where bytes lie."""

import numpy
import pytest
import torch

from course_lib import cuda, device
from tests.simt import test_async_ring as ring
from tests.simt import test_mbarrier as mbarrier
from tests.simt import test_named_barrier as named
from tests.simt import test_tma as tma
from tests.simt.tma_model import box_of, swizzled

if device.current().capability != (9, 0):
    pytest.skip("setmaxnreg needs compute capability 9.0a", allow_module_level=True)


@pytest.fixture(autouse=True)
def on_the_gpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "gpu")


def filled(shape, first=0):
    """Whole numbers from `first` on, (shape) float16, on the GPU."""
    count = int(numpy.prod(shape))
    return torch.arange(first, first + count, dtype=torch.float16).reshape(shape).cuda()


@pytest.mark.parametrize("shape, box, swizzle, at", tma.BOXES)
def test_a_box_is_loaded(shape, box, swizzle, at):
    x, defines = filled(shape, 1), tma.boxed(box, torch.float16)
    out = torch.full((defines["BOX_BYTES"],), 0xEE, dtype=torch.uint8, device="cuda")
    arguments = cuda.tensor_map(x, box, swizzle), out, *tma.coordinates_for(at)
    cuda.compile(tma.SOURCE, "load_kernel", defines=defines)(1, 32, *arguments, shared_bytes=defines["BOX_BYTES"])
    expected = swizzled(box_of(x.cpu().numpy(), box, at).tobytes(), swizzle)
    assert out.cpu().numpy().tobytes() == expected


@pytest.mark.parametrize("shape, box, swizzle, at", [row for row in tma.BOXES if min(row[3]) >= 0])
def test_a_box_is_stored(shape, box, swizzle, at):
    x, tile, defines = filled(shape), filled(box, 2000).cpu(), tma.boxed(box, torch.float16)
    expected = x.cpu().numpy()
    tma.put(expected, tile.numpy(), at)
    source = torch.frombuffer(bytearray(swizzled(tile.numpy().tobytes(), swizzle)), dtype=torch.uint8).cuda()
    arguments = cuda.tensor_map(x, box, swizzle), source, *tma.coordinates_for(at)
    cuda.compile(tma.SOURCE, "store_kernel", defines=defines)(1, 32, *arguments, shared_bytes=defines["BOX_BYTES"])
    assert numpy.array_equal(x.cpu().numpy(), expected)


def test_stores_through_two_buffers():
    x, out = torch.randn(5, 64, device="cuda"), torch.zeros(5, 64, device="cuda")
    scaled = cuda.compile(tma.SOURCE, "scale_kernel", defines={"BOX_BYTES": 16, "RANK": 2})
    scaled(1, 64, x, cuda.tensor_map(out, (1, 64)), 5)
    assert torch.equal(out, 2 * x)


def test_blocks_reduce_into_one_row():
    x, total = torch.arange(256.0, device="cuda").reshape(8, 32), torch.zeros(32, device="cuda")
    cuda.compile(tma.SOURCE, "reduce_kernel", defines={"BOX_BYTES": 16, "RANK": 2})(8, 32, x, total)
    assert torch.equal(total, x.sum(0))


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_a_ring(stages):
    x, out = torch.ones(9, ring.TILE, device="cuda"), torch.zeros(ring.TILE, device="cuda")
    cuda.compile(ring.SOURCE, "ring_kernel", defines={"STAGES": stages, "WRONG": 0})(1, 96, x, out, 9)
    assert (out == 90).all()


def test_the_truth_table_of_phases():
    out = torch.full((6, 2), -1, dtype=torch.int32, device="cuda")
    cuda.compile(mbarrier.PHASES, "phases_kernel")(1, 64, out, 5)
    assert out.tolist() == [[phase % 2, 1 - phase % 2] for phase in range(6)]


def test_named_barriers_and_registers():
    x, out = torch.arange(64.0, device="cuda"), torch.zeros(64, device="cuda")
    cuda.compile(named.SOURCE, "hand_over_kernel")(1, 128, x, out, 4)
    assert torch.equal(out, 4 * x.flip(0))
    ones = torch.zeros(384, device="cuda")
    cuda.compile(named.SOURCE, "registers_kernel")(1, 384, ones)
    assert (ones == 1).all()
