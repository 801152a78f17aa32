"""The ladder of FlashAttention-2 on the GPU in hand: right at any size, type and layout, the same bits every time."""

import math

import pytest
import torch
from graphs import require_same_in_a_graph

from course_lib.ops import flash_attention_2 as ops
from course_lib.reference import attention as reference

pytestmark = pytest.mark.skipif(
    torch.cuda.get_device_capability() < (8, 0), reason="mma.m16n8k16 and cp.async need compute capability 8.0"
)
LADDER = ops.VARIANTS[1:]  # on tensor cores
DTYPES = (torch.float16, torch.bfloat16)
# batch, heads, kv heads, queries, keys
SHAPES = [
    (1, 1, 1, 1, 1), (2, 4, 2, 37, 53), (1, 6, 1, 300, 333), (1, 2, 2, 333, 150), (3, 8, 2, 129, 1000),
    (1, 2, 1, 1, 700), (1, 1, 1, 64, 33), (2, 2, 2, 1024, 1024), (1, 1, 1, 47, 47), (1, 1, 1, 5, 63),
]  # fmt: skip


def tensors(batch, heads, kv_heads, num_q, num_kv, head_dim, dtype, scale=2.0):
    generator = torch.Generator(device="cuda").manual_seed(num_q + num_kv)
    shapes = [(batch, heads, num_q, head_dim), (batch, kv_heads, num_kv, head_dim), (batch, kv_heads, num_kv, head_dim)]
    q, k, v = (torch.randn(shape, generator=generator, device="cuda") for shape in shapes)
    return (scale * q).to(dtype), k.to(dtype), v.to(dtype)


def check(q, k, v, *, variant, causal, **options):
    """Outputs of one launch, compared with float64 and left with nothing unwritten."""
    return checked(ops.plan(q, k, v, variant=variant, causal=causal, **options), q, k, v, causal)


def checked(launch, q, k, v, causal):
    """The outputs of attention's launch, right and left with nothing unwritten."""
    for output in launch.outputs:
        output.fill_(math.nan)
    launch.run()
    out, lse = launch.outputs
    right, right_lse = reference.attention_lse(q, k, v, causal=causal)
    baseline = (reference.rounded_attention(q, k, v, causal=causal).double() - right).abs().max()
    assert (out.double() - right).abs().max() <= 2 * baseline + 1e-3
    assert torch.equal(lse.isneginf(), right_lse.isneginf())
    # tensor cores cut off digits when they add, once for 16 columns: so many units of the largest score
    largest = reference.rounded_scores(q.double(), k.double(), causal=causal).nan_to_num(neginf=0.0).abs().max()
    allowed = 1e-4 + 2 * q.shape[-1] / 16 * 2**-23 * largest
    assert torch.all((lse - right_lse)[right_lse.isfinite()].abs() <= allowed)
    return out, lse


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", ops.HEAD_DIMS)
@pytest.mark.parametrize("variant", LADDER)
def test_any_sizes(variant, head_dim, dtype, causal):
    for shape in SHAPES:
        for scale in (1.0, 30.0):  # the second: scores near +-300, a new maximum in many tiles
            check(*tensors(*shape, head_dim, dtype, scale), variant=variant, causal=causal)


@pytest.mark.parametrize("variant", LADDER)
def test_strides(variant):
    """(batch, seq, head, dim) seen as (batch, head, seq, dim); one head for all; rows with a gap that holds NaN."""
    q, k, v = tensors(2, 4, 2, 140, 150, 128, torch.bfloat16)
    q, k = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k))
    v = torch.cat([v, torch.full_like(v, math.nan)], dim=3)[..., :128]
    check(q, k, v, variant=variant, causal=True)
    check(q, k[:, :1].expand(2, 4, 150, 128), v[:, :1].expand(2, 4, 150, 128), variant=variant, causal=False)


@pytest.mark.parametrize("variant", LADDER)
def test_more_heads_than_a_grid_has_rows(variant):
    q, k, v = tensors(35000, 2, 1, 2, 3, 64, torch.float16)
    check(q, k, v, variant=variant, causal=True)


def test_the_last_step_gives_the_same_bits_every_time_and_in_every_order():
    q, k, v = tensors(2, 5, 5, 1000, 1000, 128, torch.bfloat16)
    first = check(q, k, v, variant="10_heavy_first", causal=True)
    for together in (1, 3, 100):
        again = check(q, k, v, variant="10_heavy_first", causal=True, heads_together=together)
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_a_launch_can_be_captured_in_a_graph():
    q, k, v = tensors(1, 4, 4, 256, 256, 64, torch.float16)
    require_same_in_a_graph(ops.plan(q, k, v, causal=True))
