"""FlashAttention-1: right at ragged sizes in both languages, free of findings, traffic by the formula of chapter 06."""

import math

import pytest
import torch

from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import flash_attention_1 as ops
from course_lib.reference import attention as reference

WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
SMALL = {"block_m": 8, "block_n": 16}
# batch, heads, kv heads, queries, keys, head_dim
SHAPES = [(1, 1, 1, 1, 1, 16), (2, 4, 2, 9, 17, 8), (1, 3, 1, 37, 53, 20), (1, 2, 2, 50, 20, 16), (1, 1, 1, 16, 32, 64)]
TWINS = [("06_flash_attention_1", "cuda"), ("06_flash_attention_1", "triton"), ("07_flash_attention_1_rows", "cuda")]


def tensors(batch, heads, kv_heads, num_q, num_kv, head_dim, scale=1.0):
    generator = torch.Generator().manual_seed(num_q + num_kv)
    shapes = [(batch, heads, num_q, head_dim), (batch, kv_heads, num_kv, head_dim), (batch, kv_heads, num_kv, head_dim)]
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return (scale * q).to(WHERE), k.to(WHERE), v.to(WHERE)


@pytest.mark.parametrize(("variant", "language"), TWINS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_is_right(shape, causal, variant, language):
    if causal and variant.startswith("07"):
        return  # no mask in this step; that it says so is tested below
    q, k, v = tensors(*shape, scale=4.0)
    launch = ops.plan(q, k, v, causal=causal, variant=variant, language=language, **SMALL)
    for tensor in launch.outputs:
        tensor.fill_(math.nan)
    launch.run()
    out, lse = (tensor.cpu() for tensor in (launch.outputs[0], launch.outputs[3]))
    ref_out, ref_lse = reference.attention_lse(q.cpu(), k.cpu(), v.cpu(), causal=causal)
    assert (out - ref_out).abs().max() <= 1e-5
    assert torch.equal(lse.isneginf(), ref_lse.isneginf())
    assert (lse - ref_lse)[ref_lse.isfinite()].abs().max() <= 1e-4


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_cuda_kernels_are_free_of_findings(variant, schedule):
    causal = variant.startswith("06")
    report = ops.plan(*tensors(1, 2, 1, 19, 37, 8), causal=causal, variant=variant, **SMALL).profile(schedule)
    assert report.ok, report


@pytest.mark.parametrize(("variant", "language"), TWINS)
def test_traffic_is_the_formula_of_the_chapter(variant, language):
    batch, heads, kv_heads, num_q, num_kv, head_dim = 1, 2, 1, 40, 50, 16
    q, k, v = tensors(batch, heads, kv_heads, num_q, num_kv, head_dim)
    read, written = ops.plan(q, k, v, variant=variant, language=language, **SMALL).traffic()
    tiles = math.ceil(num_kv / SMALL["block_n"])
    per_head_read = 2 * num_kv * head_dim + (2 * tiles - 1) * num_q * head_dim + 2 * tiles * num_q
    per_head_written = tiles * num_q * (head_dim + 2) + num_q
    assert (read, written) == (4 * batch * heads * per_head_read, 4 * batch * heads * per_head_written)


def test_wrong_arguments_are_refused_in_words():
    q, k, v = tensors(1, 3, 2, 2, 2, 4)
    with pytest.raises(ShapeError, match="num_kv_heads=2"):
        ops.plan(q, k, v)
    with pytest.raises(ShapeError, match="4 dimensions"):
        ops.plan(q[0], k, v)
    q = q[:, :2].contiguous()
    with pytest.raises(ShapeError, match="float64"):
        ops.plan(q.double(), k, v)
    with pytest.raises(ShapeError, match="one shape for both"):
        ops.plan(q, k, v[:, :1].contiguous())
    with pytest.raises(ShapeError, match="batch_size and head_dim"):
        ops.plan(q[..., :2].contiguous(), k, v)
    with pytest.raises(UnsupportedError, match="06_flash_attention_1"):
        ops.plan(q, k, v, variant="06")
    with pytest.raises(UnsupportedError, match='"cuda" or "triton"'):
        ops.plan(q, k, v, language="mojo")
    with pytest.raises(UnsupportedError, match="no mask"):
        ops.plan(q, k, v, variant="07_flash_attention_1_rows", causal=True)
