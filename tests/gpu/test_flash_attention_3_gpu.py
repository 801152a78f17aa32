"""The ladder of FlashAttention-3 on a Hopper GPU: right at any size, type and layout, the same bits every time."""

import math

import pytest
import torch

from course_lib.ops import flash_attention_3 as ops
from tests.gpu.test_flash_attention_2_gpu import DTYPES, SHAPES, checked, tensors

pytestmark = pytest.mark.skipif(torch.cuda.get_device_capability() != (9, 0), reason="wgmma is Hopper's own")
# more tiles than the ring has stages; more tiles of queries than a card has multiprocessors
LONG = [(1, 3, 1, 700, 1500), (2, 40, 8, 515, 640)]


def check(q, k, v, *, variant, causal, **options):
    """Outputs of one launch, compared with float64 and left with nothing unwritten."""
    return checked(ops.plan(q, k, v, variant=variant, causal=causal, **options), q, k, v, causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_any_sizes(variant, head_dim, dtype, causal):
    for shape in SHAPES + LONG:
        for scale in (1.0, 30.0):  # the second: scores near +-300, a new maximum in many tiles
            check(*tensors(*shape, head_dim, dtype, scale), variant=variant, causal=causal)


@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_strides(variant):
    """(batch, seq, head, dim) seen as (batch, head, seq, dim); rows with a gap that holds NaN."""
    q, k, v = tensors(2, 4, 2, 140, 150, 128, torch.bfloat16)
    q, k = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k))
    v = torch.cat([v, torch.full_like(v, math.nan)], dim=3)[..., :128]
    check(q, k, v, variant=variant, causal=True)


@pytest.mark.parametrize("variant", ops.VARIANTS)
def test_more_heads_than_a_grid_has_rows(variant):
    q, k, v = tensors(35000, 2, 1, 2, 3, 64, torch.float16)
    check(q, k, v, variant=variant, causal=True)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_the_persistent_step_gives_the_same_bits_every_time_and_in_every_order(head_dim):
    q, k, v = tensors(2, 5, 5, 1000, 1000, head_dim, torch.bfloat16)
    first = check(q, k, v, variant="07_persistent", causal=True)
    for together, blocks in ((1, None), (3, 7), (100, 1), (2, 1000)):
        options = {"heads_together": together, "num_blocks": blocks}
        again = check(q, k, v, variant="07_persistent", causal=True, **options)
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_launches_of_two_streams_do_not_share_counters():
    q, k, v = tensors(4, 8, 8, 1000, 1000, 64, torch.float16)
    alone = ops.flash_attention_3(q, k, v, causal=True)[0]
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    results = []
    for _ in range(5):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(ops.flash_attention_3(q, k, v, causal=True)[0])
    torch.cuda.synchronize()
    assert all(torch.equal(result, alone) for result in results)
