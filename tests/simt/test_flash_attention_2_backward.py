"""01_two_walks: right at ragged sizes, clean in every schedule, its traffic the formula of chapter 07."""

import math

import pytest
import torch

from course_lib import cuda
from course_lib.errors import ShapeError
from course_lib.ops import flash_attention_2 as ops
from course_lib.reference import attention as reference

SMALL = {"block_m": 8, "block_n": 16}
# batch, heads, kv heads, queries, keys, head_dim
SHAPES = [(1, 1, 1, 1, 1, 16), (2, 4, 2, 9, 17, 8), (1, 6, 2, 37, 53, 20), (1, 2, 2, 50, 20, 40), (1, 2, 1, 16, 32, 64)]
BARRIERS = (
    "old Q and dO tile",
    "old K and V tile",
    "the writes of all tiles",
    "of its queries",
    "of its keys",
    "next key",
    "next row",
)


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def tensors(batch, heads, kv_heads, num_q, num_kv, head_dim, *, causal):
    """q, k, v, out, lse, d_out in float32; out and lse are the rounded float64 ones."""
    generator = torch.Generator().manual_seed(num_q + num_kv)
    shapes = [(heads, num_q), (kv_heads, num_kv), (kv_heads, num_kv), (heads, num_q)]
    q, k, v, d_out = (torch.randn(batch, *shape, head_dim, generator=generator) for shape in shapes)
    out, lse = reference.attention_lse(2 * q, k, v, causal=causal)
    return 2 * q, k, v, out.float(), lse.float(), d_out


def gradients(q, k, v, d_out, causal):
    """dq, dk, dv in float64 by torch's own autograd; a row without a key is left out, it has no gradient."""
    leaves = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    scores = leaves[0] @ leaves[1].repeat_interleave(group, 1).mT * q.shape[3] ** -0.5
    rows, keys = torch.arange(q.shape[2]), torch.arange(k.shape[2])
    seen = (keys[None] <= rows[:, None] + k.shape[2] - q.shape[2]) | (not causal)
    alive = seen.any(1)
    weights = torch.softmax(scores[:, :, alive].masked_fill(~seen[alive], -math.inf), -1)
    out = weights @ leaves[2].repeat_interleave(group, 1)
    return torch.autograd.grad(out, leaves, d_out[:, :, alive].double())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_right(shape, causal):
    q, k, v, out, lse, d_out = tensors(*shape, causal=causal)
    launches = ops.plan_backward(q, k, v, out, lse, d_out, causal=causal, **SMALL)
    for launch in launches.launches:
        for tensor in launch.outputs:
            tensor.fill_(math.nan)
    launches.run()
    for name, got, wanted in zip(("dq", "dk", "dv"), launches.outputs, gradients(q, k, v, d_out, causal), strict=True):
        assert (got - wanted).abs().max() <= 2e-5, name


@pytest.mark.parametrize("shift", [-100.0, 100.0])
def test_large_scores(shift):
    q, k, v, _, _, d_out = tensors(1, 2, 1, 37, 53, 20, causal=True)
    q[..., -1], k[..., -1] = 20**0.5, shift
    out, lse = (tensor.float() for tensor in reference.attention_lse(q, k, v, causal=True))
    got = ops.flash_attention_2_backward(q, k, v, out, lse, d_out, causal=True)
    for mine, wanted in zip(got, gradients(q, k, v, d_out, True), strict=True):
        assert (mine - wanted)[..., :-1].abs().max() <= 1e-4
        # the last column of k is 100, and an lse near 100 carries an error of up to an ulp, 8e-6, into each weight
        assert (mine - wanted)[..., -1].abs().max() <= 4 * 100 * 8e-6


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_free_of_findings(schedule):
    for shape in [(1, 4, 2, 19, 37, 40), (1, 2, 1, 37, 19, 8)]:
        launches = ops.plan_backward(*tensors(*shape, causal=True), causal=True, **SMALL)
        for launch in launches.launches:
            report = launch.profile(schedule)
            assert report.ok, report


@pytest.mark.parametrize("barrier", BARRIERS)
def test_each_barrier_is_needed(barrier):
    launches = ops.plan_backward(*tensors(1, 1, 1, 19, 37, 20, causal=False), block_m=8, block_n=16)
    found = []
    for launch in launches.launches:
        launch.run()  # row_dot is an input of the others
        kernel = launch.function
        lines = ["" if "sync" in line and barrier in line else line for line in kernel.source.splitlines()]
        broken = cuda.compile("\n".join(lines), kernel.name, defines=kernel.defines, checked=True)
        for schedule in ("forward", "random"):
            report = broken.profile(
                launch.grid, launch.block, *launch.arguments, outputs=launch.outputs, schedule=schedule
            )
            found += report.races
    assert found


@pytest.mark.parametrize("causal", [False, True])
def test_traffic_is_the_formula_of_the_chapter(causal):
    heads, kv_heads, num_q, num_kv, d = 4, 2, 40, 50, 16
    read, written = ops.plan_backward(
        *tensors(1, heads, kv_heads, num_q, num_kv, d, causal=causal), causal=causal, **SMALL
    ).traffic()
    offset = num_kv - num_q
    rows_read = keys_read = 0
    for kv_start in range(0, num_kv, 16):
        first = max(kv_start - offset, 0) // 8 * 8 if causal else 0
        rows_read += num_q - first
    for q_start in range(0, num_q, 8):
        seen = min(q_start + 8 + offset, num_kv) if causal else num_kv
        keys_read += min(math.ceil(seen / 16) * 16, num_kv)
    row_dot = heads * num_q * 2 * d
    dk_dv = 2 * kv_heads * num_kv * d + heads * rows_read * (2 * d + 2)
    dq = heads * num_q * (2 * d + 2) + heads * keys_read * 2 * d
    assert read == 4 * (row_dot + dk_dv + dq)
    assert written == 4 * (heads * num_q * (1 + d) + 2 * kv_heads * num_kv * d)


def test_two_runs_give_the_same_bits():
    given = tensors(2, 4, 2, 37, 53, 20, causal=True)
    first, second = (ops.flash_attention_2_backward(*given, causal=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_wrong_arguments_are_refused_in_words():
    q, k, v, out, lse, d_out = tensors(1, 2, 1, 4, 4, 8, causal=False)
    with pytest.raises(ShapeError, match="lse has the shape"):
        ops.plan_backward(q, k, v, out, lse[:, :1], d_out)
    with pytest.raises(ShapeError, match="d_out must be contiguous"):
        ops.plan_backward(q, k, v, out, lse, d_out.double())
    with pytest.raises(ShapeError, match="num_kv_heads"):
        ops.plan_backward(q[:, :1].contiguous(), k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1), out, lse, d_out)
