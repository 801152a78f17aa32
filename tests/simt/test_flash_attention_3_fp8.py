"""FlashAttention-3 in e4m3 on the SIMT machine: right for any sizes, clean in every schedule."""

import math

import pytest
import torch

from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops.flash_attention_3 import _fp8 as ops
from course_lib.reference import attention as reference
from tests import fp8_cases as cases
from tests.simt.test_flash_attention_2 import SCHEDULES

# batch, heads, kv heads, queries, keys; tiles of keys are 96 (head_dim 64) or 128
SHAPES = [(1, 1, 1, 1, 1), (1, 4, 2, 37, 53), (2, 2, 1, 50, 20), (1, 1, 1, 3, 260), (1, 1, 1, 200, 130)]
LONG = (1, 1, 1, 5, 1100)  # more than two groups of PROMOTE_TILES tiles, and a rest


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def run(q, k, v, *, causal=False, softmax_scale=None, **options):
    quantising = ops.plan_quantise(q, k, v)
    quantising.run()
    launch = ops.plan_fp8(
        quantising.outputs, k.shape[2], q.dtype, causal=causal, softmax_scale=softmax_scale, **options
    )
    for output in launch.outputs:
        output.fill_(math.nan)
    launch.run()
    cases.assert_attention(quantising.outputs, k.shape[2], *launch.outputs, causal, softmax_scale)
    return launch


@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
def test_the_quantising_kernels_give_what_the_reference_gives(head_dim, dtype):
    for shape in SHAPES:
        q, k, v = cases.tensors(*shape, head_dim, dtype)
        launches = ops.plan_quantise(q, k, v)
        for output in launches.outputs:
            output.view(torch.uint8).fill_(0x7F)  # NaN in e4m3
        launches.run()
        cases.assert_quantised(q, k, v, launches.outputs)


def test_a_block_of_zeros_stays_zero():
    q, k, v = cases.tensors(1, 1, 1, 70, 300, 64, torch.float16)
    q[:, :, :64], v[:, :, :192] = 0.0, 0.0
    out, lse = run(q, k, v).outputs
    assert out.isfinite().all() and lse[:, :, :64].sub(math.log(300)).abs().max() < 1e-4  # equal scores


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
def test_any_sizes(head_dim, dtype, causal):
    for shape in [*SHAPES, LONG]:
        run(*cases.tensors(*shape, head_dim, dtype), causal=causal)


@pytest.mark.parametrize("promote_tiles", [0, 1, 2, 4])
def test_promotion_in_groups_of_any_size(promote_tiles):
    for num_kv in (128, 129, 640, 700):
        run(*cases.tensors(1, 1, 1, 70, num_kv, 128, torch.float16), causal=True, promote_tiles=promote_tiles)


def test_a_row_without_keys_is_zero():
    q, k, v = cases.tensors(1, 1, 1, 250, 20, 128, torch.float16)
    out, lse = run(q, k, v, causal=True).outputs
    assert torch.all(out[:, :, :230] == 0) and torch.all(lse[:, :, :230] == -math.inf)


def test_large_scores_and_those_that_grow():
    q, k, v = cases.tensors(1, 1, 1, 40, 700, 64, torch.float16)
    for growth in (0.02, 0.3, 5.0):
        growing = torch.linspace(0, growth, 700)[:, None].half().expand_as(k).contiguous()
        run(torch.ones_like(q), growing, v)
        run(-torch.ones_like(q), growing, v)
    run(q, k, v, softmax_scale=0.01)


def test_one_key_takes_all_the_weight_and_v_has_blocks_of_very_different_scale():
    """m follows score + log2 of V's scale: neither the denominator nor the largest product may overflow or vanish."""
    q, k, v = cases.tensors(1, 1, 1, 20, 500, 128, torch.float16)
    for first, second in ((1.0, 1e-4), (1e-4, 1.0), (0.0, 1.0)):
        scaled = v.clone()
        scaled[:, :, :256] *= first
        scaled[:, :, 256:] *= second
        run(q, k, scaled)
        run(10.0 * q, k, scaled)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_clean_in_every_schedule(schedule):
    for shape, head_dim in [((1, 2, 1, 70, 500), 64), ((1, 1, 1, 200, 300), 128)]:
        q, k, v = cases.tensors(*shape, head_dim, torch.float16)
        quantising = ops.plan_quantise(q, k, v)
        for launch in quantising.launches:
            report = launch.profile(schedule)
            assert report.ok, str(report)
        cases.assert_quantised(q, k, v, quantising.outputs)
        launch = ops.plan_fp8(quantising.outputs, k.shape[2], q.dtype, causal=True)
        report = launch.profile(schedule)
        assert report.ok, str(report)
        cases.assert_attention(quantising.outputs, k.shape[2], *launch.outputs, True)


@pytest.mark.parametrize("num_blocks", [1, 3])
def test_any_number_of_blocks_takes_all_tiles_and_leaves_the_counters_zero(num_blocks):
    q, k, v = cases.tensors(2, 3, 1, 300, 150, 64, torch.float16)
    for together in (1, 6):
        launch = run(q, k, v, causal=True, num_blocks=num_blocks, heads_together=together)
        assert torch.equal(launch.arguments[8], torch.zeros(2, dtype=torch.int32))


def test_half_the_bytes_of_16_bit_kernels():
    """K and V once a tile of queries, Q once, one byte a number; the quantising kernels read 2 bytes and write 1."""
    q, k, v = cases.tensors(1, 1, 1, 128, 256, 128, torch.float16)
    quantising = ops.plan_quantise(q, k, v)
    assert quantising.traffic()[1] == 128 * (128 + 2 * 256) + 4 * (2 + 2 + 2)
    quantising.run()
    read = ops.plan_fp8(quantising.outputs, 256, torch.float16).traffic()[0]
    threads, tiles = 256, 2  # every thread of a consumer reads the scales itself
    assert read == 128 * (128 + 2 * 256) + 4 * threads * (1 + 2 * tiles)


def test_the_whole_call_is_near_exact_attention():
    q, k, v = cases.tensors(1, 2, 1, 40, 300, 64, torch.bfloat16)
    right, right_lse = reference.attention_lse(q, k, v)
    out, lse = ops.flash_attention_3_fp8(q, k, v)
    plain, _ = ops.flash_attention_3_fp8(q, k, v, rotation=False)
    assert cases.rmse(out, right) < 0.1 * right.square().mean().sqrt()
    assert cases.rmse(out, right) < cases.rmse(plain, right)
    assert (lse - right_lse).abs().max() < 0.3


def test_what_it_cannot_take_is_refused_by_one_sentence():
    q, k, v = cases.tensors(1, 1, 1, 8, 8, 64, torch.float16)
    with pytest.raises(ShapeError, match="q is torch.float32; these kernels round float16 and bfloat16"):
        ops.flash_attention_3_fp8(q.float(), k.float(), v.float())
    with pytest.raises(ShapeError, match=r"k has the strides .*; pass k.contiguous\(\)"):
        ops.flash_attention_3_fp8(q, k.transpose(2, 3).contiguous().transpose(2, 3), v)
    with pytest.raises(UnsupportedError, match="head_dim=32; these kernels take 64 and 128"):
        ops.flash_attention_3_fp8(*(x[..., :32].contiguous() for x in (q, k, v)))
    z = ops.plan_quantise(q, k, v).outputs
    with pytest.raises(ShapeError, match=r"v_t is .* expected torch.float8_e4m3fn \(1, 1, 64, 32\)"):
        ops.plan_fp8(z._replace(k=z.k.new_zeros(1, 1, 20, 64)), 20, torch.float16)
    with pytest.raises(UnsupportedError, match="dtype=torch.float32; 08_fp8 gives float16 and bfloat16"):
        ops.plan_fp8(z, 8, torch.float32)
