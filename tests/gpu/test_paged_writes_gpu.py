"""Pages of one byte a number, prefill and copies on the GPU in hand, in both languages."""

import math

import pytest
import torch

from course_lib.ops import paged, paged_prefill, paged_quantised
from course_lib.reference import paged as reference
from course_lib.reference import quantised_kv

pytestmark = pytest.mark.skipif(
    torch.cuda.get_device_capability() < (8, 0), reason="the kernels over pages need compute capability 8.0"
)
LANGUAGES = ("cuda", "triton")
SMALL = (torch.int8, torch.float8_e4m3fn)


def skip_without_fp8(language, small):
    if language == "triton" and small == torch.float8_e4m3fn and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("Triton converts float8_e4m3fn from compute capability 8.9 on")


def cache(lengths, *, heads, kv_heads, head_dim=128, page_size=16, dtype=torch.bfloat16, layout="NHD"):
    """(q, k_pages, v_pages, block_table, seq_lens): pages in no order, spare table entries -1."""
    generator = torch.Generator(device="cuda").manual_seed(sum(lengths))
    needed = [-(-length // page_size) for length in lengths]
    order = torch.randperm(sum(needed) + 2, generator=generator, device="cuda").int()
    table = torch.full((len(lengths), max(needed) + 1), -1, dtype=torch.int32, device="cuda")
    for b, pages in enumerate(order[: sum(needed)].split(needed)):
        table[b, : len(pages)] = pages
    rest = (page_size, kv_heads) if layout == "NHD" else (kv_heads, page_size)
    pools = torch.randn(2, len(order), *rest, head_dim, generator=generator, device="cuda").to(dtype)
    q = torch.randn(len(lengths), heads, head_dim, generator=generator, device="cuda").to(dtype)
    return q, *pools, table, torch.tensor(lengths, dtype=torch.int32, device="cuda")


def assert_near(launch, right):
    for output in launch.outputs:
        output.fill_(math.nan)
    for _ in range(2):  # a counter left behind would spoil the second
        launch.run()
    out, lse = launch.outputs
    assert (out.double() - right[0]).abs().max() <= 1.6e-2 * max(1.0, right[0].abs().max().item())
    assert torch.equal(lse.isneginf(), right[1].isneginf())
    assert torch.all((lse - right[1])[right[1].isfinite()].abs() <= 1e-4)


@pytest.mark.parametrize("heads", [(8, 8), (32, 8), (9, 1), (16, 1)])
@pytest.mark.parametrize(("head_dim", "layout", "per"), [(64, "HND", "token"), (128, "NHD", "head")])
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("language", LANGUAGES)
def test_quantised(language, small, head_dim, layout, per, heads):
    skip_without_fp8(language, small)
    q, *pools, table, lens = cache(
        [0, 1, 17, 4096, 255, 0, 1000], heads=heads[0], kv_heads=heads[1], head_dim=head_dim, layout=layout
    )
    (k, k_scales), (v, v_scales) = (quantised_kv.quantise(x, small, layout=layout, per=per) for x in pools)
    restored = [quantised_kv.restored(x, s, layout=layout) for x, s in ((k, k_scales), (v, v_scales))]
    right = reference.paged_attention_lse(q, *restored, table, lens, layout=layout)
    inputs = (q, k, v, k_scales, v_scales, table, lens)
    assert_near(paged_quantised.plan(*inputs, layout=layout, language=language), right)


@pytest.mark.parametrize("batch_size", [40, 130])
def test_many_short_quantised_sequences(batch_size):
    q, *pools, table, lens = cache([i * 37 % 2000 for i in range(batch_size)], heads=32, kv_heads=8)
    (k, k_scales), (v, v_scales) = (quantised_kv.quantise(x, torch.int8) for x in pools)
    restored = [quantised_kv.restored(x, s) for x, s in ((k, k_scales), (v, v_scales))]
    right = reference.paged_attention_lse(q, *restored, table, lens)
    assert_near(paged_quantised.plan(q, k, v, k_scales, v_scales, table, lens), right)


@pytest.mark.parametrize("per", ["token", "head"])
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("head_dim", "dtype", "layout"), [(64, torch.float16, "HND"), (128, torch.bfloat16, "NHD")])
def test_the_quantised_write_stores_the_nearest_code(head_dim, dtype, layout, language, small, per):
    skip_without_fp8(language, small)
    rest = (16, 8) if layout == "NHD" else (8, 16)
    pools = [torch.randint(-100, 100, (40, *rest, head_dim), device="cuda").to(torch.int8).view(small) for _ in "kv"]
    scales = [torch.rand(40, 16, 8, device="cuda") for _ in "kv"]
    if per == "head":
        scales = [(torch.rand(8, device="cuda") * 0.01 + 0.005).expand(40, 16, 8) for _ in "kv"]
    fused = torch.randn(500, 2, 8, head_dim, device="cuda").to(dtype)
    fused[2], fused[3, :, :, 0] = 0.0, 1000.0
    slots = torch.randperm(640, device="cuda")[:500]
    slots[::9] = -1
    k, v = fused[:, 0], fused[:, 1]
    want = [
        quantised_kv.written(x, pool, scale, slots, layout=layout, per=per)
        for x, pool, scale in zip((k, v), pools, scales, strict=True)
    ]
    options = {"layout": layout, "per": per, "language": language}
    paged_quantised.reshape_and_cache_quantised(k, v, *pools, *scales, slots, **options)
    for (codes, right), pool, scale in zip(want, pools, scales, strict=True):
        assert torch.equal(pool.view(torch.int8), codes.view(torch.int8)) and torch.equal(scale, right)


@pytest.mark.parametrize("page_size", [1, 16, 100])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
@pytest.mark.parametrize("twin", [*paged_prefill.VARIANTS, "triton"])
def test_prefill(twin, head_dim, dtype, page_size):
    lengths, new = [0, 1, 700, 1500, 130], [0, 1, 700, 3, 129]
    options = {"heads": 8, "kv_heads": 2, "head_dim": head_dim, "page_size": page_size, "dtype": dtype}
    _, *pool = cache(lengths, **options)
    q = torch.randn(sum(new), 8, head_dim, device="cuda").to(dtype)
    starts = torch.tensor([0, *new], device="cuda").cumsum(0).int()
    which = {"language": "triton"} if twin == "triton" else {"variant": twin}
    launch = paged_prefill.plan(q, *pool, starts, max_seq_len_q=max(new), **which)
    assert_near(launch, reference.paged_prefill_lse(q, *pool, starts))


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_are_copied_whole(language):
    k, v = torch.randn(2, 50, 16, 8, 128, device="cuda").half()
    want = [pool.clone() for pool in (k, v)]
    order = torch.randperm(50, device="cuda")
    for pool in want:
        pool[order[:20]] = pool[order[20:40]]
    paged.copy_pages(k, v, torch.stack((order[20:40], order[:20]), dim=1), language=language)
    assert torch.equal(k, want[0]) and torch.equal(v, want[1])
