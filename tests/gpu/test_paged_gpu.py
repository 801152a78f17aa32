"""Attention over pages on the GPU in hand: mixed lengths, big pools, graphs, the same bits every time."""

import math

import pytest
import torch
from graphs import require_same_in_a_graph

from course_lib.ops import paged as ops
from course_lib.reference import paged as reference

pytestmark = pytest.mark.skipif(
    torch.cuda.get_device_capability() < (8, 0), reason="the kernels over pages need compute capability 8.0"
)
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def cache(lengths, *, heads=32, kv_heads=8, head_dim=128, page_size=16, dtype=torch.bfloat16, spare_pages=3):
    """(q, k_pages, v_pages, block_table, seq_lens): pages in no order, unused pages NaN, spare table entries -1."""
    generator = torch.Generator(device="cuda").manual_seed(sum(lengths))
    needed = [-(-length // page_size) for length in lengths]
    num_pages = sum(needed) + spare_pages
    order = torch.randperm(num_pages, generator=generator, device="cuda").int()
    table = torch.full((len(lengths), max(needed) + 1), -1, dtype=torch.int32, device="cuda")
    shape = (num_pages, page_size, kv_heads, head_dim)
    pools = [torch.randn(shape, generator=generator, device="cuda", dtype=dtype) for _ in range(2)]
    for b, pages in enumerate(order[: sum(needed)].split(needed)):
        table[b, : len(pages)] = pages
        for pool in pools if len(pages) else ():
            pool[pages[-1], (lengths[b] - 1) % page_size + 1 :] = math.nan
    for pool in pools:
        pool[order[sum(needed) :].long()] = math.nan
    q = torch.randn(len(lengths), heads, head_dim, generator=generator, device="cuda", dtype=dtype)
    return q, *pools, table, torch.tensor(lengths, dtype=torch.int32, device="cuda")


def check(inputs, *, runs=2, **options):
    """Outputs of `runs` launches, held to float64."""
    launch = ops.plan(*inputs, **options)
    for output in launch.outputs:
        output.fill_(math.nan)
    for _ in range(runs):
        launch.run()
    out, lse = launch.outputs
    right, right_lse = reference.paged_attention_lse(*inputs)
    assert (out.double() - right).abs().max() <= TOLERANCE[out.dtype] * max(1.0, right.abs().max().item())
    assert torch.equal(lse.isneginf(), right_lse.isneginf())
    assert torch.all((lse - right_lse)[right_lse.isfinite()].abs() <= 1e-4)
    return out.clone(), lse.clone()


@pytest.mark.parametrize("page_size", [1, 7, 16, 64, 256])
@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("variant", ops.DECODE_VARIANTS)
def test_mixed_lengths(variant, language, page_size):
    check(cache([0, 1, 17, 4096, 255, 0, 1000], page_size=page_size), variant=variant, language=language)


@pytest.mark.parametrize("heads", [(1, 1), (3, 3), (8, 1), (9, 1), (32, 2)])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
def test_groups(heads, head_dim, dtype):
    check(cache([0, 75, 3000], heads=heads[0], kv_heads=heads[1], head_dim=head_dim, dtype=dtype))


@pytest.mark.parametrize("batch_size", [40, 130])
def test_many_short_sequences(batch_size):
    """320 and 1040 pairs of a sequence and a head: narrow blocks, then blocks of one warp."""
    check(cache([i * 37 % 2000 for i in range(batch_size)]))


def test_one_very_long_sequence_among_short_ones():
    check(cache([131072, 5, 0, 900], heads=8, kv_heads=2))


def test_a_pool_of_more_than_2_to_the_31_elements():
    """Its last pages are used too: their first element has no 32-bit number."""
    page = 16 * 8 * 128
    check(cache([3000, 500], spare_pages=2**31 // page + 100, dtype=torch.float16))


def test_the_same_bits_every_time():
    """Splits are merged in their order, whichever block comes last."""
    inputs = cache([9000, 300, 4000])
    first = check(inputs, split_len=500)
    for _ in range(5):
        assert all(torch.equal(a, b) for a, b in zip(first, check(inputs, split_len=500), strict=True))


def test_a_launch_can_be_captured_in_a_graph():
    inputs = cache([2000, 100])
    require_same_in_a_graph(ops.plan(*inputs), replays=2)
