"""FlashAttention-3 in e4m3 on a Hopper GPU: right at any size, accurate over long sums, the same bits every time."""

import math

import pytest
import torch

from course_lib.ops.flash_attention_3 import _fp8 as ops
from course_lib.reference import attention as reference
from course_lib.reference import fp8
from tests import fp8_cases as cases

pytestmark = pytest.mark.skipif(torch.cuda.get_device_capability() != (9, 0), reason="wgmma needs a Hopper GPU")
# batch, heads, kv heads, queries, keys
SHAPES = [
    (1, 1, 1, 1, 1), (2, 4, 2, 37, 53), (1, 6, 1, 300, 333), (1, 2, 2, 333, 150), (3, 8, 2, 129, 1000),
    (1, 2, 1, 1, 700), (1, 1, 1, 64, 33), (2, 2, 2, 1024, 1024), (1, 1, 1, 193, 97), (1, 3, 1, 5, 2500),
]  # fmt: skip


def run(q, k, v, *, causal=False, rotation=True, **options):
    """(what was quantised, out, lse), with nothing left unwritten."""
    quantising = ops.plan_quantise(q, k, v, rotation=rotation)
    quantising.run()
    launch = ops.plan_fp8(quantising.outputs, k.shape[2], q.dtype, causal=causal, **options)
    for output in launch.outputs:
        output.fill_(math.nan)
    launch.run()
    return quantising.outputs, *launch.outputs


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("head_dim", ops.HEAD_DIMS)
def test_any_sizes(head_dim, dtype, causal):
    for shape in SHAPES:
        q, k, v = cases.tensors(*shape, head_dim, dtype, device="cuda")
        quantised, out, lse = run(q, k, v, causal=causal)
        cases.assert_quantised(q, k, v, quantised)
        cases.assert_attention(quantised, k.shape[2], out, lse, causal)


@pytest.mark.parametrize("promote_tiles", [1, 2, 4])
def test_groups_of_tiles(promote_tiles):
    for num_kv in (128, 129, 640, 700, 1300):
        q, k, v = cases.tensors(1, 2, 1, 150, num_kv, 128, torch.bfloat16, device="cuda")
        quantised, out, lse = run(q, k, v, causal=True, promote_tiles=promote_tiles)
        cases.assert_attention(quantised, num_kv, out, lse, True)


def test_long_sums_of_one_sign_need_promotion():
    """16,384 values around 1: what the tensor cores add alone, with about 14 bits, stops growing."""
    generator = torch.Generator(device="cuda").manual_seed(0)
    q, k = (torch.randn(1, 2, n, 128, generator=generator, device="cuda").bfloat16() for n in (128, 16384))
    v = (1.0 + torch.randn(1, 2, 16384, 128, generator=generator, device="cuda")).bfloat16()
    right = reference.attention(q, k, v)
    errors = [cases.rmse(run(q, k, v, promote_tiles=tiles)[1], right) for tiles in (0, 1, 2, 4)]
    assert errors[0] > 0.1
    assert max(errors[1:]) < 0.01


def test_errors_of_outliers():
    """As the reference says: rotation halves the error of one scale a tensor; the kernel adds little to it."""
    q, k, v = (fp8.inputs_with_outliers(1, 2, 4096, 128, seed=i).bfloat16().cuda() for i in range(3))
    right = reference.attention(q, k, v)
    error = cases.rmse(run(q, k, v)[1], right)
    assert error < 1.1 * cases.rmse(fp8.attention_fp8(q, k, v)[0], right)
    assert error < 0.7 * cases.rmse(run(q, k, v, rotation=False)[1], right)


@pytest.mark.parametrize("head_dim", ops.HEAD_DIMS)
def test_the_same_bits_every_time_and_in_every_order(head_dim):
    q, k, v = cases.tensors(2, 5, 5, 1000, 1000, head_dim, torch.bfloat16, device="cuda")
    quantised, *first = run(q, k, v, causal=True)
    cases.assert_attention(quantised, 1000, *first, True)
    for together in (1, 3, 100):
        again = run(q, k, v, causal=True, heads_together=together)[1:]
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
