"""FlashAttention-1 backward on the SIMT machine: no finding in any schedule, bytes by the formula of chapter 06."""

import math

import pytest
import torch

from course_lib import cuda
from course_lib.ops import flash_attention_1 as forward_ops
from course_lib.ops import flash_attention_1_backward as ops

SMALL = {"block_m": 8, "block_n": 16}


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def planned(batch, heads, kv_heads, num_q, num_kv, head_dim, causal=False, language="cuda", **tiles):
    generator = torch.Generator().manual_seed(0)
    rows = [(heads, num_q), (kv_heads, num_kv), (kv_heads, num_kv), (heads, num_q)]
    q, k, v, d_out = (torch.randn(batch, *row, head_dim, generator=generator) for row in rows)
    out, lse = forward_ops.flash_attention_1(q, k, v, causal=causal)
    return ops.plan(q, k, v, out, lse, d_out, causal=causal, language=language, **tiles)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
@pytest.mark.parametrize("shape", [(1, 4, 2, 19, 37, 8), (2, 1, 1, 20, 9, 33)])
def test_no_finding_in_any_schedule(shape, schedule):
    for launch in planned(*shape, causal=True, **SMALL).launches:
        report = launch.profile(schedule)
        assert report.ok, str(report)


@pytest.mark.parametrize(
    "reason", ["the old tiles", "the writes of the tiles from their reads", "rows of probs and d_scores"]
)
def test_a_missing_barrier_is_found(reason):
    launch = planned(1, 1, 1, 19, 37, 8, **SMALL).launches[1]
    source, name = launch.function.source, launch.function.name
    (line,) = (line for line in source.splitlines() if "__syncthreads" in line and reason in line)
    broken = cuda.compile(source.replace(line, ""), name, defines=launch.function.defines, checked=True)
    assert broken.profile(launch.grid, launch.block, *launch.arguments, outputs=launch.outputs, schedule="random").races


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize(
    ("shape", "tiles"),
    [
        ((1, 2, 1, 40, 50, 16), {"block_m": 16, "block_n": 16}),
        ((2, 3, 3, 33, 64, 20), {"block_m": 16, "block_n": 32}),
        ((1, 4, 2, 17, 31, 8), {"block_m": 32, "block_n": 16}),
    ],
)
def test_bytes_are_the_formula_of_the_chapter(shape, tiles, language):
    batch, heads, kv_heads, num_q, num_kv, d = shape
    turns = math.ceil(num_kv / tiles["block_n"])
    rows, keys = batch * heads * num_q, batch * kv_heads * num_kv
    read = 2 * keys * d + turns * rows * (2 * d + 2) + (turns - 1) * rows * d
    written = 2 * keys * d + turns * rows * d
    row_dot, backward = planned(*shape, language=language, **tiles).launches
    assert row_dot.traffic() == (4 * 2 * rows * d, 4 * rows)
    assert backward.traffic() == (4 * read, 4 * written)


def test_shared_memory_is_read_without_conflicts():
    report = planned(1, 1, 1, 32, 32, 64).launches[1].profile()
    assert report.shared_load.conflicts == 0 and report.shared_store.conflicts == 0


def test_tiles_above_the_diagonal_stay_away():
    full, causal = (planned(1, 1, 1, 64, 64, 16, causal=c, block_m=16, block_n=16).traffic() for c in (False, True))
    for written, visited in ((full[1], 16), (causal[1], 4 + 3 + 2 + 1)):
        assert written == 4 * (visited * 16 * 16 + 2 * 64 * 16 + 64)  # rows of dq; dk and dv; row_dot
    assert causal[0] < full[0]
