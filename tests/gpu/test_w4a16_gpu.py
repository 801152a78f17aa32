"""Products with weights of four bits on the GPU in hand: the layers of a model, ragged rows, every group."""

import pytest
import torch
from norm_cases import assert_near

from course_lib.ops import w4a16 as ops
from course_lib.reference import w4a16 as reference


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("size", [(1, 128), (33, 384), (1024, 14336), (14336, 1024), (1000, 640)], ids=str)
def test_product(size, group, dtype):
    size_n, size_k = size
    torch.manual_seed(size_n)
    x = torch.randn(8, size_k, device="cuda").to(dtype)
    weight = (torch.randn(size, device="cuda") / size_k**0.5).to(dtype)
    q, scales, zeros = reference.quantise(weight, group)
    packed = ops.pack(q)
    want = reference.product(x, packed, scales, zeros)
    together = ops.gemv(x, packed, scales, zeros)
    assert_near(together, want, dtype)
    for num_tokens in (1, 3):
        assert torch.equal(ops.gemv(x[:num_tokens], packed, scales, zeros), together[:num_tokens])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("num_tokens", [9, 16, 17, 64, 65, 300])
@pytest.mark.parametrize("size", [(33, 384), (1024, 14336), (1000, 640)], ids=str)
def test_product_of_many(size, num_tokens, group, dtype):
    torch.manual_seed(num_tokens)
    x = torch.randn(num_tokens, size[1], device="cuda").to(dtype)
    weight = (torch.randn(size, device="cuda") / size[1] ** 0.5).to(dtype)
    q, scales, zeros = reference.quantise(weight, group)
    packed = ops.pack(q)
    want = reference.product(x, packed, scales, zeros)
    for tiles in (None, *ops.TILES.values()):
        launch = ops.plan_gemm(x, packed, scales, zeros, tiles=tiles)
        launch.outputs[0].fill_(torch.nan)
        launch.run()
        assert_near(launch.outputs[0], want, dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("num_tokens", [9, 16, 17, 64, 65, 300])
@pytest.mark.parametrize("size", [(48, 384), (1024, 14336), (1008, 640)], ids=str)
def test_product_by_wgmma(size, num_tokens, group, dtype):
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs compute capability 9.0")
    torch.manual_seed(num_tokens)
    x = torch.randn(num_tokens, size[1], device="cuda").to(dtype)
    weight = (torch.randn(size, device="cuda") / size[1] ** 0.5).to(dtype)
    q, scales, zeros = reference.quantise(weight, group)
    packed = ops.pack(q)
    want = x.double() @ reference.dequantised(packed, scales, zeros, size[1]).to(dtype).double().T
    for tiles in (None, *ops.WGMMA_TILES.values()):
        for num_splits in (None, 1, 3):
            launch = ops.plan_wgmma(x, packed, scales, zeros, tiles=tiles, num_splits=num_splits)
            launch.outputs[0].fill_(torch.nan)
            launch.run()
            assert_near(launch.outputs[0], want, dtype)
            first = launch.outputs[0].clone()
            launch.run()  # the counters are zero again, and the bits do not depend on the last block
            assert torch.equal(launch.outputs[0], first)
