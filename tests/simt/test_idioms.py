"""Common CUDA idioms: correct ones have no finding under any schedule, incorrect variants one with its line."""

import pytest
import torch

SCHEDULES = ["forward", "reverse", "random", "resident"]

SOURCE = r"""
struct Welford { double mean, m2; long long n; };
struct Pair { float x, y; };
__constant__ float weights[3] = {1.f, 2.f, 3.f};
__device__ void atomic_max_float(float* address, float value) {
    int* word = (int*)address;
    int old = *word, assumed;
    do {
        assumed = old;
        if (__int_as_float(assumed) >= value) break;
        old = atomicCAS(word, assumed, __float_as_int(value));
    } while (assumed != old);
}
template <bool SYNC>
__device__ void last_steps(volatile float* s, int t) {
    float v = s[t];
    for (int d = 16; d; d >>= 1) {
        v += s[t + d];
        __syncwarp();
        s[t] = v;
        if (SYNC) __syncwarp();
    }
}
template <bool SYNC>
__device__ void volatile_sum(const float* x, float* out) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) last_steps<SYNC>(s, threadIdx.x);
    if (threadIdx.x == 0) out[0] = s[0];
}
extern "C" {
__global__ void cas_right(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_max_float(out, x[i]);
}
__global__ void cas_then_look_wrong(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_max_float(out, x[i]);
    if (i == 40) out[1] = out[0];  // others may still be at it
}
__global__ void odd_structures_right(const float* x, float* out, int n) {
    __shared__ Welford parts[32];
    extern __shared__ float s[];
    Pair* pairs = reinterpret_cast<Pair*>(s + 1);
    int t = threadIdx.x;
    if (t >= 32) return;
    Welford mine = {x[t], 0.0, t};
    Pair pair{x[t], 1.f};
    parts[t] = mine;
    pairs[t] = pair;
    __syncwarp();
    Welford other = parts[31 - t];
    Pair others = pairs[31 - t];
    out[t] = other.mean + other.n + others.x + others.y;
}
__global__ void volatile_right(const float* x, float* out, int n) { volatile_sum<true>(x, out); }
__global__ void volatile_wrong(const float* x, float* out, int n) { volatile_sum<false>(x, out); }
__global__ void table_wrong(const float* x, float* out, int n) { out[threadIdx.x] = weights[threadIdx.x]; }
__global__ void scalar_wrong(const float* x, float* out, int n) {
    __shared__ float total;
    if (threadIdx.x == 0) total = x[0];
    out[threadIdx.x] = total;
}
__global__ void no_start_but_scaled(const float* x, float* out, int n) {
    float m = -INFINITY, l;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float m_new = fmaxf(m, x[i]);
        l = l * expf(m - m_new) + expf(x[i] - m_new);
        m = m_new;
    }
    out[threadIdx.x] = l;
}
__global__ void no_start_of_an_array(const float* x, float* out, int n) {
    float sums[8];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        for (int k = 0; k < 8; ++k) sums[k] += x[i] * k;
    out[threadIdx.x] = sums[n % 8] + sums[(n + 3) % 8];
}
__global__ void no_start(const float* x, float* out, int n) {
    float sum;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
    out[threadIdx.x] = sum;
}
}
"""
RIGHT = {"cas_right": 4, "odd_structures_right": 1, "volatile_right": 1}
WRONG = {
    "cas_then_look_wrong": (4, "race", "out[1] = out[0]", "out[0]"),
    "volatile_wrong": (1, "race", "v += s[t + d];", "s["),
    "table_wrong": (1, "out_of_bounds", "= weights[", "weights[3], but weights has 3 elements"),
    "scalar_wrong": (1, "race", "out[threadIdx.x] = total;", "reads total, which"),
}


def _run(profile, name, blocks, schedule):
    x, out = torch.arange(256.0), torch.full((64,), -1.0)
    return profile(SOURCE, name, blocks, 64, x, out, 256, schedule=schedule, shared_bytes=4 + 32 * 8), out


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_are_clean(profile, name, schedule):
    report, out = _run(profile, name, RIGHT[name], schedule)
    assert report.ok, str(report)
    expected = {"cas_right": 255.0, "volatile_right": 496.0, "odd_structures_right": 31.0 + 31 + 31 + 1}[name]
    assert out[0] == expected


@pytest.mark.parametrize("name", WRONG)
def test_wrong_twins_are_named(profile, name):
    blocks, kind, fragment, phrase = WRONG[name]
    lines = {number for number, line in enumerate(SOURCE.split("\n"), 1) if fragment in line}
    findings = [one for schedule in SCHEDULES for one in _run(profile, name, blocks, schedule)[0].findings]
    assert any(one.kind == kind and {one.line, one.other_line} & lines and phrase in one.message for one in findings), (
        findings
    )


@pytest.mark.parametrize("name", ["no_start", "no_start_but_scaled", "no_start_of_an_array"])
def test_a_sum_without_a_start_is_not_right_by_luck(profile, launch, name):
    for run in (profile, launch):
        out = torch.zeros(64)
        run(SOURCE, name, 1, 64, torch.ones(64), out, 64)
        assert not (out.abs() < 1e6).any()
