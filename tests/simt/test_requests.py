"""Requests, sectors and wavefronts against closed formulas: divergent loops, strides, offsets, vectors, banks."""

import pytest
import torch

LOOPS = r"""
#define T int t = threadIdx.x
extern "C" {
__global__ void nested(const float* a, float* o) {
    T; float s = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < (t + i) % 5; j++) s += a[(i * 8 + j) * 32 + t];
    o[t] = s;
}
__global__ void trips(const float* a, float* o) {
    T; float s = 0;
    for (int j = 0; j < t; j++) s += a[j * 32 + t];
    o[t] = s;
}
__global__ void causal(const float* a, float* o) {
    T;
    for (int r = t; r < 64; r += 32) {
        float s = 0;
        for (int j = 0; j <= r; j++) s += a[r * 64 + j];
        o[r] = s;
    }
}
__global__ void causal_balanced(const float* a, float* o) {
    T;
    for (int k = 0; k < 2; k++) {
        int r = k ? 63 - t : t;
        float s = 0;
        for (int j = 0; j <= r; j++) s += a[r * 64 + j];
        o[r] = s;
    }
}
__global__ void if_else(const float* a, float* o) {
    T; float s;
    if (t & 1) s = a[t] * 2.f;
    else s = a[t + 64] + 1.f;
    o[t] = s;
}
__global__ void skipping(const float* a, float* o) {
    T; float s = 0;
    for (int i = 0; i < 4; i++) {
        float g = a[i * 32 + t];
        if ((t + i) & 1) continue;
        s += a[1024 + i * 32 + t] + g;
    }
    o[t] = s;
}
__global__ void search(const float* a, float* o) {
    T; float s = 0;
    for (int i = 0; i < 2; i++) {
        int j = 0;
        while (true) {
            s += a[j * 32 + t];
            if (j == (t * 3 + i * 2) % 7) break;
            j++;
        }
        o[i * 32 + t] = s;
    }
}
__global__ void guard(const float* a, float* o) {
    T;
    for (int i = t; i < 100; i += 32) o[i] = a[i] * 2.f;
}
__device__ __noinline__ float walk(const float* a, int n, int t) {
    float s = 0;
    for (int j = 0; j < n; j++) s += a[j * 32 + t];
    return s;
}
__global__ void calls(const float* a, float* o) {
    T;
    float s = walk(a, t % 4, t);
    s += walk(a, (t + 1) % 4, t);
    o[t] = s;
}
}
"""


@pytest.mark.parametrize(
    ("name", "loads", "stores"),
    [
        ("nested", 12, 1),
        ("trips", 31, 1),
        ("causal", 96, 2),
        ("causal_balanced", 96, 2),
        ("if_else", 2, 1),
        ("skipping", 8, 1),
        ("search", 14, 2),
        ("guard", 4, 4),
        ("calls", 6, 1),
    ],
)
@pytest.mark.parametrize("schedule", ["forward", "random"])
def test_requests_follow_the_iterations_of_every_loop(profile, name, loads, stores, schedule):
    report = profile(LOOPS, name, 1, 32, torch.rand(8192), torch.zeros(128), schedule=schedule)
    assert (report.global_load.requests, report.global_store.requests) == (loads, stores)
    assert report.ok and report.exact


PARTED = r"""
extern "C" __global__ void parted(const float* a, float* o, int rounds) {
    int t = threadIdx.x;
    float s = 0;
    for (int round = 0; round < rounds; round++) {
        if (round >= rounds / 2 && t % 3)
            for (int j = 0; j < t % 3; j++) s += a[t];
        s += a[64 + t];
        __syncthreads();
    }
    o[t] = s;
}
"""


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
@pytest.mark.parametrize("rounds", [2, 1500])
def test_lanes_that_part_in_a_round_meet_again_in_it(profile, rounds, schedule):
    """Those of 1,500 rounds part after flushes at barriers, and there are more to come."""
    report = profile(PARTED, "parted", 1, 64, torch.rand(128), torch.zeros(64), rounds, schedule=schedule)
    by_warp = rounds // 2 * 1 + rounds // 2 * (2 + 1)
    assert (report.global_load.requests, report.global_store.requests) == (2 * by_warp, 2)
    assert report.ok and report.exact


ACCESS = r"""
extern "C" {
__global__ void strided(const float* a, float* o, int stride) { o[threadIdx.x] = a[threadIdx.x * stride]; }
__global__ void broadcast(const float* a, float* o) { o[threadIdx.x] = a[7]; }
__global__ void vector(const float4* a, float4* o) { o[threadIdx.x] = a[threadIdx.x]; }
__global__ void pairs(const float2* a, float2* o) { o[threadIdx.x] = a[threadIdx.x]; }
__global__ void halves(const unsigned short* a, unsigned short* o) { o[threadIdx.x] = a[threadIdx.x]; }
__global__ void banks(float* o, int stride) {
    __shared__ float s[32 * 33];
    int t = threadIdx.x;
    for (int i = t; i < 32 * 33; i += 32) s[i] = i;
    __syncthreads();
    o[t] = s[t * stride];
}
__global__ void wide_banks(float* o, int stride) {
    __shared__ float4 s[256];
    int t = threadIdx.x;
    for (int i = t; i < 256; i += 32) s[i] = make_float4(i, 0.f, 0.f, 0.f);
    __syncthreads();
    float4 v = s[t * stride];
    o[t] = v.x + v.w;
}
__global__ void double_banks(double* o, int stride) {
    __shared__ double s[512];
    int t = threadIdx.x;
    for (int i = t; i < 512; i += 32) s[i] = i;
    __syncthreads();
    o[t] = s[t * stride];
}
}
"""


@pytest.mark.parametrize("stride", [1, 2, 4, 8, 32])
def test_sectors_of_a_strided_load(profile, stride):
    report = profile(ACCESS, "strided", 1, 32, torch.rand(1024), torch.zeros(32), stride)
    load = report.global_load
    assert (load.requests, load.bytes) == (1, 128)
    assert load.sectors == min(32, 4 * stride)
    assert load.ideal_sectors == 4
    assert report.global_store.sectors == 4


def test_an_offset_of_one_float_costs_a_fifth_sector(profile):
    report = profile(ACCESS, "strided", 1, 32, torch.rand(1024)[1:], torch.zeros(32), 1)
    assert (report.global_load.sectors, report.global_load.ideal_sectors) == (5, 4)


def test_broadcast_is_one_sector(profile):
    report = profile(ACCESS, "broadcast", 1, 32, torch.rand(64), torch.zeros(32))
    assert (report.global_load.requests, report.global_load.sectors, report.global_load.ideal_sectors) == (1, 1, 1)


@pytest.mark.parametrize(
    ("name", "width", "dtype"), [("vector", 4, torch.float32), ("pairs", 2, torch.float32), ("halves", 1, torch.int16)]
)
def test_a_vector_is_one_request(profile, name, width, dtype):
    a = torch.arange(32 * width).to(dtype)
    out = torch.zeros_like(a)
    report = profile(ACCESS, name, 1, 32, a, out)
    assert torch.equal(a, out)
    for side in (report.global_load, report.global_store):
        assert side.requests == 1
        assert side.bytes == 32 * width * a.element_size()
        assert side.sectors == side.bytes // 32


def _wavefronts(stride, words, per_pass):
    """Passes of 32 lanes that read `words` consecutive words each, `stride` elements apart."""
    total = 0
    for first in range(0, 32, per_pass):
        banks = {}
        for lane in range(first, first + per_pass):
            for word in range(words):
                address = lane * stride * words + word
                banks.setdefault(address % 32, set()).add(address)
        total += max(map(len, banks.values()))
    return total


@pytest.mark.parametrize("stride", [0, 1, 2, 4, 32, 33])
def test_bank_conflicts_of_words(profile, stride):
    report = profile(ACCESS, "banks", 1, 32, torch.zeros(32), stride)
    assert report.shared_load.requests == 1
    assert (
        report.shared_load.wavefronts == {0: 1, 1: 1, 2: 2, 4: 4, 32: 32, 33: 1}[stride] == _wavefronts(stride, 1, 32)
    )
    assert report.shared_load.conflicts == report.shared_load.wavefronts - 1
    assert (report.shared_store.requests, report.shared_store.conflicts) == (33, 0)


@pytest.mark.parametrize("stride", [0, 1, 2, 8])
def test_bank_conflicts_of_vectors(profile, stride):
    report = profile(ACCESS, "wide_banks", 1, 32, torch.zeros(32), stride)
    assert report.shared_load.requests == 1
    per_pass = 16 if stride == 0 else 8  # two quarter-warps go together where neighbours read the same (H200)
    assert report.shared_load.wavefronts == _wavefronts(stride, 4, per_pass)
    assert report.shared_load.conflicts == _wavefronts(stride, 4, per_pass) - 32 // per_pass


@pytest.mark.parametrize("stride", [1, 2, 16])
def test_bank_conflicts_of_doubles(profile, stride):
    report = profile(ACCESS, "double_banks", 1, 32, torch.zeros(32, dtype=torch.float64), stride)
    assert report.shared_load.wavefronts == _wavefronts(stride, 2, 16)


def test_traffic_stands_at_its_line(profile):
    report = profile(ACCESS, "banks", 1, 32, torch.zeros(32), 32)
    (line,) = [number for number, one in report.lines.items() if one.shared_load.requests]
    assert ACCESS.splitlines()[line - 1].strip() == "o[t] = s[t * stride];"
    assert report.lines[line].shared_load.conflicts == 31
    assert report.ledger()["lines"][str(line)]["shared_load"]["wavefronts"] == 32


SHARES = r"""
extern "C" __global__ void uneven(const float* a, float* o, int rounds) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = 0;
    for (int round = 0; round < rounds; round++) {
        __syncthreads();
        if (t == 5) for (int i = 0; i < 3; i++) s[i] += a[i];
    }
    if (blockIdx.x == 1) *(float2*)(o + 2 * t) = make_float2(s[0], s[1]);
    atomicAdd(o + 200, 1.0f);
}
"""


@pytest.mark.parametrize("rounds", [2, 3000])
def test_the_largest_share_of_a_thread(profile, rounds):
    report = profile(SHARES, "uneven", 2, 64, torch.zeros(3), torch.zeros(201), rounds)
    own = 12 * rounds
    expected = {"global_load": own, "global_store": 8, "shared_load": own + 8, "shared_store": own + 4}
    assert report.largest_share == expected == report.ledger()["largest_share"]  # over flushes between barriers, too
