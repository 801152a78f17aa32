"""01_loop_order: right at ragged sizes, clean in every schedule, its traffic the formula of chapter 07."""

import math

import pytest
import torch

from course_lib import cuda
from course_lib.reference import attention as reference

BLOCK_M, BLOCK_N = 8, 16
STEM, ENTRY = "flash_attention_2/01_loop_order.cu", "flash_attention_2_kernel"
BARRIERS = ("last reads of the old K and V", "loads of Q, K and V", "write to probs_row", "next row's writes")
# batch, heads, kv heads, queries, keys, head_dim
SHAPES = [(1, 1, 1, 1, 1, 16), (2, 4, 2, 9, 17, 8), (1, 3, 1, 37, 53, 20), (1, 2, 2, 50, 20, 40), (2, 2, 1, 16, 32, 64)]


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def tensors(batch, heads, kv_heads, num_q, num_kv, head_dim, scale=1.0):
    generator = torch.Generator().manual_seed(num_q + num_kv)
    shapes = [(batch, heads, num_q, head_dim), (batch, kv_heads, num_kv, head_dim), (batch, kv_heads, num_kv, head_dim)]
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return scale * q, k, v


def prepared(q, k, v, causal):
    """Kernel, grid, arguments and the two outputs, poisoned."""
    kernel = cuda.load(STEM, ENTRY, defines={"HEAD_DIM": q.shape[3], "BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N})
    out, lse = torch.full_like(q, math.nan), torch.full(q.shape[:3], math.nan)
    sizes = (q.shape[1] // k.shape[1], q.shape[2], k.shape[2], q.shape[3] ** -0.5, int(causal))
    grid = -(-q.shape[2] // BLOCK_M) * q.shape[0] * q.shape[1]
    return kernel, grid, (q, k, v, out, lse, *sizes), (out, lse)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_is_right(shape, causal):
    q, k, v = tensors(*shape, scale=4.0)
    kernel, grid, arguments, (out, lse) = prepared(q, k, v, causal)
    kernel(grid, 128, *arguments)
    ref_out, ref_lse = reference.attention_lse(q, k, v, causal=causal)
    assert (out - ref_out).abs().max() <= 1e-5
    assert torch.equal(lse.isneginf(), ref_lse.isneginf())
    assert (lse - ref_lse)[ref_lse.isfinite()].abs().max() <= 1e-4


@pytest.mark.parametrize("shift", [-100.0, 100.0])
def test_large_scores(shift):
    q, k, v = tensors(1, 2, 1, 37, 53, 20)
    q[..., -1], k[..., -1] = 20**0.5, shift
    kernel, grid, arguments, (out, _) = prepared(q, k, v, True)
    kernel(grid, 128, *arguments)
    assert (out - reference.attention_lse(q, k, v, causal=True)[0]).abs().max() <= 1e-4


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
def test_free_of_findings(schedule):
    kernel, grid, arguments, outputs = prepared(*tensors(1, 2, 1, 19, 37, 40), True)
    report = kernel.profile(grid, 128, *arguments, outputs=outputs, schedule=schedule)
    assert report.ok, report


@pytest.mark.parametrize("barrier", BARRIERS)
def test_each_barrier_is_needed(barrier):
    kernel, grid, arguments, outputs = prepared(*tensors(1, 1, 1, 19, 37, 20), True)
    lines = kernel.source.splitlines()
    at = next(number for number, line in enumerate(lines) if barrier in line)
    lines[at] = ""
    broken = cuda.compile("\n".join(lines), kernel.name, defines=kernel.defines, checked=True)
    reports = [
        broken.profile(grid, 128, *arguments, outputs=outputs, schedule=schedule) for schedule in ("forward", "random")
    ]
    assert any(report.races for report in reports)


@pytest.mark.parametrize("causal", [False, True])
def test_traffic_is_the_formula_of_the_chapter(causal):
    batch, heads, kv_heads, num_q, num_kv, head_dim = 1, 2, 1, 40, 50, 16
    q, k, v = tensors(batch, heads, kv_heads, num_q, num_kv, head_dim)
    kernel, grid, arguments, outputs = prepared(q, k, v, causal)
    report = kernel.profile(grid, 128, *arguments, outputs=outputs)
    keys_read = 0
    for q_start in range(0, num_q, BLOCK_M):
        last_row = min(q_start + BLOCK_M, num_q) - 1
        keys_seen = min(last_row + num_kv - num_q + 1, num_kv) if causal else num_kv
        keys_read += min(math.ceil(keys_seen / BLOCK_N) * BLOCK_N, num_kv)
    assert report.global_load.bytes == 4 * heads * (num_q * head_dim + 2 * keys_read * head_dim)
    assert report.global_store.bytes == 4 * heads * num_q * (head_dim + 1)
