"""Rotary positions: both twins and styles, any positions, part of a head, in place, the way back, bytes, sentences."""

import pytest
import torch
from norm_cases import assert_near

from course_lib.device import has_gpu
from course_lib.errors import ShapeError
from course_lib.ops import rope as ops
from course_lib.reference import rope as reference

LANGUAGES = ("cuda", "triton")
STYLES = (False, True)
WHERE = "cuda" if has_gpu() else "cpu"  # these tests also run on a GPU
POSITIONS = (7, 0, 1000, 30, 30)
# num_heads, num_kv_heads, head_dim, rotary_dim: an odd half, part of a head, whole heads of 16-byte accesses
SHAPES = [(3, 1, 10, 6), (2, 2, 24, 20), (4, 4, 128, 32), (8, 2, 64, 64)]


def heads(num_heads, num_kv_heads, head_dim, dtype=torch.float32, num_tokens=5):
    """(q, k), parts of one tensor as a fused projection gives them."""
    generator = torch.Generator().manual_seed(head_dim)
    fused = torch.randn(num_tokens, num_heads + 2 * num_kv_heads, head_dim, generator=generator).to(dtype).to(WHERE)
    return fused[:, :num_heads], fused[:, num_heads : num_heads + num_kv_heads]


def table(rotary_dim, positions=POSITIONS, index=torch.int64):
    """(positions, cos_sin)."""
    last = max(positions)
    return (
        torch.tensor(positions, dtype=index, device=WHERE),
        ops.cos_sin_cache(last + 1, rotary_dim, device=WHERE),
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("interleaved", STYLES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("dtype", "index"), [(torch.float32, torch.int64), (torch.bfloat16, torch.int32)])
def test_rope_is_right(shape, dtype, index, interleaved, language):
    *sizes, rotary_dim = shape
    q, k = heads(*sizes, dtype)
    positions, cos_sin = table(rotary_dim, index=index)
    out = torch.full_like(q, torch.nan).contiguous(), torch.full_like(k, torch.nan).contiguous()
    before = q.clone()
    options = {"interleaved": interleaved, "language": language}
    assert ops.rope(q, k, positions, cos_sin, out=out, **options)[0] is out[0]
    assert torch.equal(q, before)
    for got, x in zip(out, (q, k), strict=True):
        assert_near(got, reference.rope(x, positions, rotary_dim, interleaved=interleaved), dtype)
        assert torch.equal(got[..., rotary_dim:], x[..., rotary_dim:])
    ops.rope(q, k, positions, cos_sin, **options)
    assert torch.equal(q, out[0]) and torch.equal(k, out[1])


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("interleaved", STYLES)
def test_the_gradient_is_the_way_back(interleaved, language):
    q, k = heads(4, 2, 64)
    positions, cos_sin = table(64)
    before, options = (q.clone(), k.clone()), {"interleaved": interleaved, "language": language}
    ops.rope(q, k, positions, cos_sin, **options)
    assert not torch.allclose(q, before[0], atol=0.1)
    for x, start in zip((q, k), before, strict=True):  # pairs keep their length
        assert torch.allclose(x.norm(dim=-1), start.norm(dim=-1), rtol=1e-5)
    ops.rope(q, k, positions, cos_sin, inverse=True, **options)
    assert torch.allclose(q, before[0], atol=1e-6) and torch.allclose(k, before[1], atol=1e-6)
    x = before[0].double().requires_grad_()
    gradient = torch.randn(x.shape, device=WHERE)
    (reference.rope(x, positions, 64, interleaved=interleaved) * gradient).sum().backward()
    got, none = ops.rope(gradient, None, positions, cos_sin, inverse=True, **options)
    assert none is None and (got - x.grad).abs().max() < 1e-5


@pytest.mark.parametrize("language", LANGUAGES)
def test_products_depend_on_the_distance_alone(language):
    q, k = heads(1, 1, 64, num_tokens=1)
    found = []
    for positions in ((5, 0), (505, 500), (4000, 3995)):
        at, cos_sin = table(64, positions)
        turned, _ = ops.rope(q.clone(), None, at[:1], cos_sin, language=language)
        other, _ = ops.rope(k.clone(), None, at[1:], cos_sin, language=language)
        found.append((turned * other).sum().item())
    assert found[0] == pytest.approx(found[1], abs=1e-4) and found[0] == pytest.approx(found[2], abs=1e-4)


def test_the_table_is_exact_at_large_positions():
    cos_sin = ops.cos_sin_cache(100_001, 8)
    angles = 100_000.0 * 10000.0 ** -(torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    assert cos_sin.dtype == torch.float32
    assert torch.equal(cos_sin[-1], torch.cat((angles.cos(), angles.sin())).float())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("interleaved", STYLES)
def test_traffic_is_every_number_once_and_the_table_once_a_thread(interleaved, language):
    """Cosines, sines and the position of a thread's pairs serve all its heads; a Triton program reads them once."""
    q, k = heads(8, 2, 64, torch.bfloat16)
    launch = ops.plan(q, k, *table(64), interleaved=interleaved, language=language)
    moved = (q.numel() + k.numel()) * 2
    read, written = launch.traffic()
    assert written == moved
    threads, angles = (5 * launch.block, 8 if interleaved else 16) if language == "cuda" else (5, 64)
    assert read == moved + threads * (4 * angles + 8)
    if language == "triton":  # every second number of a sector would touch each of them twice
        report = launch.profile()
        assert report.store.sectors == moved // 32 and report.load.sectors <= read // 32 + threads


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_cuda_kernels_are_free_of_findings(schedule):
    for *sizes, rotary_dim in SHAPES:
        q, k = heads(*sizes, torch.float16)
        for interleaved in STYLES:
            report = ops.plan(q, k, *table(rotary_dim), interleaved=interleaved).profile(schedule)
            assert report.ok, report


def test_what_does_not_fit_is_refused_in_words():
    q, k = heads(2, 1, 8)
    positions, cos_sin = table(8)
    for wrong, sentence in (
        (lambda: ops.rope(q, k, positions[:3], cos_sin), r"expected contiguous int32 or int64 \(5,\)"),
        (lambda: ops.rope(q, k, positions.float(), cos_sin), "positions is torch.float32"),
        (lambda: ops.rope(q, k, positions, cos_sin.half()), "cos_sin is torch.float16"),
        (lambda: ops.rope(q, k, positions, ops.cos_sin_cache(1001, 10, device=WHERE)), "rotary_dim=10"),
        (lambda: ops.rope(q, k.half(), positions, cos_sin), "k is torch.float16"),
        (lambda: ops.rope(q, k[:4], positions, cos_sin), "tokens and head_dim must agree"),
        (lambda: ops.rope(q.transpose(1, 2), None, positions, cos_sin), "must be contiguous"),
        (lambda: ops.cos_sin_cache(5, 3), "rotary_dim=3"),
    ):
        with pytest.raises(ShapeError, match=sentence):
            wrong()
    if WHERE == "cpu":
        with pytest.raises(ShapeError, match="the positions 0 to 999"):
            ops.rope(q, k, positions, cos_sin[:1000])
