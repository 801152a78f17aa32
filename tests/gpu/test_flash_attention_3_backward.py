"""The backward pass on a Hopper GPU: right at any size, type and layout, also where no tile is whole."""

import math

import pytest
import torch

from course_lib.ops.flash_attention_3 import _backward as ops
from course_lib.reference import attention as reference
from tests.simt.test_flash_attention_2_backward import gradients

pytestmark = pytest.mark.skipif(
    torch.cuda.get_device_capability() != (9, 0), reason="wgmma needs compute capability 9.0a: a Hopper GPU"
)
# batch, heads, kv heads, queries, keys
SHAPES = [
    (1, 1, 1, 1, 1), (2, 4, 2, 37, 53), (1, 6, 2, 113, 203), (1, 4, 1, 203, 113), (1, 2, 1, 1, 700), (1, 1, 1, 700, 1),
    (3, 8, 2, 129, 1000), (2, 2, 2, 1024, 1024), (1, 3, 3, 777, 1029), (1, 1, 1, 64, 128),
]  # fmt: skip
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}  # of the largest gradient


def tensors(batch, heads, kv_heads, num_q, num_kv, head_dim, dtype, *, causal, scale=1.0):
    """q, k, v, out, lse, d_out; out and lse are the rounded float64 ones."""
    generator = torch.Generator(device="cuda").manual_seed(num_q + num_kv)
    shapes = [(heads, num_q), (kv_heads, num_kv), (kv_heads, num_kv), (heads, num_q)]
    q, k, v, d_out = (torch.randn(batch, *s, head_dim, generator=generator, device="cuda") for s in shapes)
    q, k, v, d_out = ((scale * q).to(dtype), *(x.to(dtype) for x in (k, v, d_out)))
    out, lse = reference.attention_lse(q, k, v, causal=causal)
    return q, k, v, out.to(dtype), lse.float(), d_out


def check(inputs, *, causal, **options):
    launches = ops.plan_backward(*inputs, causal=causal, **options)
    for output in launches.outputs:
        output.fill_(math.nan)
    launches.run()
    q, k, v, _, _, d_out = (x.cpu() for x in inputs)
    right = gradients(q, k, v, d_out, causal)
    largest = max(wanted.abs().max() for wanted in right).clamp_min(1e-3)
    for name, got, wanted in zip(("dq", "dk", "dv"), launches.outputs, right, strict=True):
        assert (got.cpu().double() - wanted).abs().max() <= TOLERANCE[q.dtype] * largest, name
    return launches.outputs


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_any_sizes(head_dim, dtype, causal):
    for shape in SHAPES:
        check(tensors(*shape, head_dim, dtype, causal=causal), causal=causal)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_large_scores(head_dim):
    check(tensors(1, 2, 1, 300, 333, head_dim, torch.float16, causal=True, scale=100.0), causal=True)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_a_row_without_keys_has_no_gradient(head_dim):
    dq, _, _ = check(tensors(1, 2, 1, 500, 20, head_dim, torch.bfloat16, causal=True), causal=True)
    assert torch.all(dq[:, :, :480] == 0)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_strides(head_dim):
    """(batch, seq, head, dim) seen as (batch, head, seq, dim); rows with a gap that holds NaN."""
    q, k, v, out, lse, d_out = tensors(2, 4, 2, 140, 150, head_dim, torch.bfloat16, causal=True)
    q, k, out, d_out = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, out, d_out))
    v = torch.cat([v, torch.full_like(v, math.nan)], dim=3)[..., :head_dim]
    check((q, k, v, out, lse, d_out), causal=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_long_rows_and_many_waves(head_dim, causal):
    """More blocks than fit at a time, any number of heads side by side: dk and dv keep their bits, dq its value."""
    inputs = tensors(2, 8, 4, 2100, 2100, head_dim, torch.bfloat16, causal=causal)
    first = ops.flash_attention_3_backward(*inputs, causal=causal)
    for together in (1, 3, 8):
        again = ops.plan_backward(*inputs, causal=causal, heads_together=together)
        again.run()
        assert torch.equal(first[1], again.outputs[1]) and torch.equal(first[2], again.outputs[2])
        largest = first[0].abs().max()
        assert (first[0] - again.outputs[0]).abs().max() <= 2**-7 * largest  # a unit of bfloat16: dq has no fixed order
