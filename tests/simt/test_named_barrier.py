"""Named barriers of kernels_cu/common on the SIMT machine: whom they order, and each way to get them wrong."""

from pathlib import Path

import pytest
import torch

from course_lib.cuda import nvrtc
from tests.simt import mistakes

SOURCE = Path(__file__).with_name("sync_kernels.cu").read_text()
SCHEDULES = ["forward", "reverse", "random", "resident"]


def line_of(text):
    return mistakes.line_of(SOURCE, text)


def hand_over(profile, schedule, wrong=0, *, rounds=3, seed=0):
    x, out = torch.arange(64.0) + 1, torch.zeros(64)
    defines = {"WRONG": wrong}
    report = profile(SOURCE, "hand_over_kernel", 1, 128, x, out, rounds, schedule=schedule, seed=seed, defines=defines)
    return report, torch.equal(out, rounds * x.flip(0))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_right_hand_over_is_clean(profile, schedule):
    for rounds in (1, 2, 5):
        for seed in (0, 1, 2):
            report, is_right = hand_over(profile, schedule, rounds=rounds, seed=seed)
            assert report.ok and is_right and not report.remarks, str(report)


def test_the_fast_build_agrees(launch):
    x, out = torch.arange(64.0), torch.zeros(64)
    launch(SOURCE, "hand_over_kernel", 1, 128, x, out, 4)
    assert torch.equal(out, 4 * x.flip(0))


WRONG = {
    "OTHER_COUNT": (
        "bad_barrier",
        None,
        r"gives named barrier 1 a count of \d+ threads, thread .* at line \d+ gave \d+",
    ),
    "NO_MULTIPLE": ("bad_barrier", "// full", "a count of 120 threads, which is no multiple of 32"),
    "ABSENT_WARP": (
        "deadlock",
        "// wait for full",
        "named barrier 1 waits forever for 32 of its 128 threads: warps 0, 1, 2",
    ),
    "HALF_A_WARP": ("deadlock", "// wait for full", "for 32 of its 128 threads: .*; only some lanes of warps 1 have"),
    "NO_ARRIVE": ("deadlock", "// wait for full", "for 32 of its 128 threads: warps 0, 2, 3 wait or have arrived"),
    "OTHER_NUMBER": ("deadlock", "// wait for full", "named barrier 1 waits forever for 32 of its 128 threads"),
    "TWICE": ("bad_barrier", "// a second time", "arrives at named barrier 1 a second time before it has opened"),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wrong", WRONG)
def test_each_mistake_has_its_sentence(profile, wrong, schedule):
    report, _ = hand_over(profile, schedule, wrong)
    mistakes.require_finding(report, SOURCE, *WRONG[wrong])


def test_an_arrival_left_over_is_a_remark(profile):
    for schedule in SCHEDULES:
        report, is_right = hand_over(profile, schedule, "LEFT_OVER")
        assert report.ok and is_right
        assert report.remarks == [
            f"line {line_of('// the tile may be written')}: 64 of 128 threads had arrived at named barrier 2 when the "
            "block ended."
        ]


ORDER = r"""
#include "common/named_barrier.cuh"
extern "C" __global__ void order_kernel(float* out, int what) {
    __shared__ float s[128];
    const int t = threadIdx.x, warp = t / 32;
    s[t] = 1.0f;  // the write
    if (warp < 2) named_barrier_sync(1, 64);
    if (warp == 2) named_barrier_sync(2, 64);
    if (warp == 3) named_barrier_arrive(2, 64);
    if (what == 0 && warp < 2) out[t] = s[t ^ 32];     // both in barrier 1
    if (what == 1 && warp == 2) out[t] = s[t ^ 32];    // warp 3 has arrived
    if (what == 2 && warp == 3) out[t] = s[t ^ 32];    // an arrival does not wait
    if (what == 3 && warp < 2) out[t] = s[t ^ 64];     // not in this barrier
    if (what == 4) named_barrier_sync(16, 64);
    if (what == 5) named_barrier_sync(0, 128);
    if (what == 6 && warp < 2) named_barrier_sync(0, 128);
    if (what == 6 && warp >= 2) __syncthreads();
    if (what == 7 && warp < 2) named_barrier_sync(0, 64);
    if (what == 5 || what == 6) out[t] = s[127 - t];
}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("what, races", [(0, False), (1, False), (2, True), (3, True), (5, False)])
def test_a_barrier_orders_its_participants_and_no_others(profile, what, races, schedule):
    report = profile(ORDER, "order_kernel", 1, 128, torch.zeros(128), what, schedule=schedule)
    kinds = {one.kind for one in report.findings}
    # a reader that comes first finds nothing written yet, and the writer finds it
    assert kinds <= {"race", "uninitialised_read"} and ("race" in kinds) == races, str(report)


def test_barrier_0_of_all_threads_is_syncthreads(profile):
    """So they meet; two lines of it are a divergence, as two of __syncthreads are."""
    out = torch.zeros(128)
    report = profile(ORDER, "order_kernel", 1, 128, out, 6)
    assert [one.kind for one in report.findings] == ["divergent_barrier"] and (out == 1).all(), str(report)


def test_barrier_0_of_some_threads_is_a_remark(profile):
    report = profile(ORDER, "order_kernel", 1, 128, torch.zeros(128), 7)
    (remark,) = report.remarks
    assert report.ok and "comes to named barrier 0, which is that of __syncthreads()" in remark
    assert not profile(ORDER, "order_kernel", 1, 128, torch.zeros(128), 5).remarks


def test_there_are_16_of_them(profile):
    (finding,) = profile(ORDER, "order_kernel", 1, 128, torch.zeros(128), 4).findings
    assert "the number of a named barrier is 0 to 15" in finding.message


@pytest.mark.parametrize("wrong", range(9))
def test_is_real_cuda(wrong):
    assert not nvrtc.compile_cubin(SOURCE, arch="sm_90a", defines={"WRONG": wrong}).notes


CIRCLE = r"""
#include "common/named_barrier.cuh"
extern "C" __global__ void circle_kernel(float* out) {
    const int warp = threadIdx.x / 32;
    named_barrier_sync(1 + warp, 64);  // each waits for an arrival of another
    named_barrier_arrive(1 + (warp + 1) % 3, 64);
    out[threadIdx.x] = warp;
}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_deadlock_names_every_barrier_of_its_line(profile, schedule):
    (finding,) = profile(CIRCLE, "circle_kernel", 1, 96, torch.zeros(96), schedule=schedule).of_kind("deadlock")
    for warp in range(3):
        sentence = f"named barrier {1 + warp} waits forever for 32 of its 64 threads: warps {warp} wait or have arrived"
        assert finding.message.count(sentence) == 1, finding.message
