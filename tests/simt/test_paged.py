"""Attention over pages on the SIMT machine: right for any page, layout and length, clean, and reads what it may."""

import math

import pytest
import torch
from broken_kernels import without_line

from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import paged as ops
from course_lib.ops import paged_prefill, paged_quantised
from course_lib.reference import attention, quantised_kv
from course_lib.reference import paged as reference

SCHEDULES = ["forward", "reverse", "random", "resident"]
LAYOUTS = ["NHD", "HND"]


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def cache(lengths, *, heads=4, kv_heads=2, head_dim=64, page_size=16, dtype=torch.float16, layout="NHD", scale=2.0):
    """(q, k_pages, v_pages, block_table, seq_lens): pages in no order, everything unused NaN, spare entries -1."""
    generator = torch.Generator().manual_seed(sum(lengths) + page_size)
    needed = [-(-length // page_size) for length in lengths]
    order = torch.randperm(sum(needed) + 3, generator=generator).int()
    table = torch.full((len(lengths), max(needed) + 2), -1, dtype=torch.int32)
    shape = (len(order), page_size, kv_heads, head_dim)
    pools = [torch.full(shape, math.nan, dtype=dtype) for _ in range(2)]
    for b, pages in enumerate(order[: sum(needed)].split(needed)):
        table[b, : len(pages)] = pages
        token = torch.arange(lengths[b])
        for pool in pools:
            rows = torch.randn(lengths[b], kv_heads, head_dim, generator=generator).to(dtype)
            pool[pages[token // page_size].long(), token % page_size] = rows
    pools = [pool if layout == "NHD" else pool.transpose(1, 2).contiguous() for pool in pools]
    q = (scale * torch.randn(len(lengths), heads, head_dim, generator=generator)).to(dtype)
    return q, *pools, table, torch.tensor(lengths, dtype=torch.int32)


def assert_right(launch, right, dtype, runs=1):
    """Outputs near the oracle's after each of `runs` launches, scratch and outputs poisoned before each of them.

    A counter that a launch leaves behind spoils the next; what an earlier launch left in the scratch must not help.
    """
    limit = 2e-3 if dtype == torch.float16 else 1.6e-2
    seen = right[1].isfinite()
    for _ in range(runs):
        for part in getattr(launch, "launches", (launch,)):
            for x in part.arguments:
                if isinstance(x, torch.Tensor) and x.dtype == torch.float32 and x.shape[:2] == right[1].shape:
                    x.fill_(math.nan)
        for output in launch.outputs:
            output.fill_(math.nan)
        launch.run()
        out, lse = launch.outputs
        assert (out.double() - right[0]).abs().max() <= limit * max(1.0, right[0].abs().max().item())
        assert torch.equal(lse.isneginf(), right[1].isneginf())
        assert torch.all((lse - right[1])[seen].abs() <= 1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("page_size", [1, 3, 16, 64])
@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("variant", ops.DECODE_VARIANTS)
def test_lengths_around_a_page(variant, language, page_size, layout):
    lengths = sorted({0, 1, page_size - 1, page_size, page_size + 1, 3 * page_size + 5})
    inputs = cache(lengths, page_size=page_size, layout=layout)
    launch = ops.plan(*inputs, layout=layout, variant=variant, language=language, split_len=32)
    assert_right(launch, reference.paged_attention_lse(*inputs, layout=layout), torch.float16)


@pytest.mark.parametrize("heads", [(1, 1), (3, 3), (8, 1), (9, 1), (16, 1), (32, 2)])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.bfloat16), (128, torch.float16)])
def test_groups_of_any_size(heads, head_dim, dtype):
    inputs = cache([0, 75, 200], heads=heads[0], kv_heads=heads[1], head_dim=head_dim, dtype=dtype)
    right = reference.paged_attention_lse(*inputs)
    for split_len in (1000, 64, 33, 16):  # one block, several; splits that end inside a tile
        launch = ops.plan(*inputs, split_len=split_len)
        assert_right(launch, right, dtype, runs=2)
        counters = [x for x in launch.arguments if isinstance(x, torch.Tensor) and x.dtype == torch.int32][-1]
        assert counters.shape == (3, heads[1]) and not counters.any()  # ready for the next launch


@pytest.mark.parametrize(("batch_size", "warps"), [(33, 6), (34, 3), (70, 1)])
def test_narrow_blocks_where_there_are_many_pairs(batch_size, warps):
    """8 key-value heads a sequence: 264, 272 and 560 pairs, on the 264 and 528 places of an H200."""
    inputs = cache([i % 20 for i in range(batch_size)], heads=8, kv_heads=8, page_size=4)
    launch = ops.plan(*inputs)
    assert launch.block == 32 * warps
    assert_right(launch, reference.paged_attention_lse(*inputs), torch.float16)
    q, k, v, table, lens = inputs
    (k, k_scales), (v, v_scales) = (quantised_kv.quantise(x, torch.int8) for x in (k, v))
    launch = paged_quantised.plan(q, k, v, k_scales, v_scales, table, lens)
    assert launch.block == 32 * warps
    restored = [quantised_kv.restored(x, s) for x, s in ((k, k_scales), (v, v_scales))]
    assert_right(launch, reference.paged_attention_lse(q, *restored, table, lens), torch.float16)


@pytest.mark.parametrize("variant", ops.DECODE_VARIANTS)
def test_large_and_growing_scores(variant):
    q, k, v, table, lens = cache([300], scale=1.0)
    growth = torch.linspace(0, 1, 300)
    for b, factor in ((0, 1.0), (0, 40.0)):
        pages = table[b][torch.arange(300) // 16].long()
        k[pages, torch.arange(300) % 16] = (growth[:, None, None] * factor).half().expand(300, 2, 64)
        for sign in (1, -1):
            inputs = (torch.full_like(q, sign), k, v, table, lens)
            assert_right(ops.plan(*inputs, variant=variant), reference.paged_attention_lse(*inputs), torch.float16)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("variant", ops.DECODE_VARIANTS)
def test_clean_in_every_schedule(variant, schedule):
    inputs = cache([0, 17, 150], page_size=3)
    launch = ops.plan(*inputs, variant=variant, split_len=48)
    for part in getattr(launch, "launches", (launch,)):
        report = part.profile(schedule)
        assert report.ok, str(report)


@pytest.mark.parametrize(
    "line",
    [
        "separates the writes of all warps' states from their reads",
        "this thread's part is visible to every block",
    ],
)
def test_a_missing_barrier_or_fence_is_found(line):
    launch = ops.plan(*cache([150]), split_len=48)
    broken = without_line(launch.function, line)
    options = {"shared_bytes": launch.shared_bytes, "outputs": launch.outputs, "schedule": "resident"}
    assert not broken.profile(launch.grid, launch.block, *launch.arguments, **options).ok


def test_deterministic_bits_of_a_sequence_depend_on_nothing_beside_it():
    """Alone, and in a batch of more pairs than slots, for which the fast way has another shape."""
    q, k_pages, v_pages, table, seq_lens = cache([1100, 1, 30], page_size=16)
    bits = {}
    for deterministic in (True, False):
        found = []
        for rows in ([0], [2, 0] + 131 * [1]):
            options = {"max_seq_len": 1100 if len(rows) == 1 else None, "deterministic": deterministic}
            out, lse = ops.paged_attention(q[rows], k_pages, v_pages, table[rows], seq_lens[rows], **options)
            found.append(torch.cat((out[rows.index(0)].float(), lse[rows.index(0), :, None]), dim=1))
        bits[deterministic] = torch.equal(*found)
    assert bits == {True: True, False: False}
    with pytest.raises(UnsupportedError, match="not 02_paged_v1"):
        ops.paged_attention(q, k_pages, v_pages, table, seq_lens, variant="02_paged_v1", deterministic=True)


def test_the_grouped_kernel_reads_the_cache_once():
    """Bytes of K and V by formula: one read a group in 04, one a query head in 02."""
    inputs = cache([512, 512], heads=8, kv_heads=2)
    once = 2 * 2 * 512 * 2 * 64 * 2  # K and V, sequences, tokens, heads, columns, bytes
    grouped, by_head = (
        ops.plan(*inputs, variant=name, split_len=512).traffic()[0] for name in ops.DECODE_VARIANTS[2::-2]
    )
    assert once <= grouped <= 1.1 * once  # and q a warp, and a table entry a lane
    assert 4 * once <= by_head <= 1.2 * 4 * once


def test_tiles_in_shared_memory_have_no_bank_conflicts():
    for head_dim in (64, 128):
        report = ops.plan(*cache([128], head_dim=head_dim)).profile()
        assert report.shared_load.conflicts <= 0.02 * report.shared_load.wavefronts


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_new_tokens_go_to_their_slots_and_nowhere_else(language, layout):
    _, k_pages, v_pages, _, _ = cache([70], page_size=5, layout=layout)
    fused = torch.randn(6, 2, 2, 64).half()  # K beside V, as one projection leaves them: tokens two rows apart
    k, v = fused[:, 0], fused[:, 1]
    slots = torch.tensor([31, -1, 0, 84, 7, -5])
    want = reference.reshape_and_cache(k, v, k_pages, v_pages, slots, layout=layout)
    ops.reshape_and_cache(k, v, k_pages, v_pages, slots, layout=layout, language=language)
    for got, right in zip((k_pages, v_pages), want, strict=True):
        assert torch.equal(got.view(torch.int16), right.view(torch.int16))  # NaN by NaN


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8])
def test_pages_are_copied_whole(dtype, language):
    k, v = (torch.randint(-100, 100, (7, 3, 2, 64)).to(dtype) for _ in range(2))
    want = [pool.clone() for pool in (k, v)]
    for pool in want:
        pool[5], pool[0] = pool[1], pool[6]
    ops.copy_pages(k, v, torch.tensor([[1, 5], [6, 0]]), language=language)
    assert torch.equal(k, want[0]) and torch.equal(v, want[1])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("head_dim", "page_size"), [(64, 3), (128, 16)])
@pytest.mark.parametrize("twin", ["05_paged_prefill", "09_tuned_prefill", "triton"])
def test_prefill(twin, head_dim, page_size, layout):
    lengths, new = [0, 1, 17, 50, 150], [0, 1, 17, 3, 140]
    dtype = torch.bfloat16 if head_dim == 64 else torch.float16
    _, *pool = cache(lengths, head_dim=head_dim, page_size=page_size, dtype=dtype, layout=layout)
    q = torch.randn(sum(new), 4, head_dim).to(dtype)
    starts = torch.tensor([0, *new]).cumsum(0).int()
    which = {"language": "triton"} if twin == "triton" else {"variant": twin}
    launch = paged_prefill.plan(q, *pool, starts, max_seq_len_q=max(new), layout=layout, **which)
    assert_right(launch, reference.paged_prefill_lse(q, *pool, starts, layout=layout), dtype)


@pytest.mark.parametrize("variant", paged_prefill.VARIANTS)
def test_a_new_token_behind_the_cache_sees_nothing(variant):
    _, *pool = cache([2])
    q, starts = torch.randn(5, 4, 64).half(), torch.tensor([0, 5], dtype=torch.int32)
    out, lse = paged_prefill.paged_prefill(q, *pool, starts, max_seq_len_q=5, variant=variant)
    assert torch.all(out[:3] == 0) and torch.all(lse[:3] == -math.inf) and torch.all(lse[3:].isfinite())


@pytest.mark.parametrize("per", ["token", "head"])
@pytest.mark.parametrize("small", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize(("head_dim", "heads", "layout"), [(64, 9, "HND"), (128, 4, "NHD")])
@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_quantised(language, head_dim, heads, layout, small, per):
    """Held to what the bytes stand for: the kernel's own error stays that of half precision."""
    q, k, v, table, lens = cache([0, 5, 40, 150], head_dim=head_dim, heads=heads, kv_heads=1, layout=layout)
    (k, k_scales), (v, v_scales) = (quantised_kv.quantise(x, small, layout=layout, per=per) for x in (k, v))
    restored = [quantised_kv.restored(x, s, layout=layout) for x, s in ((k, k_scales), (v, v_scales))]
    right = reference.paged_attention_lse(q, *restored, table, lens, layout=layout)
    for split_len in (200, 64):
        options = {"layout": layout, "split_len": split_len, "language": language}
        launch = paged_quantised.plan(q, k, v, k_scales, v_scales, table, lens, **options)
        assert_right(launch, right, torch.float16, runs=2)


@pytest.mark.parametrize("per", ["token", "head"])
@pytest.mark.parametrize("small", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize(("head_dim", "dtype", "layout"), [(64, torch.float16, "HND"), (128, torch.bfloat16, "NHD")])
@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_the_quantised_write_stores_the_nearest_code(language, head_dim, dtype, layout, small, per):
    """Byte by byte as torch rounds: ties to even, numbers beyond the scale saturate, a row of zeros has a scale."""
    shape = (7, 5, 3, head_dim) if layout == "NHD" else (7, 3, 5, head_dim)
    pools = [torch.randint(-100, 100, shape, dtype=torch.int8).view(small) for _ in range(2)]
    scales = [torch.rand(7, 5, 3) for _ in range(2)]
    if per == "head":
        scales = [(torch.rand(3) * 0.01 + 0.005).expand(7, 5, 3) for _ in range(2)]
    fused = torch.randn(6, 2, 3, head_dim).to(dtype)
    fused[2], fused[3, :, :, 0] = 0.0, 1000.0
    fused[4] = torch.arange(head_dim) + 0.5 - head_dim // 2  # in int8 with a scale of 1: all of them ties
    fused[4, :, :, 0] = 127.0
    k, v = fused[:, 0], fused[:, 1]
    slots = torch.tensor([31, -1, 0, 34, 7, -5])
    want = [
        quantised_kv.written(x, pool, scale, slots, layout=layout, per=per)
        for x, pool, scale in zip((k, v), pools, scales, strict=True)
    ]
    launch = paged_quantised.plan_write(k, v, *pools, *scales, slots, layout=layout, per=per, language=language)
    launch.run()
    for (codes, right), pool, scale in zip(want, pools, scales, strict=True):
        assert torch.equal(pool.view(torch.int8), codes.view(torch.int8)) and torch.equal(scale, right)


def test_what_was_written_in_one_byte_is_read_back():
    """A cache filled by the quantised write alone, a token at a time, then attention over it."""
    q, k, v, table, lens = cache([21])
    pools = [torch.zeros(k.shape, dtype=torch.int8) for _ in range(2)]
    scales = [torch.full(k.shape[:3], math.nan) for _ in range(2)]
    page, place = table[0][torch.arange(21) // 16].long(), torch.arange(21) % 16
    for i in range(21):
        new = (x[page[i], place[i]][None] for x in (k, v))
        paged_quantised.reshape_and_cache_quantised(*new, *pools, *scales, (page * 16 + place)[i : i + 1])
    out, _ = paged_quantised.paged_attention_quantised(q, *pools, *scales, table, lens)
    right, _ = reference.paged_attention_lse(q, k, v, table, lens)
    assert (out - right).abs().max() <= 0.05  # int8: a step is 1 / 127 of the largest number of a row


def test_offsets_beyond_32_bits():
    """Pages 2^25 elements apart, page 70 in use and beyond 2^31; v is k, and most of it is never touched."""
    apart, page_size = 2**25, 4
    try:
        storage = torch.empty(71 * apart, dtype=torch.float16)
    except RuntimeError:
        pytest.fail("4.8 GB of address space could not be had")
    k = v = torch.as_strided(storage, (71, page_size, 1, 64), (apart, 64, 64, 1))
    table = torch.tensor([[70, 1, 68]], dtype=torch.int32)
    for page in table[0].tolist():
        k[page] = torch.randn(page_size, 1, 64).half()
    inputs = (torch.randn(1, 2, 64).half(), k, v, table, torch.tensor([11], dtype=torch.int32))
    right = attention.attention_lse(
        inputs[0][0, :, None], *(pool[table[0].long()].flatten(0, 1)[:11].transpose(0, 1) for pool in (k, v))
    )
    right = tuple(x[None, :, 0] for x in right)
    for variant in ops.DECODE_VARIANTS:
        assert_right(ops.plan(*inputs, variant=variant), right, torch.float16)


def test_refusals_are_sentences():
    q, k, v, table, lens = cache([5])
    with pytest.raises(ShapeError, match="both pools must have one shape"):
        ops.plan(q, k, v.transpose(1, 2).contiguous().transpose(1, 2), table, lens)
    with pytest.raises(ShapeError, match="must be int32"):
        ops.plan(q, k, v, table.long(), lens)
    with pytest.raises(UnsupportedError, match="layout"):
        ops.plan(q, k, v, table, lens, layout="DHN")
    with pytest.raises(UnsupportedError, match="04_paged_grouped"):
        ops.plan(q, k, v, table, lens, variant="04")
    small, scales = quantised_kv.quantise(k, torch.int8, per="head")
    new = torch.zeros(1, 2, 64, dtype=torch.float16)
    with pytest.raises(ShapeError, match="a place of its own"):
        paged_quantised.plan_write(new, new, small, small, scales, scales, torch.tensor([0]))
