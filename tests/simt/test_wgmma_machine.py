"""wgmma beside the rest of the machine: chains and groups, TMA's swizzle, traffic, timeline, stacks of large blocks."""

import numpy as np
import pytest
import torch

from course_lib.cuda import nvrtc, tensor_map
from course_lib.cuda.simt.report import EVENTS
from tests.simt import wgmma_model as model

SCHEDULES = ["forward", "reverse", "random", "resident"]
TILE_BYTES = 8192  # 64 rows of 128 bytes

OPERANDS = r"""
#include "common/tma.cuh"
#include "common/wgmma.cuh"

// a and b of the image become readable for wgmma: 64 x 64 halves each, k along the rows
#define LOAD_OPERANDS                                                             \
    extern __shared__ __align__(1024) unsigned char smem[];                       \
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) {                        \
        reinterpret_cast<float4*>(smem)[i] = image[i];                            \
    }                                                                             \
    fence_proxy_async();                                                          \
    __syncthreads();                                                              \
    const unsigned long long a = wgmma_descriptor(smem, 0, 1024);                 \
    const unsigned long long b = wgmma_descriptor(smem + 8192, 0, 1024)
#define STEP(d, k, scale) wgmma_m64k16_f32_f16_ss(d, a + 2 * (k), b + 2 * (k), scale)
"""
KERNELS = (
    OPERANDS
    + r"""
extern "C" __global__ void __launch_bounds__(128) chain_kernel(const float4* image, float* out, int what) {
    LOAD_OPERANDS;
    float d[32], other[32];
    for (int i = 0; i < 32; ++i) d[i] = other[i] = 0.0f;
    wgmma_fence();
    STEP(d, 0, 1);
    STEP(d, 1, 1);
    wgmma_commit_group();
    STEP(other, 3, 1);
    STEP(d, 2, 1);  // the same accumulators in the next group
    STEP(d, 3, 1);
    wgmma_commit_group();
    wgmma_wait_group<1>();
    float early = 0.0f;
    if (what == 1) early = d[0];  // still of the second group
    wgmma_wait_group<0>();
    wgmma_wait_group<0>();  // nothing is in flight: allowed
    for (int i = 0; i < 32; ++i) out[32 * threadIdx.x + i] = d[i] + early;
}

extern "C" __global__ void __launch_bounds__(128) order_kernel(const float4* image, float* out, int what) {
    LOAD_OPERANDS;
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0.0f;
    wgmma_fence();
    for (int k = 0; k < 4; ++k) {  // each in a group of its own, all in flight together
        STEP(d, k, k > 0 || what);
        wgmma_commit_group();
    }
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; ++i) out[32 * threadIdx.x + i] = d[i];
}
"""
)
LOCAL = (
    OPERANDS
    + r"""
__device__ __noinline__ void issue_with_own_registers(unsigned long long a, unsigned long long b) {
    float own[32];
    wgmma_fence();
    STEP(own, 0, 0);  // own
    wgmma_commit_group();
}
extern "C" __global__ void __launch_bounds__(128) local_kernel(const float4* image, float* out, int what) {
    LOAD_OPERANDS;
    __shared__ float d_smem[128][8];
    float d[64];
    for (int i = 0; i < 64; ++i) d[i] = 0.0f;
    wgmma_fence();
    if (what == 1) issue_with_own_registers(a, b);
    if (what == 2) wgmma_m64k16_f32_f16_ss(d_smem[threadIdx.x], a, b, 0);  // not registers
    if (what == 3) {
        wgmma_m64k16_f32_f16_ss(reinterpret_cast<float (&)[32]>(d[0]), a, b, 0);  // the first half
        wgmma_m64k16_f32_f16_ss(reinterpret_cast<float (&)[32]>(d[16]), a, b, 0);  // half of it again
        wgmma_commit_group();
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    out[threadIdx.x] = d[0];
}
"""
)


def line_of(source, text):
    (number,) = [number for number, line in enumerate(source.splitlines(), 1) if text in line]
    return number


def run(profile, source, name, what=0, *, threads=128, shape=(128, 32), **options):
    """The report, the output and a b of one launch on random 64 x 64 operands."""
    random = np.random.default_rng(3)
    (a_bits, a), (b_bits, b) = (model.numbers(random.standard_normal((64, 64)), "f16") for _ in range(2))
    image = np.concatenate([model.k_major(a_bits, 128).image, model.k_major(b_bits, 128).image])
    out = torch.zeros(shape)
    report = profile(
        source, name, 1, threads, torch.from_numpy(image).view(torch.float32), out, what,
        shared_bytes=2 * TILE_BYTES, **options,
    )  # fmt: skip
    return report, out.numpy(), a @ b.T


# ---- groups ----
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_chain_through_two_groups(profile, schedule):
    report, out, expected = run(profile, KERNELS, "chain_kernel", schedule=schedule)
    assert report.ok, str(report)
    np.testing.assert_allclose(model.matrix(out), expected, atol=1e-3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_chain_belongs_to_its_last_group(profile, schedule):
    report, _, _ = run(profile, KERNELS, "chain_kernel", 1, schedule=schedule)
    line = line_of(KERNELS, "// still of the second group")
    issued = line_of(KERNELS, "STEP(d, 3, 1)")
    assert [(one.kind, one.line, one.other_line) for one in report.findings] == [("in_flight", line, issued)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("what", [0, 1])
def test_many_groups_in_flight(profile, what, schedule):
    report, out, expected = run(profile, KERNELS, "order_kernel", what, schedule=schedule)
    assert report.ok, str(report)
    np.testing.assert_allclose(model.matrix(out), expected, atol=1e-3)


# ---- registers that are none ----
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_registers_that_do_not_last(profile, schedule):
    gone = run(profile, LOCAL, "local_kernel", 1, schedule=schedule)[0].findings
    assert [(one.kind, one.line) for one in gone] == [("bad_wgmma", line_of(LOCAL, "// own"))], gone
    assert "are local to a function that returned before thread" in gone[0].message
    memory = run(profile, LOCAL, "local_kernel", 2, schedule=schedule)[0].findings
    assert ("bad_wgmma", line_of(LOCAL, "// not registers")) in [(one.kind, one.line) for one in memory]
    assert any("must be local arrays of the thread" in one.message for one in memory)
    overlap = run(profile, LOCAL, "local_kernel", 3, schedule=schedule)[0].findings
    lines = line_of(LOCAL, "// half of it again"), line_of(LOCAL, "// the first half")
    assert ("bad_wgmma", *lines) in [(one.kind, one.line, one.other_line) for one in overlap], overlap


# ---- TMA writes the operands ----
TMA = r"""
#include "common/tma.cuh"
#include "common/wgmma.cuh"
#define WAIT 1      // for the bytes
#define ALL_WAIT 2  // every thread, not thread 0 alone
extern "C" __global__ void __launch_bounds__(128)
tma_kernel(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* out, int swizzle,
           int with) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, 16384);
        tma_load_2d(smem, &a_map, &full, 0, 0);
        tma_load_2d(smem + 8192, &b_map, &full, 0, 0);
    }
    if ((with & WAIT) && (threadIdx.x == 0 || (with & ALL_WAIT))) mbarrier_wait_parity(&full, 0);
    float d[32];
    wgmma_fence();
    for (int k = 0; k < 4; ++k) {
        const unsigned long long a = wgmma_descriptor(smem + 32 * k, 16, 1024);
        const unsigned long long b = wgmma_descriptor(smem + 8192 + 32 * k, 16, 1024, swizzle);
        wgmma_m64k16_f32_bf16_ss(d, a, b, k);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; ++i) out[32 * threadIdx.x + i] = d[i];
}
"""
TMA_PRODUCT = line_of(TMA, "wgmma_m64k16_f32_bf16_ss(")


def tma(profile, schedule, with_=3, swizzle=1, written="128B"):
    generator = torch.Generator().manual_seed(4)
    a, b = (torch.randn(64, 64, generator=generator).to(torch.bfloat16) for _ in range(2))
    maps = [tensor_map(one, box=(64, 64), swizzle=how) for one, how in ((a, "128B"), (b, written))]
    out = torch.zeros(128, 32)
    report = profile(
        TMA, "tma_kernel", 1, 128, *maps, out, swizzle, with_, shared_bytes=2 * TILE_BYTES, schedule=schedule
    )
    right = np.allclose(model.matrix(out.numpy()), a.double().numpy() @ b.double().numpy().T, atol=1e-3)
    return report, right


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_operands_from_tma_need_no_proxy_fence(profile, schedule):
    report, right = tma(profile, schedule)
    assert report.ok and right, str(report)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_another_swizzle_than_the_loads(profile, schedule):
    report, right = tma(profile, schedule, swizzle=0)
    assert [(one.kind, one.line) for one in report.findings] == [("bad_wgmma", TMA_PRODUCT)] and not right
    words = (
        "the descriptor of b says no swizzle, and its bytes were written by a TMA load with the swizzle of 128 bytes"
    )
    assert words in report.findings[0].message


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("with_", [0, 1])
def test_a_missing_wait_for_the_bytes(profile, with_, schedule):
    """Of all threads, or of all but one: what thread 0 waited for, the other warps do not know."""
    report, _ = tma(profile, schedule, with_)
    assert ("race", TMA_PRODUCT) in {(one.kind, one.line) for one in report.findings}, str(report)


# ---- ledger, timeline, stacks ----
def test_the_operands_are_counted(profile):
    report, _, _ = run(profile, KERNELS, "chain_kernel")
    step = report.lines[line_of(KERNELS, "STEP(d, 0, 1)")].shared_load
    assert vars(step) == {"requests": 1, "wavefronts": 0, "conflicts": 0, "bytes": 2 * 64 * 32}


def test_the_timeline_has_the_groups(profile):
    report, _, _ = run(profile, KERNELS, "chain_kernel", timeline=True)
    groups = [one for one in report.timeline if one.kind == EVENTS[-1]]
    assert EVENTS[-1] == "wgmma" and {one.warp for one in groups} == {0}  # of the warpgroup
    first, second = groups
    assert first.line == line_of(KERNELS, "STEP(d, 0, 1)") and second.line == line_of(KERNELS, "STEP(other, 3, 1)")
    assert first.start < first.end < second.end and second.start < first.end  # both in flight at once
    assert first.end - first.start >= 2 * 64 // 8


def test_an_event_inside_a_header_has_the_authors_line(profile):
    source = KERNELS.replace(
        "wgmma_m64k16_f32_f16_ss(d, a + 2 * (k), b + 2 * (k), scale)", "wgmma_ss(d, a, b, 1, __half())"
    )
    assert source != KERNELS
    report, _, _ = run(profile, source, "chain_kernel", timeline=True)
    groups = [one.line for one in report.timeline if one.kind == "wgmma"]
    assert groups == [line_of(source, "STEP(d, 0, 1)"), line_of(source, "STEP(other, 3, 1)")]


LARGE = (
    OPERANDS
    + r"""
extern "C" __global__ void __launch_bounds__(512) large_kernel(const float4* image, float* out, int what) {
    LOAD_OPERANDS;
    float acc[128], scores[64];
    unsigned probs[8][4];
    for (int i = 0; i < 128; ++i) acc[i] = 0.0f;
    for (int j = 0; j < 2; ++j) {
        wgmma_fence();
        wgmma_m64k16_f32_f16_ss(scores, a, b, 0);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        for (int i = 0; i < 32; ++i) probs[i / 4][i % 4] = scores[2 * i] > 0.0f ? 0x3c003c00 : 0;
        wgmma_fence();
        for (int k = 0; k < 8; ++k) wgmma_m64k16_f32_f16_rs(acc, probs[k], a, 1);
        wgmma_commit_group();
        wgmma_wait_group<0>();
    }
    float sum = 0.0f;
    for (int i = 0; i < 128; ++i) sum += acc[i];
    out[threadIdx.x] = sum;
}
"""
)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_four_warpgroups_of_many_registers(profile, schedule):
    """n = 256 and 128, so b has 256 rows: 64 KB. All four warpgroups have the same numbers."""
    image = torch.zeros(1024, 4)
    out = torch.ones(512)
    source = (
        LARGE.replace("i < 1024;", "i < 4096;").replace("image[i];", "image[i % 1024];").replace("smem + 8192", "smem")
    )
    report = profile(source, "large_kernel", 1, 512, image, out, 0, shared_bytes=65536, schedule=schedule)
    assert report.ok and (out == 0).all(), str(report)


@pytest.mark.parametrize("source", [KERNELS, LOCAL, TMA, LARGE])
def test_compiles_for_hopper(source):
    if source is LOCAL:  # the parts that no compiler takes for registers
        source = "\n".join(line for line in source.splitlines() if "// not registers" not in line)
    source = source.replace("__launch_bounds__(512)", "__launch_bounds__(128)")  # 512 threads have 128 registers each
    assert nvrtc.compile_cubin(source, arch="sm_90a", filename="wgmma.cu").resources
