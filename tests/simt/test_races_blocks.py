"""Races between blocks: what fences publish and atomics carry, in every schedule."""

import pytest
import torch

SCHEDULES = ["forward", "reverse", "random", "resident"]
BLOCKS, THREADS = 6, 64

SOURCE = r"""
// The last block to finish adds up what all wrote. STYLE 0: barrier, then one thread fences and takes the ticket;
// STYLE 1: every thread fences, then a barrier, then one thread takes the ticket.
template <bool FENCE, bool BARRIER, int STYLE>
__device__ __forceinline__ void last_block(const float* a, float* partial, float* out, unsigned* count) {
    __shared__ float s[64];
    __shared__ bool last;
    int t = threadIdx.x, b = blockIdx.x, nb = gridDim.x, nt = blockDim.x;
    float v = 0.f;
    for (int i = 0; i < 4; i++) v += a[(b * 4 + i) * nt + t];
    partial[b * nt + t] = v;
    if (STYLE == 1 && FENCE) __threadfence();
    if (BARRIER) __syncthreads();
    if (t == 0) {
        if (STYLE == 0 && FENCE) __threadfence();
        last = atomicAdd(count, 1u) == nb - 1;
    }
    __syncthreads();
    if (last) {
        float r = 0.f;
        for (int k = 0; k < nb; k++) r += partial[k * nt + t];
        s[t] = r;
        __syncthreads();
        for (int d = nt / 2; d; d >>= 1) {
            if (t < d) s[t] += s[t + d];
            __syncthreads();
        }
        if (t == 0) out[0] = s[0];
    }
}
extern "C" {
__global__ void last_one_fences(ARGS) { last_block<true, true, 0>(a, partial, out, count); }
__global__ void last_all_fence(ARGS) { last_block<true, true, 1>(a, partial, out, count); }
__global__ void last_no_fence(ARGS) { last_block<false, true, 0>(a, partial, out, count); }
__global__ void last_no_barrier(ARGS) { last_block<true, false, 0>(a, partial, out, count); }
__global__ void accumulate_plain(ARGS) { if (threadIdx.x == 0) out[0] += 1.f; }
__global__ void accumulate_atomic(ARGS) { if (threadIdx.x == 0) atomicAdd(out, 1.f); }
__global__ void accumulate_all_atomic(ARGS) { atomicAdd(out, 1.f); }
__global__ void ticket_then_plain(ARGS) { if (threadIdx.x == 0) { atomicAdd(count, 1u); out[0] += 1.f; } }
__global__ void plain_then_ticket(ARGS) {
    if (threadIdx.x == 0) { out[0] += 1.f; __threadfence(); atomicAdd(count, 1u); }
}
__global__ void ticket_plain_ticket(ARGS) {
    if (threadIdx.x == 0) { atomicAdd(count, 1u); out[0] += 1.f; __threadfence(); atomicAdd(count, 1u); }
}
__global__ void lock(ARGS) {
    if (threadIdx.x == 0) {
        while (atomicCAS(count, 0u, 1u)) { }
        __threadfence();
        out[0] += 1.f;
        __threadfence();
        atomicExch(count, 0u);
    }
}
__global__ void lock_no_fence(ARGS) {
    if (threadIdx.x == 0) {
        while (atomicCAS(count, 0u, 1u)) { }
        out[0] += 1.f;
        atomicExch(count, 0u);
    }
}
__global__ void grid_barrier(ARGS) {
    int t = threadIdx.x, other = (blockIdx.x + 1) % gridDim.x;
    partial[blockIdx.x * blockDim.x + t] = 1.f;
    __syncthreads();
    if (t == 0) {
        __threadfence();
        atomicAdd(count, 1u);
        while (atomicAdd(count, 0u) < gridDim.x) { }
        __threadfence();
    }
    __syncthreads();
    float got = partial[other * blockDim.x + t];
    if (got != 1.f) atomicAdd(out, 1.f);
}
__global__ void grid_barrier_no_fence(ARGS) {
    int t = threadIdx.x, other = (blockIdx.x + 1) % gridDim.x;
    partial[blockIdx.x * blockDim.x + t] = 1.f;
    __syncthreads();
    if (t == 0) {
        atomicAdd(count, 1u);
        while (atomicAdd(count, 0u) < gridDim.x) { }
    }
    __syncthreads();
    float got = partial[other * blockDim.x + t];
    if (got != 1.f) atomicAdd(out, 1.f);
}
// A warp's lanes write, fence, and meet with __syncwarp before lane 0 takes the ticket for them.
__global__ void warp_tickets(ARGS) {
    __shared__ unsigned ticket;
    int t = threadIdx.x, nb = gridDim.x;
    if (t >= 32) return;
    partial[blockIdx.x * 32 + t] = 2.f;
    __threadfence();
    __syncwarp();
    unsigned mine = 0;
    if (t == 0) mine = atomicAdd(count, 1u);
    mine = __shfl_sync(0xffffffffu, mine, 0);
    __syncwarp();  // what lane 0 acquired, for the others: a shuffle orders no memory
    if (mine == nb - 1) {
        float r = 0.f;
        for (int k = 0; k < nb; k++) r += partial[k * 32 + t];
        atomicAdd(out, r);
    }
}
// Each block waits for the one before it: a volatile flag, with fences around.
__global__ void volatile_chain(ARGS) {
    if (threadIdx.x != 0) return;
    volatile unsigned* flag = count;
    while (*flag != blockIdx.x) { }
    __threadfence();
    out[0] += 1.f;
    __threadfence();
    *flag = blockIdx.x + 1;
}
__global__ void volatile_chain_no_fence(ARGS) {
    if (threadIdx.x != 0) return;
    volatile unsigned* flag = count;
    while (*flag != blockIdx.x) { }
    out[0] += 1.f;
    *flag = blockIdx.x + 1;
}
__global__ void neighbours_rows(ARGS) {  // each block writes its own rows, next to each other
    partial[blockIdx.x * blockDim.x + threadIdx.x] = a[threadIdx.x];
}
__global__ void overlapping_rows(ARGS) {  // one element too many: the first of the next block
    int b = blockIdx.x * blockDim.x;
    partial[b + threadIdx.x] = a[b + threadIdx.x];
    if (threadIdx.x == 0 && blockIdx.x + 1 < gridDim.x) partial[b + blockDim.x] = a[b];
}
}
""".replace("ARGS", "const float* a, float* partial, float* out, unsigned* count")
CLEAN = [
    "last_one_fences",
    "last_all_fence",
    "accumulate_atomic",
    "accumulate_all_atomic",
    "lock",
    "grid_barrier",
    "warp_tickets",
    "volatile_chain",
    "neighbours_rows",
]
RACY = [
    "last_no_fence",
    "last_no_barrier",
    "accumulate_plain",
    "ticket_then_plain",
    "plain_then_ticket",
    "lock_no_fence",
    "grid_barrier_no_fence",
    "overlapping_rows",
    "volatile_chain_no_fence",
]


def _run(profile, name, schedule, seed=0):
    a = torch.rand(BLOCKS * 4 * THREADS)
    partial, out = torch.zeros(BLOCKS * THREADS), torch.zeros(4)
    count = torch.zeros(1, dtype=torch.int32)
    report = profile(SOURCE, name, BLOCKS, THREADS, a, partial, out, count, schedule=schedule, seed=seed)
    return report, a, out


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CLEAN)
def test_correct_kernels_are_clean(profile, name, schedule):
    for seed in range(3 if schedule in ("random", "resident") else 1):
        report, a, out = _run(profile, name, schedule, seed)
        assert report.ok, str(report)
        if name.startswith("last"):
            assert abs(out[0] - a.sum()) < 1e-2
        expected = {
            "accumulate_atomic": BLOCKS,
            "accumulate_all_atomic": BLOCKS * THREADS,
            "lock": BLOCKS,
            "volatile_chain": BLOCKS,
            "grid_barrier": 0,
            "warp_tickets": 2 * 32 * BLOCKS,
        }
        assert name not in expected or out[0] == expected[name]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", RACY)
def test_unordered_blocks_are_caught(profile, name, schedule):
    report, _, _ = _run(profile, name, schedule)
    assert report.races, str(report)
    assert all(race.space == "global" and race.line and race.other_line for race in report.races)


@pytest.mark.parametrize("seed", range(4))
def test_only_blocks_alive_together_show_what_the_second_ticket_hides(profile, seed):
    report, _, _ = _run(profile, "ticket_plain_ticket", "resident", seed)
    assert report.races


def test_a_plain_accumulation_is_named_with_both_blocks(profile):
    report, _, _ = _run(profile, "accumulate_plain", "forward")
    race = report.races[0]
    assert "block (1,0,0)" in race.message and "out[0]" in race.message and "block (0,0,0)" in race.message
    assert SOURCE.splitlines()[race.line - 1].startswith("__global__ void accumulate_plain")
