"""The ladder of kernels_cu/flash_attention_2: right for any sizes and strides, clean in every schedule, and each step
changes what it says."""

import functools
import math

import pytest
import torch

from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import flash_attention_2 as ops
from course_lib.reference import attention as reference

LADDER = ops.VARIANTS[1:]  # on tensor cores
SCHEDULES = ["forward", "reverse", "random", "resident"]
# batch, heads, kv heads, queries, keys
SHAPES = [(1, 1, 1, 1, 1), (1, 4, 2, 37, 53), (2, 3, 1, 50, 20), (1, 1, 1, 3, 150), (1, 1, 1, 130, 70)]
SHAPES += [(1, 1, 1, 9, 63), (1, 1, 1, 9, 47)]  # one key less than whole tiles
SHAPES += [(1, 1, 1, 64, 33)]  # causal: of its 32 rows, a warp's last sees one key, the first of a tile


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def tensors(batch, heads, kv_heads, num_q, num_kv, head_dim=64, dtype=torch.float16, scale=2.0):
    generator = torch.Generator().manual_seed(num_q + num_kv)
    shapes = [(batch, heads, num_q, head_dim), (batch, kv_heads, num_kv, head_dim), (batch, kv_heads, num_kv, head_dim)]
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return (scale * q).to(dtype), k.to(dtype), v.to(dtype)


def large_scores():
    """((q, k, v), softmax_scale): scores that grow by little and by much from tile to tile, then large ones, scaled."""
    q, k, v = tensors(1, 1, 1, 40, 300)
    for growth in (0.02, 1.0, 100.0):
        growing = k * 0.1 + torch.linspace(0, growth, 300)[:, None].half()
        yield (torch.ones_like(q), growing, v), None
        yield (-torch.ones_like(q), growing, v), None
    yield (q, k, v), 0.01


def strided(q, k, v):
    """The same numbers: q and k as (batch, seq, head, dim), transposed; the rows of v with gaps that hold NaN."""
    q, k = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k))
    v = torch.cat([v, torch.full_like(v, math.nan)], dim=3)[..., : v.shape[3]]
    assert not any(x.is_contiguous() for x in (q, k, v))
    return q, k, v


def assert_right(q, k, v, out, lse, causal, softmax_scale=None):
    """Twice the error of plain attention in the same dtype; the log-sum-exp as float32 gives it."""
    options = {"causal": causal, "softmax_scale": softmax_scale}
    right, right_lse = reference.attention_lse(q, k, v, **options)
    baseline = (reference.rounded_attention(q, k, v, **options).double() - right).abs().max()
    assert (out.double() - right).abs().max() <= 2 * baseline + 1e-3
    assert torch.equal(lse.isneginf(), right_lse.isneginf())
    assert torch.all((lse - right_lse)[right_lse.isfinite()].abs() <= 1e-4)


def ran_right(plan, q, k, v, *, causal=False, softmax_scale=None, **options):
    """The launch of plan(q, k, v, causal=…, softmax_scale=…, …), after it has run and its outputs were right."""
    launch = plan(q, k, v, causal=causal, softmax_scale=softmax_scale, **options)
    for output in launch.outputs:
        output.fill_(math.nan)
    launch.run()
    assert_right(q, k, v, *launch.outputs, causal, softmax_scale)
    return launch


def assert_clean(launch, q, k, v, schedule):
    """A causal launch without findings in this schedule, whose outputs are right."""
    report = launch.profile(schedule)
    assert report.ok, str(report)
    assert_right(q, k, v, *launch.outputs, True)


def run(q, k, v, **options):
    return ran_right(ops.plan, q, k, v, **options).outputs


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
@pytest.mark.parametrize("variant", LADDER)
def test_any_sizes(variant, head_dim, dtype, causal):
    for shape in SHAPES:
        run(*tensors(*shape, head_dim, dtype), variant=variant, causal=causal)


@pytest.mark.parametrize("variant", LADDER)
def test_a_row_without_keys_is_zero(variant):
    q, k, v = tensors(1, 1, 1, 150, 20)
    out, lse = run(q, k, v, variant=variant, causal=True)
    assert torch.all(out[:, :, :130] == 0) and torch.all(
        lse[:, :, :130] == -math.inf
    )  # more than one whole tile of rows


@pytest.mark.parametrize("variant", LADDER)
def test_large_scores_and_those_that_grow(variant):
    """A new maximum in every tile, by more and by less than 06 waits for; scores near +-1000."""
    for inputs, softmax_scale in large_scores():
        run(*inputs, variant=variant, softmax_scale=softmax_scale)


@pytest.mark.parametrize("variant", LADDER)
def test_strides(variant):
    """(batch, seq, head, dim) seen as (batch, head, seq, dim); one head for all; rows with a gap."""
    q, k, v = strided(*tensors(2, 4, 2, 40, 50))
    run(q, k, v, variant=variant, causal=True)
    run(q, k[:, :1].expand(2, 4, 50, 64), v[:, :1].expand(2, 4, 50, 64), variant=variant)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("variant", LADDER)
def test_clean_in_every_schedule(variant, schedule):
    """Two whole tiles and a rest; grouped heads; rows that see nothing, of which some are a warp's own 32."""
    for shape, head_dim in [((1, 2, 1, 70, 150), 64), ((1, 1, 1, 150, 70), 128)]:
        q, k, v = tensors(*shape, head_dim)
        assert_clean(ops.plan(q, k, v, variant=variant, causal=True), q, k, v, schedule)


@functools.cache
def profile(variant, head_dim):
    return ops.plan(*tensors(1, 1, 1, 128, 192, head_dim), variant=variant).profile()


@pytest.mark.parametrize("head_dim", [64, 128])
def test_the_swizzle_ends_bank_conflicts(head_dim):
    plain, swizzled = profile("02_mma", head_dim), profile("03_swizzled", head_dim)
    assert plain.shared_load.requests == swizzled.shared_load.requests
    assert (
        plain.shared_load.wavefronts == 8 * swizzled.shared_load.wavefronts
    )  # eight rows of a column, one after another
    for variant in LADDER[1:]:
        assert (
            profile(variant, head_dim).shared_load.conflicts == profile(variant, head_dim).shared_store.conflicts == 0
        )


@pytest.mark.parametrize("head_dim", [64, 128])
def test_every_step_reads_q_k_v_once_and_writes_out_and_lse_once(head_dim):
    read = 2 * head_dim * (128 + 2 * 192)
    for variant in LADDER:
        assert profile(variant, head_dim).global_load.bytes == read
        assert profile(variant, head_dim).global_store.bytes == 2 * head_dim * 128 + 4 * 128


@pytest.mark.parametrize("head_dim", [64, 128])
def test_fewer_q_reads_reads_q_less_often(head_dim):
    """128 x 192: at d = 64 a warp reads its Q once, not in each of 3 tiles; at d = 128 in 4 tiles of 48, not 6."""
    fewer, before = (profile(name, head_dim).shared_load.requests for name in ("09_fewer_q_reads", "08_wide_stores"))
    fragments, (reads_now, reads_before) = 4 * 2 * head_dim // 16, {64: (1, 3), 128: (4, 6)}[head_dim]
    assert before - fewer == fragments * (reads_before - reads_now)


def test_wide_stores_write_whole_rows():
    """16 bytes a lane: a warp's 32 rows of 128 bytes in 8 requests, and lse; before, 4 bytes a lane."""
    wide, before = (profile(name, 64).global_store for name in ("08_wide_stores", "07_last_keys_first"))
    assert wide.bytes == before.bytes and wide.sectors <= before.sectors
    assert before.requests - wide.requests == 4 * (2 * 2 * 8 - 32 * 8 // 32)


def test_warps_above_the_diagonal_leave_out_the_second_product():
    """256 x 256, causal, d = 64: of the last tile of each block, the first two of four warps see nothing."""
    q, k, v = tensors(1, 1, 1, 256, 256)
    skipped, before = (
        ops.plan(q, k, v, variant=name, causal=True).profile().shared_load.requests
        for name in ("07_last_keys_first", "06_lazy_rescale")
    )
    assert before - skipped == 2 * 2 * 4 * 4  # two blocks, two warps, 16 ldmatrix of V


def test_tiles_above_the_diagonal_are_never_read():
    q, k, v = tensors(1, 1, 1, 256, 256)
    for variant in LADDER:
        whole, causal = (
            ops.plan(q, k, v, variant=variant, causal=mask).profile().global_load.bytes for mask in (False, True)
        )
        assert whole - causal == 2 * 2 * 64 * 128  # half of K and half of V, for the first of two blocks


@pytest.mark.parametrize("together", [1, 2, 5, 100])
def test_heads_together_is_an_order_and_nothing_else(together):
    q, k, v = tensors(2, 3, 3, 140, 60)
    launch = ops.plan(q, k, v, causal=True, heads_together=together)
    launch.run()
    assert_right(q, k, v, *launch.outputs, True)


def test_first_step_and_its_launcher():
    q, k, v = tensors(2, 4, 2, 37, 53, 20, torch.float32)
    out, lse = ops.flash_attention_2(q, k, v, causal=True, variant="01_loop_order")
    right, right_lse = reference.attention_lse(q, k, v, causal=True)
    assert (out - right).abs().max() <= 1e-5 and (lse - right_lse).abs().max() <= 1e-4
    read, written = ops.plan(q[:1, :1], k[:1, :1], v[:1, :1], variant="01_loop_order", block_m=16, block_n=8).traffic()
    assert (read, written) == (4 * 20 * (37 + 3 * 2 * 53), 4 * (20 * 37 + 37))


def test_what_does_not_fit_is_said():
    q, k, v = tensors(1, 3, 3, 16, 16)
    cases = [
        (ShapeError, "4 dimensions", (q[0], k, v), {}),
        (ShapeError, "num_kv_heads=2", (q, k[:, :2], v[:, :2]), {}),
        (ShapeError, "one shape for both", (q, k, v[:, :1]), {}),
        (ShapeError, "batch_size and head_dim", (q[..., :32], k, v), {}),
        (ShapeError, "must share one float type", (q, k.float(), v), {}),
        (ShapeError, "float16 and bfloat16", (q.float(), k.float(), v.float()), {}),
        (ShapeError, "last dimension", (q.mT.contiguous().mT, k, v), {}),
        (ShapeError, "multiple of 16", (q, torch.zeros(1, 3, 16, 68, dtype=q.dtype)[..., :64], v), {}),
        (ShapeError, "2 bytes past", (torch.zeros(3073, dtype=q.dtype)[1:].view(1, 3, 16, 64), k, v), {}),
        (ShapeError, "float32", (q, k, v), {"variant": "01_loop_order"}),
        (
            UnsupportedError,
            "head_dim=32",
            (q[..., :32].contiguous(), k[..., :32].contiguous(), v[..., :32].contiguous()),
            {},
        ),
        (UnsupportedError, "softmax_scale=-1", (q, k, v), {"softmax_scale": -1}),
        (UnsupportedError, "softmax_scale=nan", (q, k, v), {"softmax_scale": math.nan}),
        (UnsupportedError, "choose one of", (q, k, v), {"variant": "05"}),
        (UnsupportedError, '"cuda" or "triton"', (q, k, v), {"language": "mojo"}),
        (
            UnsupportedError,
            "03_swizzled has no Triton twin",
            (q, k, v),
            {"variant": "03_swizzled", "language": "triton"},
        ),
    ]
    for error, said, arguments, options in cases:
        with pytest.raises(error, match=said):
            ops.plan(*arguments, **options)
