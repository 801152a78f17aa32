"""Weights of four bits: packing there and back, the product against exact weights, bytes, no finding."""

import pytest
import torch
from norm_cases import assert_near

from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import w4a16 as ops
from course_lib.reference import w4a16 as reference

WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
SIZES = [(1, 1, 32, 32), (2, 15, 96, 32), (3, 16, 64, 64), (8, 33, 192, 64), (5, 17, 128, 128), (8, 20, 4480, 128)]


def inputs(num_tokens, size_n, size_k, group, dtype=torch.float16, stride=None):
    """(x, packed, scales, zeros); zeros of all sixteen kinds."""
    generator = torch.Generator().manual_seed(size_k + size_n)
    x = torch.randn(num_tokens, stride or size_k, generator=generator).to(dtype)[:, :size_k]
    q = torch.randint(0, 16, (size_n, size_k), dtype=torch.uint8, generator=generator)
    zeros = torch.randint(0, 16, (size_k // group, size_n), dtype=torch.uint8, generator=generator)
    scales = (0.02 * torch.rand(size_k // group, size_n, generator=generator) + 0.001).to(dtype)
    return [each.to(WHERE) for each in (x, ops.pack(q), scales, zeros)]


@pytest.mark.parametrize("size_k", [32, 96, 128, 160, 384])
def test_packing_is_as_documented_and_returns(size_k):
    q = torch.randint(0, 16, (3, size_k), dtype=torch.uint8, generator=torch.Generator().manual_seed(size_k))
    packed = ops.pack(q)
    assert torch.equal(packed, reference.pack(q)) and torch.equal(reference.unpack(packed, size_k), q)
    word = int(packed[2, 4 * 1 + 0]) & 0xFFFFFFFF  # lane 1, word 0: numbers 8 to 15
    assert [word >> (4 * place) & 15 for place in range(8)] == [int(q[2, 8 + k]) for k in (0, 2, 4, 6, 1, 3, 5, 7)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_product_is_right(size, dtype):
    x, packed, scales, zeros = inputs(*size, dtype, stride=size[2] + 8)
    out = torch.full((size[0], size[1]), torch.nan, dtype=dtype, device=WHERE)
    assert ops.gemv(x, packed, scales, zeros, out=out) is out
    assert_near(out, reference.product(x, packed, scales, zeros), dtype)


@pytest.mark.parametrize("size", [(2, 90, 384, 64), (8, 96, 640, 32), (1, 128, 256, 128)], ids=str)
@pytest.mark.parametrize("schedule", ["forward", "reverse"])
def test_a_block_with_several_tiles_gives_the_same_bits(size, schedule, monkeypatch):
    tensors = inputs(*size)
    one_tile_each = ops.gemv(*tensors)
    monkeypatch.setattr(ops, "slots", lambda tensor, blocks: 2)
    launch = ops.plan(*tensors)
    assert launch.grid == (2,) and launch.profile(schedule).ok
    assert torch.equal(launch.outputs[0], one_tile_each)


def test_warps_share_a_row_evenly():
    assert [ops.choose_num_warps(stretches) for stretches in (1, 5, 16, 32, 40, 86, 112)] == [1, 5, 16, 16, 14, 15, 16]


def test_sums_are_kept_in_float():
    """4,096 products of 1: halves stop at 2,048, and lose the 0.5 beside 2,048."""
    q = torch.full((1, 4096), 9, dtype=torch.uint8, device=WHERE)
    zeros, scales = torch.full((32, 1), 8, dtype=torch.uint8, device=WHERE), torch.ones(32, 1, device=WHERE).half()
    assert ops.gemv(torch.ones(1, 4096, device=WHERE).half(), ops.pack(q), scales, zeros).item() == 4096.0
    x = torch.tensor([[2048.0, 0.5] + [0.0] * 126 + [-2048.0] + [0.0] * 127], device=WHERE).half()
    assert ops.gemv(x, ops.pack(q[:, :256]), scales[:2], zeros[:2]).item() == 0.5


def test_a_token_is_the_same_in_any_batch_and_what_pads_is_not_used():
    x, packed, scales, zeros = inputs(8, 20, 160, 32)
    together = ops.gemv(x, packed, scales, zeros)
    padding = reference.pack(torch.nn.functional.pad(torch.zeros(20, 160, dtype=torch.uint8), (0, 96), value=15))
    padded = ops.gemv(x, packed | padding.to(WHERE), scales, zeros)
    assert torch.equal(together, padded)
    for token in (0, 7):
        assert torch.equal(ops.gemv(x[token : token + 1], packed, scales, zeros)[0], together[token])


def test_what_quantise_gives_is_near():
    weight = torch.randn(12, 256, generator=torch.Generator().manual_seed(3)).to(WHERE)
    q, scales, zeros = reference.quantise(weight.half(), 64)
    back = reference.dequantised(ops.pack(q), scales, zeros, 256)
    step = scales.double().T.repeat_interleave(64, dim=1)
    assert bool(((back - weight.double()).abs() <= 1.01 * step).all())


@pytest.mark.parametrize(("num_tokens", "group"), [(1, 128), (8, 128), (3, 32)])
def test_weights_are_read_once(num_tokens, group):
    size_n, size_k = 32, 512
    launch = ops.plan(*inputs(num_tokens, size_n, size_k, group))
    weights, groups = size_n * size_k // 2, size_n * (size_k // group)
    activations = size_n // 16 * num_tokens * size_k * 2  # for each tile of 16 rows
    assert launch.traffic() == (weights + 3 * groups + activations, num_tokens * size_n * 2)


MANY = [(9, 20, 96, 32, 16), (17, 33, 640, 64, 16), (33, 150, 384, 128, 32), (70, 20, 128, 128, 64)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", MANY, ids=str)
def test_product_of_many_rows_is_right(size, dtype):
    *size, block_m = size
    tensors = inputs(*size, dtype, stride=size[2] + 8)
    launch = ops.plan_gemm(*tensors, tiles=ops.TILES[block_m])
    launch.outputs[0].fill_(torch.nan)
    launch.run()
    assert_near(launch.outputs[0], reference.product(*tensors), dtype)


WGMMA = [(9, 16, 96, 32, 16, 1), (33, 144, 640, 64, 64, 2), (20, 272, 512, 128, 32, 3), (130, 272, 128, 128, 128, 1)]


def rounded_product(x, packed, scales, zeros):
    """x w^T in float64 with w rounded to the dtype of x."""
    weight = reference.dequantised(packed, scales, zeros, x.shape[1]).to(x.dtype)
    return x.double() @ weight.double().T


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", WGMMA, ids=str)
def test_product_by_wgmma_is_right(size, dtype):
    *size, block_m, num_splits = size
    tensors = inputs(*size, dtype, stride=size[2] + 8)
    launch = ops.plan_wgmma(*tensors, tiles=ops.WGMMA_TILES[block_m], num_splits=num_splits)
    launch.outputs[0].fill_(torch.nan)
    launch.run()
    assert_near(launch.outputs[0], rounded_product(*tensors), dtype)


def test_rows_choose_the_kernel_and_tiles():
    x, *weights = inputs(9, 20, 96, 32)
    assert torch.equal(ops.linear(x[:8], *weights), ops.gemv(x[:8], *weights))
    assert torch.equal(ops.linear(x, *weights), ops.gemm(x, *weights))
    assert [ops.choose_tiles(tokens, 4096, 132)["BLOCK_M"] for tokens in (9, 16, 17, 64, 256, 320)] == [
        *(16, 16, 32, 32, 32, 64)
    ]


def test_many_rows_keep_their_sums_in_float():
    x, *weights = inputs(9, 8, 256, 128)
    x[:, :] = 0.0
    x[:, 0], x[:, 1], x[:, 128] = 2048.0, 0.5, -2048.0
    weights[0] = ops.pack(torch.full((8, 256), 9, dtype=torch.uint8, device=WHERE))
    weights[1].fill_(1.0), weights[2].fill_(8)
    assert bool((ops.gemm(x, *weights) == 0.5).all())


def test_many_rows_read_the_packed_weights_once_for_each_block_of_tokens():
    tensors = inputs(40, 32, 512, 128)
    launch = ops.plan_gemm(*tensors, tiles=ops.TILES[32])
    x, packed, scales, zeros = (tensor.nbytes for tensor in tensors)
    lanes = 4 * 32 // 32  # that share a row's scale, in each of the 32 rows of a block
    assert launch.traffic() == (x + 2 * (packed + lanes * (scales + zeros)), 40 * 32 * 2)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_no_finding(schedule):
    for size in SIZES[1:4]:
        report = ops.plan(*inputs(*size)).profile(schedule)
        assert report.ok, report
    for *size, block_m in MANY[1:3]:
        report = ops.plan_gemm(*inputs(*size), tiles=ops.TILES[block_m]).profile(schedule)
        assert report.ok, report


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_no_finding_by_wgmma(schedule):
    for *size, block_m, num_splits in WGMMA:
        report = ops.plan_wgmma(*inputs(*size), tiles=ops.WGMMA_TILES[block_m], num_splits=num_splits).profile(schedule)
        assert report.ok, report


def test_what_does_not_fit_is_refused_in_words():
    x, packed, scales, zeros = inputs(2, 16, 128, 32)
    for error, wrong, sentence in (
        (ShapeError, (x.float(), packed, scales, zeros), "expected float16 or bfloat16"),
        (UnsupportedError, (x.repeat(5, 1), packed, scales, zeros), "at most 8"),
        (ShapeError, (x, packed[:, :8].contiguous(), scales, zeros), r"asks for \(16, 16\)"),
        (ShapeError, (x, packed, scales.bfloat16(), zeros), "scales is torch.bfloat16"),
        (ShapeError, (x, packed, scales, zeros[:2]), r"expected \(num_groups, 16\)"),
        (UnsupportedError, (x, packed, scales[:2].repeat(4, 1), zeros[:2].repeat(4, 1)), "32, 64 or 128"),
        (ShapeError, (x[:, 1:], packed, scales, zeros), "multiples of 16 bytes"),
    ):
        with pytest.raises(error, match=sentence):
            ops.gemv(*wrong)
    with pytest.raises(ShapeError, match="0 to 15"):
        ops.pack(torch.full((1, 32), 16, dtype=torch.uint8))
