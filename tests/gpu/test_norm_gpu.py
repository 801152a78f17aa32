"""RMSNorm, LayerNorm and add + RMSNorm on the GPU in hand, in both languages: few rows and many, any width, strides."""

import pytest
import torch
from norm_cases import assert_near, rows, vector

from course_lib.ops import norm as ops
from course_lib.ops import norm_backward
from course_lib.reference import norm as reference

LANGUAGES = ("cuda", "triton")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SIZES = [(1, 1), (8, 4096), (3000, 8), (3000, 96), (700, 1000), (500, 4096), (300, 8192), (300, 16384), (3, 65536)]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_norms(size, dtype, language):
    x, residual = (rows(*size, dtype, seed=seed, device="cuda", stride=size[1] + 8) for seed in (0, 1))
    weight, bias = (vector(size[1], dtype, seed=seed, device="cuda") for seed in (2, 3))
    assert_near(ops.rms_norm(x, weight, language=language), reference.rms_norm(x, weight, 1e-6), dtype)
    assert_near(ops.layer_norm(x, weight, bias, language=language), reference.layer_norm(x, weight, bias, 1e-5), dtype)
    out, total = reference.add_rms_norm(x, residual, weight, 1e-6)
    assert_near(ops.add_rms_norm(x, residual, weight, language=language)[0], out, dtype)
    assert torch.equal(residual, total)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_longer_than_the_registers(dtype):
    x, weight = rows(3, 140_001, dtype, device="cuda"), vector(140_001, dtype, device="cuda")
    assert_near(ops.rms_norm(x, weight), reference.rms_norm(x, weight, 1e-6), dtype)
    assert_near(ops.layer_norm(x, weight), reference.layer_norm(x, weight, None, 1e-5), dtype)
    out, total = reference.add_rms_norm(x, x.clone(), weight, 1e-6)
    residual = x.clone()
    assert_near(ops.add_rms_norm(x, residual, weight)[0], out, dtype)
    assert torch.equal(residual, total)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(1, 1), (3000, 8), (3000, 96), (2000, 1000), (700, 8192), (300, 16384)], ids=str)
def test_gradients(size, dtype, language):
    x, d_out, d_residual = (rows(*size, dtype, seed=seed, device="cuda") for seed in (0, 1, 2))
    weight = vector(size[1], dtype, device="cuda")
    got = norm_backward.rms_norm_backward(d_out, x, weight, d_residual=d_residual, language=language)
    dx, d_weight = reference.rms_norm_backward(d_out, x, weight, 1e-6)
    assert_near(got[0], dx + d_residual.double(), dtype)
    assert_near(got[1], d_weight, dtype)
    again = norm_backward.rms_norm_backward(d_out, x, weight, d_residual=d_residual, language=language)
    assert all(torch.equal(a, b) for a, b in zip(got, again, strict=True))
    got = norm_backward.layer_norm_backward(d_out, x, weight, language=language)
    rstd = (x.double().var(-1, unbiased=False) + 1e-5).rsqrt()  # 316 where a row has one number, and dx cancels to 0
    terms = ((d_out.double() * weight.double()).abs().amax(-1) * rstd).max()
    for mine, want in zip(got, reference.layer_norm_backward(d_out, x, weight, 1e-5), strict=True):
        assert_near(mine, want, dtype, terms=terms)


def test_in_a_graph():
    x, weight = rows(8, 4096, torch.bfloat16, device="cuda"), vector(4096, torch.bfloat16, device="cuda")
    launch = ops.plan_rms_norm(x, weight)
    launch.run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch.run()
    x.copy_(rows(8, 4096, torch.bfloat16, seed=5, device="cuda"))
    graph.replay()
    assert_near(launch.outputs[0], reference.rms_norm(x, weight, 1e-6), torch.bfloat16)
