"""flash_attention: right by the rule of the grader on both backends, differentiable, and a model trains with it."""

import pytest
import torch
import torch.nn.functional as F
from flash_attention_cases import SHAPES, inputs, losses, require_right, run

from course_lib.errors import ShapeError, UnsupportedError
from course_lib.ops.flash_attention_2 import _torch as plain
from course_lib.ops.flash_attention_2 import _triton as kernels
from course_lib.ops.flash_attention_2 import flash_attention, flash_attention_lse

HALF, BF16 = torch.float16, torch.bfloat16


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("backend", "dtype", "head_dim"),
    [
        ("hopper", HALF, 64),
        ("hopper", BF16, 128),
        ("triton", HALF, 64),
        ("triton", BF16, 128),
        ("triton", torch.float32, 64),
        ("torch", torch.float32, 24),
    ],  # fmt: skip
)
def test_forward_and_gradients_are_right(backend, dtype, head_dim, shape, causal):
    tensors = inputs(shape, head_dim, dtype, "cpu", spread=3.0)
    require_right(run(*tensors, causal=causal, backend=backend), *tensors, causal=causal)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp2")  # keys beyond the last: never stored
@pytest.mark.parametrize("shift", [-6.0, 6.0])
@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_scores_near_plus_and_minus_a_hundred(backend, shift):
    q, k, v, d_out = inputs((1, 2, 1, 37, 53), 64, torch.float32, "cpu")
    tensors = (0.1 * q + abs(shift) / 2, 0.1 * k + shift * 0.7, v, d_out)  # 64 products, then times 64 ** -0.5
    require_right(run(*tensors, causal=True, backend=backend), *tensors, causal=True)


@pytest.mark.parametrize("descriptors", [False, True])
def test_kernels_with_small_tiles_with_and_without_descriptors(descriptors):
    """Many tiles of both axes, a mask inside, above and below them; no cell may stay NaN."""
    tiles = kernels.Tiles(16, 32, 4, 2, heads_per_turn=3)
    for shape, causal in [((1, 4, 2, 61, 75), True), ((2, 2, 1, 61, 75), False), ((1, 2, 2, 75, 40), True)]:
        q, k, v, d_out = inputs(shape, 64, torch.float32, "cpu", spread=3.0)
        options = {"causal": causal, "softmax_scale": 0.1, "descriptors": descriptors}
        forward = kernels.plan_forward(q, k, v, tiles=tiles, **options)
        poison(forward.outputs)
        forward.run()
        both = {"dk_dv": tiles, "dq": tiles}
        backward = kernels.plan_backward(q, k, v, *forward.outputs, d_out, tiles=both, **options)
        poison(launch_output for launch in backward.launches for launch_output in launch.outputs)
        backward.run()
        results = [*forward.outputs, *backward.outputs]
        require_right(results, q, k, v, d_out, causal=causal, softmax_scale=0.1)


def poison(tensors):
    for tensor in tensors:
        tensor.fill_(torch.nan)


@pytest.mark.parametrize("backend", ["hopper", "triton", "torch"])
def test_a_row_without_keys_has_zero_output_and_gradients(backend):
    dtype = HALF if backend == "hopper" else torch.float32
    tensors = inputs((1, 2, 1, 50, 20), 64, dtype, "cpu")
    out, lse, dq, _, _ = run(*tensors, causal=True, backend=backend)
    assert (out[:, :, :30] == 0).all() and lse[:, :, :30].isneginf().all() and (dq[:, :, :30] == 0).all()
    no_keys = run(tensors[0][:, :, :30], *tensors[1:3], tensors[3][:, :, :30], causal=True, backend=backend)
    assert no_keys[0].isfinite().all()
    alone = inputs((1, 2, 1, 30, 1), 64, dtype, "cpu")
    _, _, dq, dk, dv = run(*alone, causal=True, backend=backend)
    assert all(x.isfinite().all() for x in (dq, dk, dv))


def test_the_hopper_backward_takes_the_expanded_gradient_of_a_sum_and_can_be_deterministic():
    q, k, v, _ = inputs((1, 2, 1, 40, 70), 64, HALF, "cpu")
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    flash_attention(*leaves, causal=True, backend="hopper").sum().backward()
    ones = torch.ones_like(q)
    require_right(run(q, k, v, ones, causal=True, backend="hopper"), q, k, v, ones, causal=True)
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (run(q, k, v, ones, backend="hopper") for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_strided_views_and_an_expanded_gradient(backend):
    """Heads cut out of one projection, rows far apart, a batch of stride 0, and the gradient that sum() sends."""
    q, k, v, d_out = inputs((2, 4, 2, 20, 33), 64, HALF, "cpu")
    wide = torch.randn(2, 33, 8 * 64 + 1).to(HALF)
    k, v = (wide[:, :, i * 128 : (i + 1) * 128].unflatten(-1, (2, 64)).transpose(1, 2) for i in (0, 1))
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    strided = (q, k[:1].expand(2, -1, -1, -1), v, d_out[:1, :1, :1, :1].expand_as(q))
    require_right(run(*strided, backend=backend), *(x.contiguous() for x in strided))


def test_tensors_that_a_descriptor_cannot_describe_are_recognised():
    x = torch.zeros(2, 3, 5, 64, dtype=HALF)
    assert kernels._describable(x) and kernels._describable(x.transpose(1, 2))
    assert not kernels._describable(torch.zeros(2, 3, 5, 65, dtype=HALF)[..., :64])  # rows 130 bytes apart
    assert not kernels._describable(torch.zeros(2 * 3 * 5 * 64 + 1, dtype=HALF)[1:].view(2, 3, 5, 64))  # begins on 2
    assert not kernels._describable(x[:1].expand(2, -1, -1, -1))
    assert kernels._describable(torch.zeros(1, 3, 5, 65, dtype=HALF)[:, :, :1, :64]) is False


@pytest.mark.parametrize("backend", ["triton", "torch"])
@pytest.mark.parametrize("scale", [-0.3, 0.0, 2.0])
def test_any_scale(backend, scale):
    tensors = inputs((1, 2, 1, 9, 17), 64, torch.float32, "cpu")
    results = run(*tensors, softmax_scale=scale, causal=True, backend=backend)
    require_right(results, *tensors, softmax_scale=scale, causal=True)


@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck_in_float64(causal, monkeypatch):
    monkeypatch.setattr(plain, "BLOCK", 4)  # several tiles on both axes
    q, k, v, _ = inputs((1, 4, 2, 7, 10), 3, torch.float64, "cpu")
    leaves = [x.requires_grad_() for x in (q, k, v)]
    assert torch.autograd.gradcheck(lambda *x: flash_attention(*x, causal=causal), leaves)
    q, k, v, _ = inputs((1, 2, 1, 7, 4), 3, torch.float64, "cpu")  # three rows see nothing
    leaves = [x.requires_grad_() for x in (q, k, v)]
    assert torch.autograd.gradcheck(lambda *x: flash_attention(*x, causal=True), leaves)


def test_float64_in_float64_out():
    out, lse = flash_attention_lse(*inputs((1, 2, 1, 9, 17), 8, torch.float64, "cpu")[:3])
    assert out.dtype == lse.dtype == torch.float64


def test_two_runs_give_the_same_bits():
    tensors = inputs((1, 4, 1, 70, 70), 64, HALF, "cpu")
    first, second = (run(*tensors, causal=True, backend="triton") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_grid_has_one_axis_that_may_be_long():
    """batch_size * num_heads beyond 65535 does not fit the second and third axis of a grid."""
    q = torch.zeros(70_000, 1, 1, 64, dtype=HALF)
    launch = kernels.plan_forward(q, q, q, causal=False, softmax_scale=1.0)
    assert launch.grid == (70_000,)
    launches = kernels.plan_backward(q, q, q, *launch.outputs, q, causal=False, softmax_scale=1.0).launches
    assert all(len(one.grid) == 1 for one in launches)


@pytest.mark.parametrize(("backend", "width", "num_steps"), [("torch", 32, 25), ("triton", 128, 3)])
def test_a_model_of_two_layers_trains_like_with_sdpa(backend, width, num_steps):
    """The rule of the grader, for a curve: as close to exact attention as SDPA is, times 10 for float32."""
    sizes = {"device": "cpu", "width": width, "seq_len": 40 if backend == "torch" else 20}

    def exact(q, k, v):
        return sdpa(q.double(), k.double(), v.double()).to(q.dtype)

    def sdpa(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def ours(q, k, v):
        return flash_attention(q, k, v, causal=True, backend=backend)

    best, base, got = (losses(attend, num_steps, **sizes) for attend in (exact, sdpa, ours))
    assert (got - best).abs().max() <= 10 * (base - best).abs().max() + 4 * torch.finfo(torch.float32).eps
    if backend == "torch":
        assert got[-1] < 0.5 * got[0]  # and it learns


def test_wrong_arguments_are_refused_in_words():
    q, k, v, _ = inputs((1, 4, 2, 3, 5), 64, torch.float32, "cpu")
    with pytest.raises(ShapeError, match="4 dimensions"):
        flash_attention(q[0], k, v)
    with pytest.raises(ShapeError, match="share one float type"):
        flash_attention(q, k.half(), v)
    with pytest.raises(ShapeError, match="share one float type"):
        flash_attention(q.int(), k.int(), v.int())
    with pytest.raises(ShapeError, match="one shape"):
        flash_attention(q, k, v[:, :, :2])
    with pytest.raises(ShapeError, match="batch_size and head_dim"):
        flash_attention(q[..., :32], k, v)
    with pytest.raises(ShapeError, match="num_kv_heads=2"):
        flash_attention(q[:, :3], k, v)
    with pytest.raises(UnsupportedError, match='"triton", "torch"'):
        flash_attention(q, k, v, backend="cuda")
    with pytest.raises(UnsupportedError, match="64 and 128"):
        flash_attention(q[..., :32], k[..., :32], v[..., :32], backend="triton")
    with pytest.raises(UnsupportedError, match="float16, bfloat16 and float32"):
        flash_attention(q.double(), k.double(), v.double(), backend="triton")
