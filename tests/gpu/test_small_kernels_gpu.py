"""Rotary positions, tanh-GELU and the gated product on the GPU in hand, in both languages."""

import pytest
import torch
from norm_cases import assert_near, rows

from course_lib.ops import activation, rope
from course_lib.reference import activation as activation_reference
from course_lib.reference import rope as rope_reference

LANGUAGES = ("cuda", "triton")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(1, 1), (8, 14336), (3000, 33), (2000, 1000), (500, 11008)], ids=str)
def test_activations(size, dtype, language):
    both, d_out = 3.0 * rows(size[0], 2 * size[1], dtype, device="cuda"), rows(*size, dtype, seed=1, device="cuda")
    both[0, : size[1]] = -100.0
    gate, up = both.chunk(2, dim=-1)
    slope = d_out.abs().double() * (1 + gate.abs().clamp(max=8).double() ** 2)  # terms of a gradient: x^2 (1 - tanh^2)
    for name in activation.GATES:
        options = {"activation": name, "language": language}
        assert_near(activation.swiglu(both, **options), activation_reference.swiglu(gate, up, name), dtype)
        want = torch.cat(activation_reference.swiglu_backward(d_out, gate, up, name), dim=-1)
        terms = (slope * up.abs().double()).max()
        assert_near(activation.swiglu_backward(d_out, both, **options), want, dtype, terms=terms)
    assert_near(activation.gelu_tanh(gate, language=language), activation_reference.gelu_tanh(gate), dtype)
    got = activation.gelu_tanh_backward(d_out, gate, language=language)
    assert_near(got, activation_reference.gelu_tanh_backward(d_out, gate), dtype, terms=slope.max())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(1, 1, 2, 2), (3, 1, 10, 6), (32, 8, 128, 128), (71, 1, 64, 64), (8, 8, 256, 64)], ids=str
)
@pytest.mark.parametrize("num_tokens", [3, 1000])
def test_rope(num_tokens, shape, dtype, interleaved, language):
    num_heads, num_kv_heads, head_dim, rotary_dim = shape
    fused = torch.randn(num_tokens, num_heads + num_kv_heads, head_dim, device="cuda").to(dtype)
    q, k = fused[:, :num_heads], fused[:, num_heads:]
    positions = torch.randint(0, 5000, (num_tokens,), device="cuda")
    cos_sin = rope.cos_sin_cache(5000, rotary_dim, device="cuda")
    out = torch.full_like(q, torch.nan), torch.full_like(k, torch.nan)
    rope.rope(q, k, positions, cos_sin, interleaved=interleaved, out=out, language=language)
    for got, x in zip(out, (q, k), strict=True):
        assert_near(got, rope_reference.rope(x, positions, rotary_dim, interleaved=interleaved), dtype)
    rope.rope(q, k, positions, cos_sin, interleaved=interleaved, language=language)
    assert torch.equal(q, out[0]) and torch.equal(k, out[1])
