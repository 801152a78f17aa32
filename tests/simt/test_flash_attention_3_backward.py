"""flash_attention_3_backward: right for any sizes and strides, clean in every schedule; every mistake is found."""

import math

import pytest
import torch

from course_lib import cuda
from course_lib.cuda.source import KERNELS_ROOT
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops.flash_attention_3 import _backward as ops
from course_lib.reference import attention as reference
from tests.simt.flash_attention_3_mutants import IN_FLIGHT, NO_FENCE, NOT_LANDED, READ
from tests.simt.test_flash_attention_2 import SCHEDULES
from tests.simt.test_flash_attention_2_backward import gradients

# batch, heads, kv heads, queries, keys: less than a tile, grouped heads, several tiles and a rest of both
SHAPES = [
    (1, 1, 1, 1, 1),
    (1, 4, 2, 37, 53),
    (2, 3, 1, 150, 20),
    (1, 1, 1, 9, 127),
    (1, 1, 1, 65, 129),
    (1, 2, 1, 300, 200),
]
SEQ_LEN_Q = {64: 530, 128: 270}  # four tiles and a rest, more than a ring has stages
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}  # of the largest gradient


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def tensors(
    batch, heads, kv_heads, num_q, num_kv, head_dim=64, dtype=torch.float16, *, causal=False, scale=1.0, shift=0.0
):
    """q, k, v, out, lse, d_out; out and lse are the rounded float64 ones. All scores move by about `shift`."""
    generator = torch.Generator().manual_seed(num_q + num_kv)
    shapes = [(heads, num_q), (kv_heads, num_kv), (kv_heads, num_kv), (heads, num_q)]
    q, k, v, d_out = (torch.randn(batch, *shape, head_dim, generator=generator).to(dtype) for shape in shapes)
    q = (q.float() * scale).to(dtype)
    if shift:
        q[..., -1], k[..., -1] = head_dim**0.5, shift
    out, lse = reference.attention_lse(q, k, v, causal=causal)
    return q, k, v, out.to(dtype), lse.float(), d_out


def assert_right(inputs, outputs, causal):
    q, k, v, _, _, d_out = inputs
    right = gradients(q, k, v, d_out, causal)
    largest = max(wanted.abs().max() for wanted in right).clamp_min(1e-3)
    for name, got, wanted in zip(("dq", "dk", "dv"), outputs, right, strict=True):
        assert (got.double() - wanted).abs().max() <= TOLERANCE[q.dtype] * largest, name


def run(inputs, *, causal=False, **options):
    launches = ops.plan_backward(*inputs, causal=causal, **options)
    for output in launches.outputs:
        output.fill_(math.nan)
    launches.run()
    assert_right(inputs, launches.outputs, causal)
    return launches


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (128, torch.bfloat16)])
def test_any_sizes(head_dim, dtype, causal):
    for shape in SHAPES:
        run(tensors(*shape, head_dim, dtype, causal=causal), causal=causal)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_a_row_without_keys_has_no_gradient(head_dim):
    launches = run(tensors(1, 1, 1, 250, 20, head_dim, causal=True), causal=True)
    assert torch.all(launches.outputs[0][:, :, :230] == 0)  # more than a whole tile of rows


@pytest.mark.parametrize("together", [1, 2, 5])
def test_heads_side_by_side(together):
    run(tensors(2, 3, 3, 70, 300, causal=True), causal=True, heads_together=together)


def test_large_scores():
    """Near +-300: one key takes most of a row, and probabilities vanish below the smallest half."""
    run(tensors(1, 2, 1, 150, 140, 128, scale=100.0))


@pytest.mark.parametrize("head_dim", [64, 128])
def test_scores_far_below_zero(head_dim):
    """A key past the last one has the score 0: its probability, exp(-lse), overflows unless it is masked."""
    run(tensors(1, 1, 1, 70, 50, head_dim, shift=-30.0))


def test_strides():
    """(batch, seq, head, dim) seen as (batch, head, seq, dim); one head for all; rows with a gap that holds NaN."""
    q, k, v, out, lse, d_out = tensors(2, 4, 2, 40, 50, causal=True)
    q, k, out, d_out = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, out, d_out))
    v, d_out = (torch.cat([x, torch.full_like(x, math.nan)], dim=3)[..., :64] for x in (v, d_out))
    assert not any(x.is_contiguous() for x in (q, k, v, out, d_out))
    run((q, k, v, out, lse, d_out), causal=True)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("head_dim", [64, 128])
def test_clean_in_every_schedule(head_dim, schedule):
    """Tiles and a rest, so that both rings wrap: the first keys are seen by all queries; grouped heads."""
    inputs = tensors(1, 2, 1, SEQ_LEN_Q[head_dim], SEQ_LEN_Q[head_dim] - 20, head_dim, causal=True)
    launches = ops.plan_backward(*inputs, causal=True)
    for launch in launches.launches:
        report = launch.profile(schedule)
        assert report.ok, str(report)
    assert_right(inputs, launches.outputs, True)


def test_what_the_kernels_cannot_take_is_refused_by_one_sentence():
    q, k, v, out, lse, d_out = tensors(1, 1, 1, 40, 50)
    with pytest.raises(ShapeError, match=r"d_out is \(1, 1, 39, 64\).*must be like q"):
        ops.plan_backward(q, k, v, out, lse, d_out[:, :, 1:])
    with pytest.raises(ShapeError, match="out is .* torch.float32 on cpu; it must be like q"):
        ops.plan_backward(q, k, v, out.float(), lse, d_out)
    with pytest.raises(ShapeError, match="lse is .* expected .* float32, contiguous"):
        ops.plan_backward(q, k, v, out, lse.double(), d_out)
    odd = torch.zeros(1, 1, 40, 68, dtype=torch.float16)[..., :64]  # rows 136 bytes apart
    with pytest.raises(ShapeError, match="d_out has the strides .* multiples: strides of 8 elements"):
        ops.plan_backward(q, k, v, out, lse, odd)
    with pytest.raises(ShapeError, match=r"d_out has the strides \(\d+, 0, .* none 0"):
        ops.plan_backward(*tensors(1, 2, 1, 40, 50)[:-1], d_out.expand(1, 2, 40, 64))
    with pytest.raises(UnsupportedError, match="finite number above 0"):
        ops.plan_backward(q, k, v, out, lse, d_out, softmax_scale=-1.0)


WAIT_Q = "if (!last) mbarrier_wait_parity(&barriers.q_full[next_stage], q_ring.parity);"
WAIT_Q_64 = WAIT_Q.replace("next_stage", "q_ring.stage")
WAIT_D_OUT = "mbarrier_wait_parity(&barriers.d_out_full[d_out_ring.stage], d_out_ring.parity);"
LAST_WAIT = "wgmma_wait_group<0>();\n    wgmma_keep_order(dk);\n    named"
Q_BEFORE = "q_before = &barriers.q_empty[stage == 0 ? Q_STAGES - 1 : stage - 1];"
DS_READY = "named_barrier_sync(DS_READY, 128 * NUM_CONSUMERS);  // separates the writes of dS"
STORE_FENCE = "fence_proxy_async();                         // the stores read"
LAST_K = DS_READY.replace("writes of dS", "last reads of K")

AFTER_WAIT = ("nothing orders this after a wait for its group",)
NO_BARRIER = ("no barrier between",)
WRONG_NUMBERS = ("wrong numbers",)  # no rule is broken
# name -> (head_dim, words of the finding, find, replace)
MUTANTS = {
    "no wait for Q": (128, NOT_LANDED, WAIT_Q, ""),
    "no wait for Q, late": (64, NOT_LANDED, WAIT_Q_64, ""),
    "no wait for dO": (128, NOT_LANDED, WAIT_D_OUT, ""),
    "no wait for V": (128, NOT_LANDED, "mbarrier_wait_parity(&barriers.v_full, 0);", ""),
    "no wait for K": (128, NOT_LANDED, "mbarrier_wait_parity(&barriers.k_full, 0);", ""),
    "stats without bytes": (128, ("bytes",), "Q_BYTES + sizeof(RowStats<BLOCK_M>)", "Q_BYTES"),
    "no wait for dP": (128, IN_FLIGHT, "wgmma_wait_group<0>();  // dP, and", "//"),
    "no wait for dK": (64, AFTER_WAIT, "wgmma_wait_group<1>();  // dK of", "//"),
    "no wait for dQ": (128, IN_FLIGHT, "wgmma_wait_group<1>();  // all but", "//"),
    "no last wait": (128, IN_FLIGHT, LAST_WAIT, "named"),
    "another Q released": (128, ("wait forever",), Q_BEFORE, "q_before = &barriers.q_empty[stage];"),
    "dS without a fence": (128, NO_FENCE, "fence_proxy_async();  // wgmma reads", "//"),
    "dS without a barrier": (128, NO_BARRIER, DS_READY, "//"),
    "one stage of dS": (128, READ + NO_BARRIER, "ds_stage = i % NUM_STAGES", "ds_stage = 0"),
    "dQ without a fence": (128, NO_FENCE, "fence_proxy_async();  // the reduction", "//"),
    "dQ read late": (128, ("bulk reduction", "which the bulk"), "if (elected) bulk_wait_group_read<0>();", ""),
    "dK over K": (128, READ + NO_BARRIER, LAST_K, "//"),
    "dK without a fence": (128, NO_FENCE, STORE_FENCE, "//"),
    "no mask at the end": (128, WRONG_NUMBERS, "cut || keys.kv_start + BLOCK_N > seq_len_kv", "cut"),
    "no mask at the diagonal": (64, WRONG_NUMBERS, "cut || keys", "keys"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mistake_is_found_in_every_schedule(name):
    head_dim, says, find, replace = MUTANTS[name]
    causal = name != "no mask at the end"  # the diagonal cuts the last keys
    num_q, shift = SEQ_LEN_Q[head_dim], 0.0 if causal else -30.0
    inputs = tensors(1, 1, 1, num_q, num_q - 20, head_dim, causal=causal, shift=shift)
    text = (KERNELS_ROOT / f"{ops.STEM_BACKWARD}.cu").read_text(encoding="utf-8")
    assert text.count(find) == 1, find
    for schedule in SCHEDULES:
        launches = ops.plan_backward(*inputs, causal=causal)
        first, walk, final = launches.launches
        first.run()
        defines = {"HEAD_DIM": head_dim, "ELEMENT": "__half"}
        kernel = cuda.compile(
            text.replace(find, replace), "gradients_kernel", defines=defines, filename="mutant.cu", checked=True
        )
        options = {"shared_bytes": walk.shared_bytes, "outputs": walk.outputs, "schedule": schedule}
        report = kernel.profile(walk.grid, walk.block, *walk.arguments, **options)
        if report.ok:
            final.run()
            assert says == WRONG_NUMBERS, (schedule, "no finding")
            with pytest.raises(AssertionError):
                assert_right(inputs, launches.outputs, causal)
            continue
        found = [str(finding.message) for finding in report.findings]
        assert any(words in text for words in says for text in found), (schedule, found)
