"""The ladder of kernels_cu/flash_attention_3: right for any sizes and strides, clean in every schedule, and each step
changes what it says."""

import functools
import math

import pytest
import torch

from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops import flash_attention_3
from tests.simt.test_flash_attention_2 import SCHEDULES, assert_clean, large_scores, ran_right, strided, tensors

LADDER = flash_attention_3.VARIANTS
WITH_TMA = LADDER[1:]
# batch, heads, kv heads, queries, keys
SHAPES = [(1, 1, 1, 1, 1), (1, 4, 2, 37, 53), (2, 3, 1, 50, 20), (1, 1, 1, 3, 150), (1, 1, 1, 200, 130)]
SHAPES += [(1, 1, 1, 9, 127), (1, 1, 1, 65, 129)]  # one key less, one more than whole tiles


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def run(q, k, v, **options):
    return ran_right(flash_attention_3.plan, q, k, v, **options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
@pytest.mark.parametrize("variant", LADDER)
def test_any_sizes(variant, head_dim, dtype, causal):
    for shape in SHAPES:
        run(*tensors(*shape, head_dim, dtype), variant=variant, causal=causal)


@pytest.mark.parametrize("variant", LADDER)
def test_a_row_without_keys_is_zero(variant):
    q, k, v = tensors(1, 1, 1, 250, 20)
    out, lse = run(q, k, v, variant=variant, causal=True).outputs
    assert torch.all(out[:, :, :230] == 0) and torch.all(lse[:, :, :230] == -math.inf)  # more than a whole tile of rows


@pytest.mark.parametrize("variant", LADDER)
def test_large_scores_and_those_that_grow(variant):
    """A new maximum in every tile, by more and by less than 06 waits for; scores near +-1000."""
    for inputs, softmax_scale in large_scores():
        run(*inputs, variant=variant, softmax_scale=softmax_scale)


@pytest.mark.parametrize("variant", LADDER)
def test_strides(variant):
    """(batch, seq, head, dim) seen as (batch, head, seq, dim); one head for all; rows with a gap that holds NaN."""
    run(*strided(*tensors(2, 4, 2, 40, 50)), variant=variant, causal=True)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("variant", LADDER)
def test_clean_in_every_schedule(variant, schedule):
    """Three tiles and a rest, so that the ring wraps; grouped heads; rows that see nothing; two tiles of rows."""
    for shape, head_dim in [((1, 2, 1, 70, 400), 64), ((1, 1, 1, 200, 140), 128)]:
        q, k, v = tensors(*shape, head_dim)
        assert_clean(flash_attention_3.plan(q, k, v, variant=variant, causal=True), q, k, v, schedule)


@pytest.mark.parametrize("num_blocks", [1, 3, 7])
def test_any_number_of_persistent_blocks_takes_all_tiles_and_leaves_the_counters_zero(num_blocks):
    q, k, v = tensors(2, 3, 1, 300, 150)
    for together in (1, 2, 6):
        launch = run(q, k, v, variant="07_persistent", causal=True, num_blocks=num_blocks, heads_together=together)
        assert torch.equal(launch.arguments[5], torch.zeros(2, dtype=torch.int32))


@functools.cache
def profile(variant, head_dim):
    return flash_attention_3.plan(*tensors(1, 1, 1, 192, 256, head_dim), variant=variant).profile()


@pytest.mark.parametrize("head_dim", [64, 128])
def test_every_step_writes_out_and_lse_once_and_reads_k_and_v_once_a_tile_of_queries(head_dim):
    for variant in LADDER:
        rows = 64 if variant in ("01_wgmma", "02_tma_ring") else {64: 192, 128: 128}[head_dim]
        tiles = -(-192 // rows)
        counted = profile(variant, head_dim)
        assert counted.global_load.bytes == 2 * head_dim * (192 + tiles * 2 * 256), variant
        zeroed = 8 if variant == "07_persistent" else 0  # its counters
        assert counted.global_store.bytes == 2 * head_dim * 192 + 4 * 192 + zeroed, variant


def test_what_tma_cannot_take_is_refused_by_one_sentence():
    q, k, v = tensors(1, 1, 1, 40, 50)
    odd = torch.zeros(1, 1, 40, 68, dtype=torch.float16)[..., :64]  # rows 136 bytes apart
    with pytest.raises(ShapeError, match=r"q has the strides .* multiples: strides of 8 elements"):
        flash_attention_3.flash_attention_3(odd, k, v)
    shifted = torch.zeros(1 + k.numel(), dtype=torch.float16)[1:].view(k.shape)
    with pytest.raises(ShapeError, match="k has the strides .* starts 2 bytes past"):
        flash_attention_3.flash_attention_3(q, shifted, v)
    with pytest.raises(UnsupportedError, match="no Triton twin; no step of flash_attention_3 has one"):
        flash_attention_3.flash_attention_3(q, k, v, language="triton")
    with pytest.raises(UnsupportedError, match="head_dim=80; these kernels take 64 and 128"):
        flash_attention_3.flash_attention_3(*(torch.zeros(1, 1, 8, 80, dtype=torch.float16) for _ in range(3)))
    with pytest.raises(ShapeError, match=r"q is torch.float32; these kernels take float16 and bfloat16"):
        flash_attention_3.flash_attention_3(q.float(), k.float(), v.float())
    assert not flash_attention_3.runs_on(q, k, v)  # no Hopper here: ops.flash_attention takes another kernel


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "causal", "step"),
    [
        (64, 1024, True, "02_tma_ring"),
        (64, 1025, True, "07_persistent"),
        (64, 1024, False, "07_persistent"),
        (128, 64, True, "07_persistent"),
    ],
)
def test_few_rows_under_a_causal_mask_take_the_step_of_small_tiles(head_dim, seq_len, causal, step):
    q = torch.zeros(1, 1, seq_len, head_dim, dtype=torch.float16)
    launch, named = (flash_attention_3.plan(q, q, q, causal=causal, variant=variant) for variant in (None, step))
    assert launch.function is named.function and launch.block == named.block
