"""Gradients of RMSNorm and LayerNorm: both twins, any width, blocks that share rows, same bits twice, bytes."""

import pytest
import torch
from norm_cases import assert_near, rows, vector

from course_lib.device import has_gpu
from course_lib.errors import ShapeError
from course_lib.ops import norm_backward as ops
from course_lib.reference import norm as reference

LANGUAGES = ("cuda", "triton")
WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
SIZES = [(5, 1), (7, 8), (9, 33), (5, 1000), (3, 8200)]  # the last: more than a thread keeps of float32


def inputs(num_rows, num_cols, dtype=torch.float32):
    """(d_out, x, weight), rows of d_out a stride apart."""
    d_out = rows(num_rows, num_cols, dtype, seed=1, device=WHERE, stride=num_cols + 8)
    return d_out, rows(num_rows, num_cols, dtype, mean=0.5, device=WHERE), vector(num_cols, dtype, device=WHERE)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_right(size, dtype, language):
    d_out, x, weight = inputs(*size, dtype)
    right = reference.rms_norm_backward(d_out, x, weight, 1e-6)
    both = reference.layer_norm_backward(d_out, x, weight, 1e-5)
    for num_blocks in (None, 2):  # one row a block, and several
        options = {"num_blocks": num_blocks, "language": language}
        for got, want in zip(ops.rms_norm_backward(d_out, x, weight, **options), right, strict=True):
            assert_near(got, want, dtype)
        for got, want in zip(ops.layer_norm_backward(d_out, x, weight, **options), both, strict=True):
            assert_near(got, want, dtype)


def test_the_reference_is_what_autograd_gives():
    d_out, x, weight = (tensor.double() for tensor in inputs(4, 33))
    for forward, backward, extra in (
        (reference.rms_norm, reference.rms_norm_backward, ()),
        (reference.layer_norm, reference.layer_norm_backward, (torch.zeros(33, dtype=torch.double, device=WHERE),)),
    ):
        leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, *extra)]
        wants = torch.autograd.grad((forward(*leaves, 1e-3) * d_out).sum(), leaves)
        for got, want in zip(backward(d_out, x, weight, 1e-3), wants, strict=True):
            assert torch.allclose(got, want, atol=1e-12)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_residual_and_in_place(language):
    d_out, x, weight = inputs(5, 96)
    d_residual = rows(5, 96, seed=7, device=WHERE)
    dx, _ = reference.rms_norm_backward(d_out, x, weight, 1e-6)
    got, _ = ops.rms_norm_backward(d_out, x, weight, d_residual=d_residual, out=d_out, language=language)
    assert got is d_out
    assert_near(got, dx + d_residual.double(), torch.float32)


@pytest.mark.parametrize("language", LANGUAGES)
def test_blocks_without_a_row_leave_zeros(language):
    inputs_ = inputs(3, 8200)
    for gradient in (ops.rms_norm_backward, ops.layer_norm_backward):
        few, many = (gradient(*inputs_, num_blocks=blocks, language=language) for blocks in (3, 7))
        assert all(torch.equal(a, b) for a, b in zip(few, many, strict=True))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_bits_twice(language):
    inputs_ = inputs(50, 33)
    for gradient in (ops.rms_norm_backward, ops.layer_norm_backward):
        first, second = (gradient(*inputs_, num_blocks=3, language=language) for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("language", LANGUAGES)
def test_traffic_is_two_reads_and_one_write_and_the_partial_sums(language):
    """And the weight: once a row; in CUDA by 04 once a block, by 05 twice a row."""
    _, x, weight = inputs(6, 1000, torch.float16)
    moved, vector_bytes = x.numel() * 2, 1000 * 4
    for num_sums, weights, plan in ((1, 2, ops.plan_rms_norm_backward), (2, 12, ops.plan_layer_norm_backward)):
        walk, sums = plan(x.clone(), x, weight, num_blocks=2, language=language).launches
        assert walk.outputs[1].shape == (num_sums, 2, 1000)
        weight_bytes = (weights if language == "cuda" else 6) * 1000 * 2
        assert walk.traffic() == (2 * moved + weight_bytes, moved + num_sums * 2 * vector_bytes)
        assert sums.traffic() == (num_sums * 2 * vector_bytes, num_sums * 1000 * 2)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_cuda_kernels_are_free_of_findings(schedule):
    for num_cols, dtype in (
        (120, torch.float16),
        (500, torch.float32),
        (4101, torch.bfloat16),
    ):  # the last: beyond what a thread keeps
        for plan in (ops.plan_rms_norm_backward, ops.plan_layer_norm_backward):
            for launch in plan(*inputs(3, num_cols, dtype), num_blocks=2).launches:
                report = launch.profile(schedule)
                assert report.ok, report
                launch.run()


def test_what_does_not_fit_is_refused_in_words():
    d_out, x, weight = inputs(3, 8)
    for wrong, sentence in (
        (lambda: ops.rms_norm_backward(d_out[:2], x, weight), "d_out is torch.float32"),
        (lambda: ops.rms_norm_backward(d_out, x, weight.half()), "weight is torch.float16"),
        (lambda: ops.rms_norm_backward(d_out, x, weight, d_residual=x.half()), "d_residual is torch.float16"),
        (lambda: ops.layer_norm_backward(d_out, x, weight, out=x[:1]), "out is torch.float32"),
    ):
        with pytest.raises(ShapeError, match=sentence):
            wrong()
