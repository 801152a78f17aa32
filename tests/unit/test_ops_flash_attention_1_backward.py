"""FlashAttention-1 backward: both twins against torch's autograd in float64, by the grader's tolerance rule."""

import math

import pytest
import torch

from course_lib.device import has_gpu
from course_lib.errors import ShapeError, UnsupportedError
from course_lib.grading.exercise.magnitude import of_pairs
from course_lib.grading.judge.comparison import compare
from course_lib.ops import flash_attention_1 as forward_ops
from course_lib.ops import flash_attention_1_backward as ops
from course_lib.reference.attention import attention_lse, of_each_query_head, visible_keys
from course_lib.reference.attention_gradients import gradient_terms

WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
# batch, heads, kv heads, queries, keys, head_dim
SHAPES = [
    (2, 4, 2, 9, 17, 8),
    (1, 8, 1, 1, 40, 16),
    (1, 3, 1, 37, 53, 20),
    (1, 2, 2, 50, 20, 16),
    (2, 6, 3, 16, 33, 64),
]
TILES = {"cuda": {"block_m": 8, "block_n": 16}, "triton": {"block_m": 16, "block_n": 16}}  # tl.dot begins at 16


def tensors(batch, heads, kv_heads, num_q, num_kv, head_dim, shift=0.0):
    """q, k, v, d_out; `shift` moves all scores to about that number."""
    generator = torch.Generator().manual_seed(num_q + num_kv)
    rows = [(heads, num_q), (kv_heads, num_kv), (kv_heads, num_kv), (heads, num_q)]
    q, k, v, d_out = (torch.randn(batch, *row, head_dim, generator=generator) for row in rows)
    q = 2.0 * q
    if shift:
        q[..., -1], k[..., -1] = head_dim**0.5, shift
    return q, k, v, d_out


def by_autograd(q, k, v, d_out, causal):
    """(dq, dk, dv) in the dtype of the arguments, by the definition; a row that sees no key has the output 0."""
    q, k, v = (tensor.detach().requires_grad_() for tensor in (q, k, v))
    scores = q @ of_each_query_head(k, q).mT * q.shape[-1] ** -0.5
    visible = visible_keys(*scores.shape[-2:]) if causal else torch.ones(scores.shape[-2:], dtype=torch.bool)
    some = visible.any(dim=1, keepdim=True)
    probs = torch.softmax(scores.masked_fill(~visible & some, -math.inf), dim=-1)
    out = torch.where(some, probs, 0.0) @ of_each_query_head(v, q)
    return torch.autograd.grad(out, (q, k, v), d_out)


def given(q, k, v, d_out, causal, language):
    """(dq, dk, dv) of a twin, from NaN in every output, on the CPU."""
    q, k, v, d_out = (tensor.to(WHERE) for tensor in (q, k, v, d_out))
    out, lse = forward_ops.flash_attention_1(q, k, v, causal=causal)
    launches = ops.plan(q, k, v, out, lse, d_out, causal=causal, language=language, **TILES[language])
    for launch in launches.launches:
        for tensor in launch.outputs:
            tensor.fill_(math.nan)
    launches.run()
    return [tensor.cpu() for tensor in launches.outputs]


def assert_right(inputs, causal, language):
    q, k, v, d_out = inputs
    want = by_autograd(*(tensor.double() for tensor in inputs), causal)
    base = by_autograd(*inputs, causal)
    terms = gradient_terms(q, k, v, *attention_lse(q, k, v, causal=causal), d_out, causal=causal)
    results = zip(("dq", "dk", "dv"), given(*inputs, causal, language), want, base, terms, strict=True)
    for name, got, ref, plain, sums in results:
        score = of_pairs(q, k, causal=causal)
        result = compare(got, ref, plain, torch.float32, "backward", largest_score=score, terms=sums)
        assert result.passed, f"{name}: {result.kind}, (error, allowed) {result.nearest}"


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_right(shape, causal, language):
    assert_right(tensors(*shape), causal, language)


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("shift", [-100.0, 100.0])
def test_scores_of_plus_and_minus_100(shift, language):
    assert_right(tensors(1, 2, 1, 37, 53, 16, shift), True, language)


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_one_key_has_the_weight_1_whatever_its_score(language):
    inputs = tensors(1, 1, 1, 1, 1, 16)
    dq, dk, dv = given(*inputs, False, language)
    assert max(dq.abs().max(), dk.abs().max()) <= 2e-6  # exactly 0, where no term is rounded
    torch.testing.assert_close(dv, inputs[3], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_a_row_without_keys_adds_nothing(language):
    q, k, v, d_out = tensors(1, 2, 1, 12, 5, 16)
    d_out[:, :, :7] = 1e30  # the first 7 queries see no key
    dq, dk, dv = given(q, k, v, d_out, True, language)
    assert (dq[:, :, :7] == 0).all()
    _, dk_seen, dv_seen = by_autograd(q[:, :, 7:].double(), k.double(), v.double(), d_out[:, :, 7:].double(), True)
    torch.testing.assert_close(dk.double(), dk_seen, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dv.double(), dv_seen, rtol=1e-5, atol=1e-5)


def test_the_default_tiles_take_head_dim_64_and_a_scale():
    q, k, v, d_out = (tensor.to(WHERE) for tensor in tensors(1, 2, 1, 40, 70, 64))
    out, lse = forward_ops.flash_attention_1(q, k, v, softmax_scale=0.25)
    for language in ("cuda", "triton"):
        grads = ops.flash_attention_1_backward(q, k, v, out, lse, d_out, softmax_scale=0.25, language=language)
        want = by_autograd(*(tensor.double().cpu() for tensor in (2.0 * q, k, v, d_out)), False)  # 2 / sqrt(64) = 0.25
        for got, ref, factor in zip(grads, want, (2.0, 1.0, 1.0), strict=True):
            torch.testing.assert_close(got.double().cpu(), factor * ref, rtol=1e-5, atol=2e-5)


def test_wrong_arguments_are_refused_in_words():
    q, k, v, d_out = tensors(1, 2, 1, 3, 4, 8)
    lse = q.new_zeros(1, 2, 3)
    with pytest.raises(ShapeError, match="d_out has the shape"):
        ops.plan(q, k, v, q, lse, d_out[:, :1])
    with pytest.raises(ShapeError, match="lse must be contiguous torch.float32; it is torch.float64"):
        ops.plan(q, k, v, q, lse.double(), d_out)
    with pytest.raises(ShapeError, match="num_kv_heads=2"):
        ops.plan(torch.zeros(1, 3, 3, 8), q, q, q, lse, d_out)
    with pytest.raises(UnsupportedError, match='"cuda" or "triton"'):
        ops.plan(q, k, v, q, lse, d_out, language="mojo")
