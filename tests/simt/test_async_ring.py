"""mbarriers and bulk copies of kernels_cu/common on the SIMT machine: a ring of tiles, and each way to get it wrong.

A right ring is clean in all four schedules; each thing left out of it is found in all four, with a sentence of its own.
"""

import re
from pathlib import Path

import pytest
import torch

from course_lib.cuda import nvrtc
from tests.simt import mistakes

SOURCE = Path(__file__).with_name("async_ring_kernels.cu").read_text()
SCHEDULES = ["forward", "reverse", "random", "resident"]
TILE = 64
NAMES = dict(re.findall(r"#define (\w+) (\d+)$", SOURCE, re.MULTILINE))


def line_of(text):
    return mistakes.line_of(SOURCE, text)


def ring(profile, schedule, wrong=None, *, stages=2, num_tiles=7, seed=0, **options):
    """Returns (report, whether the sums are right)."""
    x = torch.arange(num_tiles * TILE, dtype=torch.float32).reshape(num_tiles, TILE) + 1
    columns = (torch.arange(TILE)[:, None] + torch.arange(0, TILE, 7)) % TILE
    expected, out = x[:, columns].sum((0, 2)), torch.zeros(TILE)
    defines = {"STAGES": stages, "WRONG": NAMES[wrong] if wrong else 0}
    options = {"schedule": schedule, "seed": seed, "defines": defines} | options
    report = profile(SOURCE, "ring_kernel", 1, 96, x, out, num_tiles, **options)
    return report, torch.equal(out, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_a_right_ring_is_clean(profile, stages, schedule):
    for num_tiles in (1, stages, 9):
        for seed in (0, 1, 2):
            report, is_right = ring(profile, schedule, stages=stages, num_tiles=num_tiles, seed=seed)
            assert report.ok and is_right, str(report)


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_the_fast_build_agrees(launch, stages):
    x, out = torch.ones(9, TILE), torch.zeros(TILE)
    launch(SOURCE, "ring_kernel", 1, 96, x, out, 9, defines={"STAGES": stages, "WRONG": 0})
    assert (out == 90).all()


# ---- each mistake: kind, the line, a part of its sentence ----
WRONG = {
    "EARLY_RELEASE": (
        "race",
        "// the load",
        r"the bulk load started by thread \(64,0,0\) writes 16 bytes of tile_smem",
    ),
    "HALF_BYTES": (
        "bad_barrier",
        "// the load",
        r"full\[[01]\] expected 128 bytes \(expected at line \d+\), 256 arrived",
    ),
    "DOUBLE_BYTES": ("deadlock", "// wait for full", "64 threads wait forever .* 512 bytes are expected, 256 arrived"),
    "NO_BYTES": ("bad_barrier", "// the load", r"full\[[01]\] expected 0 bytes, 256 arrived"),
    "NO_EMPTY_WAIT": ("race", "// the load", "which the bulk load of line .* writes; nothing orders this after a wait"),
    "ABSENT_WARP": (
        "deadlock",
        "wait_parity(&empty",
        r"parity 0 of the mbarrier empty\[0\]: .*; 32 of its 64 arrivals are",
    ),
    "LOW_COUNT": ("race", "// the load", r"which thread \(\d+,0,0\) read at line \d+ with no barrier between them"),
    "NO_INIT_FENCE": ("missing_fence", "// the load", r"completes on full\[[01]\], .* without fence_mbarrier_init\(\)"),
    "NO_INIT": ("bad_barrier", "// wait for full", "which no thread has initialised"),
    "STALE_PARITY": ("race", "// the load", "16 bytes of tile_smem from byte"),
    "PLAIN_STORE": ("race", "// into the barrier", r"writes full\[0\], which line \d+ initialised as an mbarrier"),
    "SOURCE_CHANGED": ("race", "// under the load", r"writes x\[\d+\], which the bulk load of line \d+ reads"),
    "NO_LAST_WAIT": ("bad_copy", "// the load", r"no thread waited for this copy on the mbarrier full\[0\]"),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wrong", WRONG)
def test_each_mistake_has_its_sentence(profile, wrong, schedule):
    report, _ = ring(profile, schedule, wrong)
    mistakes.require_finding(report, SOURCE, *WRONG[wrong])


READ = "// the read"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wrong", ["NO_FULL_WAIT", "SWAPPED_PARITY", "HALF_BYTES_OF_TWO"])
def test_a_read_before_the_data(profile, wrong, schedule):
    """Found where it first shows: bytes that nothing has written, bytes of a load, too many bytes, a wait."""
    report, is_right = ring(profile, schedule, wrong)
    kinds = {(one.kind, one.line) for one in report.findings}
    early = {("uninitialised_read", line_of(READ)), ("race", line_of(READ))}
    stuck = {("deadlock", line_of("// the other parity"))} if wrong == "SWAPPED_PARITY" else set()
    counted = {("bad_barrier", line_of("// second half"))} if wrong == "HALF_BYTES_OF_TWO" else set()
    assert kinds & (early | stuck | counted), str(report)
    assert not is_right or kinds & early


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_initialisation_that_is_not_published(profile, schedule):
    """Forward the initialising thread runs first, in the other schedules a user may: each has its sentence."""
    report, _ = ring(profile, schedule, "NO_INIT_SYNC")
    messages = [one.message for one in report.of_kind("bad_barrier")]
    if schedule == "forward":
        assert messages and all(
            "initialised at line" in one and "no barrier of the block between" in one for one in messages
        )
    else:
        assert any("which no thread has initialised" in one for one in messages), str(report)


def test_a_swapped_parity_of_the_first_wait_names_the_barrier(profile):
    report, _ = ring(profile, "reverse", "SWAPPED_PARITY")
    messages = [one.message for one in report.of_kind("deadlock")]
    assert any(
        re.search(r"64 threads wait forever for parity 1 of the mbarrier full\[0\]: phase 1 \(parity 1\)", one)
        for one in messages
    ), messages


def test_a_late_arrival_of_too_many(profile):
    report, _ = ring(profile, "forward", "NO_EMPTY_WAIT")
    (finding,) = [one for one in report.of_kind("bad_barrier") if "arrives at" in one.message]
    assert "arrives at the mbarrier full[0], but the 1 arrival of this phase have come already" in finding.message


def test_traffic_is_that_of_the_load(profile):
    report, _ = ring(profile, "forward")
    load = report.lines[line_of("// the load")]
    assert vars(load.global_load) == {"requests": 7, "sectors": 56, "bytes": 1792, "ideal_sectors": 56}
    assert vars(load.shared_store) == {"requests": 7, "wavefronts": 0, "conflicts": 0, "bytes": 1792}
    assert line_of("// wait for full") not in report.lines


def test_the_timeline(profile):
    """Waits of consumers and producer and the loads between them, in logical time; nothing unless it is asked for."""
    assert ring(profile, "forward")[0].timeline == []
    events = ring(profile, "forward", timeline=True)[0].timeline
    loads = [one for one in events if one.kind == "tma_load"]
    assert [(one.block, one.warp, one.line) for one in loads] == [(0, 2, line_of("// the load"))] * 7
    assert all(one.end - one.start == 32 for one in loads)
    assert {one.thread for one in loads} == {64}
    assert [one.shared_offset - loads[0].shared_offset for one in loads] == [0, 4 * TILE, 0, 4 * TILE, 0, 4 * TILE, 0]
    waits = [one for one in events if one.kind == "mbarrier_wait" and one.line == line_of("// wait for full")]
    assert {one.warp for one in waits} == {0, 1} and len(waits) == 14
    first = min(waits, key=lambda one: one.end)
    assert first.end >= loads[0].end and first.start <= first.end


@pytest.mark.parametrize("wrong", [0, *sorted(map(int, NAMES.values()))])
def test_is_real_cuda(wrong):
    assert not nvrtc.compile_cubin(SOURCE, arch="sm_90a", defines={"STAGES": 2, "WRONG": wrong}).notes


POLL = r"""
#include "common/tma.cuh"
extern "C" __global__ void poll_kernel(const float* x, float* out, int times) {
    __shared__ __align__(128) float tile_smem[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, 128);
        bulk_load(tile_smem, x, 128, &full);
    }
    __syncthreads();
    while (!mbarrier_try_wait_parity(&full, 0) && --times > 0) {}
    out[threadIdx.x] = tile_smem[threadIdx.x];  // the read
    mbarrier_wait_parity(&full, 0);
}
"""


@pytest.mark.parametrize("schedule", ["forward", "resident"])
@pytest.mark.parametrize("times", [1, 10, 1000])
def test_a_poll_may_return_before_the_phase_is_complete(profile, times, schedule):
    x, out = torch.arange(32.0), torch.zeros(32)
    report = profile(POLL, "poll_kernel", 1, 32, x, out, times, schedule=schedule)
    if times == 1000:
        assert report.ok and torch.equal(out, x)
        return
    line = next(number for number, text in enumerate(POLL.splitlines(), 1) if "// the read" in text)
    (race,) = report.races
    assert race.line == line and "try_wait_parity had returned false" in race.message


def test_a_poll_that_is_repeated_ends_under_every_schedule(profile):
    for schedule in SCHEDULES:
        assert profile(POLL, "poll_kernel", 1, 32, torch.arange(32.0), torch.zeros(32), 1000, schedule=schedule).ok
