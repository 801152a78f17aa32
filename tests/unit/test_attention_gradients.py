"""The oracle of attention's gradients: against autograd, over groups of heads, with rows that see nothing."""

import math

import pytest
import torch

from course_lib.reference.attention import attention, attention_lse
from course_lib.reference.attention_gradients import (
    attention_gradients,
    gradients_from_lse,
    rounded_attention_gradients,
)


def tensors(num_heads=4, num_kv_heads=2, num_q=7, num_kv=5, head_dim=6, dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)
    shapes = [
        (2, num_heads, num_q, head_dim),
        *[(2, num_kv_heads, num_kv, head_dim)] * 2,
        (2, num_heads, num_q, head_dim),
    ]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize("heads", [(1, 1), (4, 2), (6, 1)])
@pytest.mark.parametrize("lengths", [(1, 1), (7, 5), (3, 9)])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_without_a_mask_autograd_says_the_same(heads, lengths, scale):
    q, k, v, d_out = tensors(*heads, *lengths)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    wanted = torch.autograd.grad(attention(*leaves, softmax_scale=scale), leaves, d_out)
    for got, want in zip(attention_gradients(q, k, v, d_out, softmax_scale=scale), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-13)


def test_causal_autograd_says_the_same_where_every_row_sees_a_key():
    q, k, v, d_out = tensors(num_q=5, num_kv=8)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    wanted = torch.autograd.grad(attention(*leaves, causal=True), leaves, d_out)
    for got, want in zip(attention_gradients(q, k, v, d_out, causal=True), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-13)


def test_rows_that_see_nothing_give_and_get_nothing():
    q, k, v, d_out = tensors(num_q=7, num_kv=5)  # queries 0 and 1 see no key
    d_q, d_k, d_v = attention_gradients(q, k, v, d_out, causal=True)
    assert bool((d_q[:, :, :2] == 0).all()) and bool(d_q[:, :, 2:].abs().sum(-1).gt(0).any())
    d_out[:, :, :2] = 1e6
    again = attention_gradients(q, k, v, d_out, causal=True)
    for first, second in zip((d_q, d_k, d_v), again, strict=True):
        assert torch.equal(first, second) and bool(torch.isfinite(first).all())


def test_the_gradients_are_float64_and_the_rounded_ones_keep_their_dtype():
    inputs = tensors(dtype=torch.float16)
    exact, rounded = attention_gradients(*inputs, causal=True), rounded_attention_gradients(*inputs, causal=True)
    for one, other, like in zip(exact, rounded, inputs, strict=False):
        assert one.dtype == torch.float64 and other.dtype == torch.float16 and one.shape == other.shape == like.shape
        assert 0 < (one - other.double()).abs().max() < 0.05


@pytest.mark.parametrize("causal", [False, True])
def test_from_exact_out_and_lse_come_the_same_gradients(causal):
    q, k, v, d_out = tensors(num_q=7, num_kv=5)
    out, lse = attention_lse(q, k, v, causal=causal)
    wanted = attention_gradients(q, k, v, d_out, causal=causal)
    for got, want in zip(gradients_from_lse(q, k, v, out, lse, d_out, causal=causal), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-13)


def test_out_and_lse_are_taken_as_they_are():
    q, k, v, d_out = tensors()
    out, lse = attention_lse(q, k, v)
    d_v = gradients_from_lse(q, k, v, out, lse, d_out)[2]
    halved = gradients_from_lse(q, k, v, out, lse + math.log(2.0), d_out)[2]
    torch.testing.assert_close(2.0 * halved, d_v)
    d_q, without = (gradients_from_lse(q, k, v, x, lse, d_out)[0] for x in (out, torch.zeros_like(out)))
    assert not torch.allclose(d_q, without)
