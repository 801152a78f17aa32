"""mbarriers of kernels_cu/common by themselves on the SIMT machine: phases, what arrivals order, polling, rules.

Rings with copies are in test_async_ring.py.
"""

import re

import pytest
import torch

from course_lib.cuda import nvrtc
from course_lib.errors import KernelFault
from tests.simt.mistakes import line_of

SCHEDULES = ["forward", "reverse", "random", "resident"]
HEAD = '#include "common/tma.cuh"\n'


# ---- the truth table of phases ----
PHASES = (
    HEAD
    + r"""
extern "C" __global__ void phases_kernel(int* out, int num_phases) {  // 64 threads; out (num_phases + 1, 2)
    __shared__ mbarrier_t barrier;
    if (threadIdx.x == 0) mbarrier_init(&barrier, 64);
    __syncthreads();
    for (int phase = 0; phase <= num_phases; ++phase) {
        if (threadIdx.x < 2) out[phase * 2 + threadIdx.x] = mbarrier_try_wait_parity(&barrier, threadIdx.x);
        __syncthreads();
        mbarrier_arrive(&barrier);
        mbarrier_wait_parity(&barrier, phase % 2);
    }
}
"""
)


@pytest.mark.parametrize("schedule", ["fast", *SCHEDULES])
def test_the_truth_table_of_phases(profile, launch, schedule):
    """Before the first phase completes, parity 1 counts as completed; after phase n, parity n % 2 does."""
    out = torch.full((6, 2), -1, dtype=torch.int32)
    if schedule == "fast":
        launch(PHASES, "phases_kernel", 1, 64, out, 5)
    else:
        report = profile(PHASES, "phases_kernel", 1, 64, out, 5, schedule=schedule)
        assert report.ok, str(report)
    assert out.tolist() == [[phase % 2, 1 - phase % 2] for phase in range(6)]


# ---- what a wait orders ----
ORDER = (
    HEAD
    + r"""
extern "C" __global__ void order_kernel(float* out, int what) {  // 96 threads
    __shared__ mbarrier_t barrier;
    __shared__ float s[64];
    const int t = threadIdx.x;
    if (t == 0) mbarrier_init(&barrier, 64);
    __syncthreads();
    if (t < 64) {
        s[t] = t;  // the write
        mbarrier_arrive(&barrier);
        if (what == 1) s[t] = 1.0f - t;  // after the arrival
        if (what == 3) out[t] = s[t ^ 32];  // without a wait
        return;
    }
    if (what == 4 && t == 64) mbarrier_wait_parity(&barrier, 0);  // one lane, which passes it on
    if (what == 4) __syncwarp();
    if (what != 2 && what != 4) mbarrier_wait_parity(&barrier, 0);
    if (what == 2) mbarrier_wait_parity(&barrier, 1);  // a stale phase
    out[t] = s[t - 64] + s[t - 32];  // the read
}
"""
)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("what, races", [(0, False), (1, True), (2, True), (3, True), (4, False)])
def test_arrivals_release_and_waits_acquire(profile, what, races, schedule):
    report = profile(ORDER, "order_kernel", 1, 96, torch.zeros(96), what, schedule=schedule)
    kinds = {one.kind for one in report.findings}
    # a stale phase completes before the arrivals; after them the next phase of that parity never does
    allowed = {"race", "uninitialised_read", "deadlock"} if what == 2 else {"race", "uninitialised_read"}
    assert kinds <= allowed and bool(kinds) == races, str(report)


# ---- polling ----
POLL = (
    HEAD
    + r"""
extern "C" __global__ void poll_kernel(const float* x, float* out, int never) {  // 64 threads
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t loaded, other;
    const int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&loaded, 1);
        mbarrier_init(&other, 32);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t >= 32) {
        if (!never) mbarrier_arrive(&other);
        return;
    }
    if (t == 0) {
        mbarrier_arrive_expect_tx(&loaded, 128);
        bulk_load(s, x, 128, &loaded);
    }
    int polls = 0;
    while (!mbarrier_try_wait_parity(&loaded, 0)) ++polls;
    while (!mbarrier_try_wait_parity(&other, 0)) ++polls;  // in vain
    out[t] = s[t] + 0 * polls;
}
"""
)


@pytest.mark.parametrize("schedule", ["fast", *SCHEDULES])
def test_polling_ends_when_the_phase_does(profile, launch, schedule):
    x, out = torch.arange(32.0), torch.zeros(32)
    if schedule == "fast":
        launch(POLL, "poll_kernel", 1, 64, x, out, 0)
    else:
        assert profile(POLL, "poll_kernel", 1, 64, x, out, 0, schedule=schedule).ok
    assert torch.equal(out, x)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_polling_in_vain_is_a_deadlock(profile, schedule):
    report = profile(POLL, "poll_kernel", 1, 64, torch.zeros(32), torch.zeros(32), 1, schedule=schedule)
    (finding,) = report.findings
    assert (finding.kind, finding.line) == ("deadlock", line_of(POLL, "// in vain"))
    assert re.search(
        r"32 threads wait forever for parity 0 of the mbarrier other: .* 32 of its 32 arrivals", str(finding)
    )


def test_a_deadlock_of_the_fast_build_names_the_barrier(launch):
    with pytest.raises(KernelFault, match="wait forever for parity 0 of the mbarrier other: phase 0"):
        launch(POLL, "poll_kernel", 1, 64, torch.zeros(32), torch.zeros(32), 1)


# ---- rules ----
RULES = (
    HEAD
    + r"""
extern "C" __global__ void rules_kernel(float* out, int what) {  // 32 threads
    __shared__ mbarrier_t barrier;
    __shared__ float s[4];
    extern __shared__ __align__(1024) unsigned char dynamic_smem[];
    mbarrier_t* far_barrier = reinterpret_cast<mbarrier_t*>(dynamic_smem + 2048);
    if (threadIdx.x > 0) return;
    if (what == 0) mbarrier_init(&barrier, 0);
    if (what == 1) mbarrier_init(reinterpret_cast<mbarrier_t*>(out), 1);
    if (what == 2) mbarrier_init(reinterpret_cast<mbarrier_t*>(dynamic_smem + 4), 1);
    if (what == 3) mbarrier_init(&barrier, 1), mbarrier_init(&barrier, 1);
    if (what == 4) mbarrier_init(&barrier, 1), mbarrier_arrive_expect_tx(&barrier, 1 << 20);
    if (what == 5) mbarrier_init(far_barrier, 1), mbarrier_wait_parity(far_barrier, 0);
    if (what == 6) mbarrier_arrive(&barrier);
    if (what == 7) mbarrier_init(&barrier, 1), out[0] = *reinterpret_cast<int*>(&barrier);
    if (what == 8) mbarrier_init(&barrier, 2), mbarrier_arrive_expect_tx(&barrier, 64);
}
"""
)
RULE_BROKEN = {
    0: ("trap", "an mbarrier counts 1 to 1,048,575 arrivals"),
    1: ("trap", "an mbarrier is in shared memory"),
    2: ("trap", "an mbarrier is at a multiple of 8 bytes"),
    3: ("bad_barrier", "initialises the mbarrier barrier a second time"),
    4: ("trap", "a phase of an mbarrier expects at most 1,048,575 bytes"),
    5: ("deadlock", "1 thread waits forever for parity 0 of the mbarrier byte 2,048 of dynamic shared memory"),
    6: ("bad_barrier", "uses the mbarrier barrier, which no thread has initialised"),
    7: ("race", "which line 10 initialised as an mbarrier"),
    8: ("bad_barrier", "a phase of the mbarrier barrier expected 64 bytes, 0 arrived"),
}


@pytest.mark.parametrize("what", RULE_BROKEN)
def test_a_broken_rule_has_its_sentence(profile, what):
    kind, sentence = RULE_BROKEN[what]
    report = profile(RULES, "rules_kernel", 1, 32, torch.zeros(4), what, shared_bytes=4096)
    if what == 7:
        sentence = sentence.replace("line 10", f"line {line_of(RULES, 'what == 7')}")
    (finding,) = report.findings
    assert finding.kind == kind and sentence in finding.message, str(report)


@pytest.mark.parametrize("what", [0, 1, 2, 4, 5, 6])
def test_rules_hold_in_the_fast_build(launch, what):
    with pytest.raises(KernelFault, match=r"mbarrier"):
        launch(RULES, "rules_kernel", 1, 32, torch.zeros(4), what, shared_bytes=4096)


@pytest.mark.parametrize("source", [PHASES, ORDER, POLL])
def test_is_real_cuda(source):
    assert not nvrtc.compile_cubin(source, arch="sm_90a").notes
