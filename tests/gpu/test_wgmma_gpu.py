"""wgmma on a Hopper GPU, beside the SIMT machine: every layout and format, and descriptors that are wrong.

Whole numbers, so sums are exact whatever their order, and a wrong address gives the same wrong number on both.
"""

import numpy as np
import pytest
import torch

from course_lib import cuda, device
from tests.simt import wgmma_model as model
from tests.simt.test_wgmma import ITEM, SOURCE, WIDTHS, WRONG_NUMBERS, arguments, defines

if device.current().capability != (9, 0):
    pytest.skip("wgmma needs compute capability 9.0", allow_module_level=True)


def launch(given, shared_bytes, constants, engine):
    """The product that one engine computes."""
    given = [one.clone() if isinstance(one, torch.Tensor) else one for one in given]
    if engine == "gpu":
        given = [one.cuda() if isinstance(one, torch.Tensor) else one for one in given]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_ENGINE", engine)
        kernel = cuda.compile(SOURCE, "product_kernel", defines=constants, filename="wgmma_kernels.cu")
        kernel(1, 128, *given, shared_bytes=shared_bytes)
    return given[4].cpu()


def operands(n, kind, num_k, seed=0):
    """Bits and values of a (64, K) and b (n, K), whole numbers from -4 to 4."""
    random = np.random.default_rng(seed)
    return [model.numbers(random.integers(-4, 5, (rows, num_k)), kind) for rows in (64, n)]


def both(n, kind, num_k, *, trans=(0, 0), width=128, in_registers=False, layout=None, steps=None):
    """The product on the GPU and on the machine, and the exact one."""
    (a_bits, a), (b_bits, b) = operands(n, kind, num_k)
    given, shared_bytes = arguments(a_bits, b_bits, torch.zeros(64, n), width=width, trans=trans)
    given = list(given)
    for change, position in ((steps, 2), (layout, 3)):
        if change:
            given[position] = change(given[position].clone())
    constants = defines(n, kind, *trans, in_registers)
    return *(launch(given, shared_bytes, constants, engine) for engine in ("gpu", "cpu")), torch.from_numpy(a @ b.T)


@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("n", [16, 64, 128, 176, 256])
@pytest.mark.parametrize("kind", ["f16", "bf16", "e4m3"])
def test_every_width(n, kind, in_registers):
    gpu, machine, exact = both(n, kind, 256 // ITEM[kind], in_registers=in_registers)
    assert torch.equal(gpu.double(), exact) and torch.equal(gpu, machine)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("trans", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_every_layout(width, trans):
    gpu, machine, exact = both(64, "f16", 64, width=width, trans=trans)
    assert torch.equal(gpu.double(), exact) and torch.equal(gpu, machine)


@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_a_wrong_descriptor_gives_the_same_wrong_numbers(name):
    gpu, machine, exact = both(WRONG_NUMBERS[name].get("n", 128), "f16", 128, **without_n(WRONG_NUMBERS[name]))
    assert torch.equal(gpu, machine) and not torch.equal(gpu.double(), exact)


def without_n(options):
    return {key: value for key, value in options.items() if key != "n"}
