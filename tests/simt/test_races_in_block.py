"""Races inside a block and inside a warp; every racing kernel has a correct variant that has no finding."""

import pytest
import torch

SCHEDULES = ["forward", "reverse", "random", "resident"]

SOURCE = r"""
#define FULL 0xffffffffu
template <bool SYNC>
__device__ __forceinline__ void neighbour(const float* a, float* o) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = a[t];
    if (SYNC) __syncthreads();
    o[t] = t ? s[t - 1] : 0.f;
}
template <bool AFTER_LOAD, bool BEFORE_NEXT>
__device__ __forceinline__ void tiles(const float* a, float* o) {
    __shared__ float s[64];
    int t = threadIdx.x;
    float sum = 0.f;
    for (int tile = 0; tile < 3; tile++) {
        s[t] = a[tile * 64 + t];
        if (AFTER_LOAD) __syncthreads();
        for (int k = 0; k < 64; k++) sum += s[(t + k) % 64];
        if (BEFORE_NEXT) __syncthreads();
    }
    o[t] = sum;
}
template <int WHERE>
__device__ __forceinline__ void warp_tree(const float* a, float* o) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = a[t];
    if (WHERE != 0) __syncwarp();
    for (int d = 16; d; d >>= 1) {
        if (t < d) s[t] += s[t + d];
        if (WHERE != 1) __syncwarp();
    }
    if (t == 0) o[0] = s[0];
}
// A shuffle and a vote bring the lanes together and order no memory.
template <int WHICH, bool SYNC>
__device__ __forceinline__ void other_collective(const float* a, float* o) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = a[t];
    float v = 1.f;
    if (WHICH == 0) v = __shfl_xor_sync(FULL, a[t], 1);
    if (WHICH == 1) v = __any_sync(FULL, t < 64);
    if (WHICH == 2) v = __reduce_add_sync(FULL, 1u);
    if (WHICH == 3) v = __match_any_sync(FULL, t);
    if (SYNC) __syncwarp();
    o[t] = s[t ^ 1] + v * 0.f;
}
// A mask of half a warp orders that half only.
template <int DISTANCE>
__device__ __forceinline__ void half_mask(const float* a, float* o) {
    __shared__ float s[64];
    int t = threadIdx.x, lane = t % 32;
    unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    s[t] = a[t];
    __syncwarp(mask);
    o[t] = s[t ^ DISTANCE];
}
// All threads write one cell. The same value is no race: what the other wrote is what I write.
template <bool SAME>
__device__ __forceinline__ void one_cell(const float* a, float* o) {
    __shared__ int found;
    int t = threadIdx.x;
    if (t == 0) found = SAME ? 0 : -1;
    __syncthreads();
    if (a[t] >= 0.f) found = SAME ? 1 : t;
    __syncthreads();
    o[t] = found;
}
// Two threads write the two halves of one word.
template <bool SYNC>
__device__ __forceinline__ void halves(const short* a, short* o) {
    __shared__ short s[64];
    s[threadIdx.x] = a[threadIdx.x];
    if (SYNC) __syncthreads();
    o[threadIdx.x] = s[63 - threadIdx.x];
}
// A flag between two warps: write, fence, atomic; atomic, fence, read.
template <bool RELEASE, bool ACQUIRE>
__device__ __forceinline__ void flagged(const float* a, float* o) {
    __shared__ float value;
    __shared__ unsigned flag;
    int t = threadIdx.x;
    if (t == 0) flag = 0;
    __syncthreads();
    if (t == 63) {
        value = a[0];
        if (RELEASE) __threadfence_block();
        atomicExch(&flag, 1u);
    }
    if (t == 0) {
        while (atomicAdd(&flag, 0u) == 0) { }
        if (ACQUIRE) __threadfence_block();
        o[0] = value;
    }
}
extern "C" {
__global__ void neighbour_right(const float* a, float* o) { neighbour<true>(a, o); }
__global__ void neighbour_wrong(const float* a, float* o) { neighbour<false>(a, o); }
__global__ void tiles_right(const float* a, float* o) { tiles<true, true>(a, o); }
__global__ void tiles_no_first(const float* a, float* o) { tiles<false, true>(a, o); }
__global__ void tiles_no_second(const float* a, float* o) { tiles<true, false>(a, o); }
__global__ void warp_tree_right(const float* a, float* o) { if (threadIdx.x < 32) warp_tree<2>(a, o); }
__global__ void warp_tree_no_first(const float* a, float* o) { if (threadIdx.x < 32) warp_tree<0>(a, o); }
__global__ void warp_tree_no_second(const float* a, float* o) { if (threadIdx.x < 32) warp_tree<1>(a, o); }
// In one statement: each lane reads a neighbour's cell and writes its own. Lock step is no excuse.
__global__ void rotate_wrong(const float* a, float* o) {
    __shared__ float s[64];
    int t = threadIdx.x, lane = t % 32, base = t - lane;
    s[t] = a[t];
    __syncwarp();
    s[t] = s[base + (lane + 1) % 32];
    __syncwarp();
    o[t] = s[t];
}
__global__ void rotate_right(const float* a, float* o) {
    __shared__ float s[64];
    int t = threadIdx.x, lane = t % 32, base = t - lane;
    s[t] = a[t];
    __syncwarp();
    float v = s[base + (lane + 1) % 32];
    __syncwarp();
    s[t] = v;
    __syncwarp();
    o[t] = s[t];
}
__global__ void shuffle_right(const float* a, float* o) { other_collective<0, true>(a, o); }
__global__ void shuffle_wrong(const float* a, float* o) { other_collective<0, false>(a, o); }
__global__ void vote_wrong(const float* a, float* o) { other_collective<1, false>(a, o); }
__global__ void reduce_wrong(const float* a, float* o) { other_collective<2, false>(a, o); }
__global__ void match_wrong(const float* a, float* o) { other_collective<3, false>(a, o); }
__global__ void other_warp_wrong(const float* a, float* o) {  // __syncwarp is not enough across warps
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = a[t];
    __syncwarp();
    o[t] = s[63 - t];
}
__global__ void half_mask_right(const float* a, float* o) { half_mask<1>(a, o); }
__global__ void half_mask_wrong(const float* a, float* o) { half_mask<16>(a, o); }
__global__ void same_value_right(const float* a, float* o) { one_cell<true>(a, o); }
__global__ void different_values_wrong(const float* a, float* o) { one_cell<false>(a, o); }
__global__ void halves_right(const short* a, short* o) { halves<true>(a, o); }
__global__ void halves_wrong(const short* a, short* o) { halves<false>(a, o); }
__global__ void bytes_right(const unsigned char* a, unsigned char* o) {
    __shared__ unsigned char s[64];
    int t = threadIdx.x;
    s[t] = a[t];
    __syncthreads();
    unsigned word = *reinterpret_cast<unsigned*>(&s[t & ~3]);
    o[t] = word >> (8 * (t & 3)) & 255;
}
__global__ void shared_counter_right(const float* a, float* o) {
    __shared__ unsigned count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    unsigned mine = atomicAdd(&count, 1u);
    __syncthreads();
    o[mine] = a[mine] * 0.f + count;
}
__global__ void shared_counter_wrong(const float* a, float* o) {
    __shared__ unsigned count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    unsigned mine = count++;
    __syncthreads();
    o[threadIdx.x] = a[0] * 0.f + mine;
}
__global__ void flag_right(const float* a, float* o) { flagged<true, true>(a, o); }
__global__ void flag_no_acquire(const float* a, float* o) { flagged<true, false>(a, o); }
__global__ void flag_wrong(const float* a, float* o) { flagged<false, false>(a, o); }
__global__ void all_read_one_writes(const float* a, float* o) {  // broadcast, then overwritten without a barrier
    __shared__ float s;
    int t = threadIdx.x;
    if (t == 0) s = a[0];
    __syncthreads();
    o[t] = s;
    if (t == 5) s = 2.f;
}
}
"""
RIGHT = [
    "neighbour_right",
    "tiles_right",
    "warp_tree_right",
    "rotate_right",
    "shuffle_right",
    "half_mask_right",
    "same_value_right",
    "halves_right",
    "bytes_right",
    "shared_counter_right",
    "flag_right",
]
WRONG = [
    "neighbour_wrong",
    "tiles_no_first",
    "tiles_no_second",
    "warp_tree_no_first",
    "warp_tree_no_second",
    "rotate_wrong",
    "other_warp_wrong",
    "half_mask_wrong",
    "shuffle_wrong",
    "vote_wrong",
    "reduce_wrong",
    "match_wrong",
    "different_values_wrong",
    "halves_wrong",
    "shared_counter_wrong",
    "flag_wrong",
    "flag_no_acquire",
    "all_read_one_writes",
]


def _arguments(name):
    dtype = torch.int16 if name.startswith("halves") else torch.uint8 if name.startswith("bytes") else torch.float32
    a = (torch.arange(192) + 1).to(dtype)
    return a, torch.zeros(64, dtype=dtype)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_are_clean(profile, name, schedule):
    a, out = _arguments(name)
    report = profile(SOURCE, name, 1, 64, a, out, schedule=schedule)
    assert report.ok, str(report)
    expected = {"halves_right": a[:64].flip(0), "bytes_right": a[:64]}
    assert name not in expected or torch.equal(out, expected[name])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", WRONG)
def test_races_are_caught_in_every_schedule(profile, name, schedule):
    a, out = _arguments(name)
    report = profile(SOURCE, name, 1, 64, a, out, schedule=schedule)
    assert report.races, str(report)
    assert {race.space for race in report.races} == {"shared"}
    assert {finding.kind for finding in report.findings} <= {"race", "uninitialised_read"}


def test_the_sentence_names_both_lines_and_both_threads(profile):
    a, out = _arguments("neighbour_wrong")
    race = profile(SOURCE, "neighbour_wrong", 1, 64, a, out).races[0]
    lines = SOURCE.splitlines()
    assert lines[race.line - 1].strip() == "o[t] = t ? s[t - 1] : 0.f;"
    assert lines[race.other_line - 1].strip() == "s[t] = a[t];"
    assert race.count == 63
    assert race.message == (
        f"line {race.line}: thread (1,0,0) reads s[0], which thread (0,0,0) wrote at line "
        f"{race.other_line} with no barrier between (a race on shared memory)."
    )
