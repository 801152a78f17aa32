"""The norms on the SIMT machine: no finding under any schedule, for groups of threads of every kind."""

import pytest
import torch
from norm_cases import rows, vector

from course_lib.ops import norm as ops

SCHEDULES = ["forward", "reverse", "random", "resident"]
# half a warp a row with a row that does not exist · two warps · a block, with more than the registers hold
SHAPES = [(3, 120, torch.float16), (3, 500, torch.float32), (2, 16390, torch.bfloat16)]


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


def planned(num_rows, num_cols, dtype):
    x, weight = rows(num_rows, num_cols, dtype, stride=num_cols + 8), vector(num_cols, dtype)
    return {
        "rms_norm": ops.plan_rms_norm(x, weight),
        "layer_norm": ops.plan_layer_norm(x, weight, weight),
        "add_rms_norm": ops.plan_add_rms_norm(x, x.clone(), weight),
    }


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[1]} columns")
def test_clean_in_every_schedule(shape, schedule):
    for name, launch in planned(*shape).items():
        report = launch.profile(schedule)
        assert report.ok, f"{name}: {report}"


def test_a_warp_reads_whole_lines():
    """Aligned rows: each request of a warp is 32 accesses of 16 bytes, 512 bytes in 16 sectors."""
    x, weight = rows(4, 1024, torch.float16), vector(1024, torch.float16)
    report = ops.plan_rms_norm(x, weight).profile()
    assert report.global_store.requests == 4 * 4 and report.global_store.sectors == 16 * report.global_store.requests
    assert report.global_load.sectors == 16 * report.global_load.requests
