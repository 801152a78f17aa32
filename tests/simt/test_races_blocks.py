"""Races between blocks: what fences publish and atomics carry, in every schedule."""

import pytest
import torch

SCHEDULES = ["forward", "reverse", "random", "resident"]
BLOCKS, THREADS = 6, 64

SOURCE = r"""
// The last block to finish adds up what all wrote. STYLE 0: barrier, then one thread fences and takes the ticket;
// STYLE 1: every thread fences, then a barrier, then one thread takes the ticket. After the ticket: that thread fences
// before the barrier (ACQUIRE 1), every thread after it (2), none does and reads with __ldcg (3), or one of block scope
// does (4).
template <int FENCE, bool BARRIER, int STYLE, int ACQUIRE = 1>
__device__ __forceinline__ void last_block(const float* a, float* partial, float* out, unsigned* count) {
    __shared__ float s[64];
    __shared__ bool last;
    int t = threadIdx.x, b = blockIdx.x, nb = gridDim.x, nt = blockDim.x;
    float v = 0.f;
    for (int i = 0; i < 4; i++) v += a[(b * 4 + i) * nt + t];
    partial[b * nt + t] = v;
    if (STYLE == 1 && FENCE == 1) __threadfence();
    if (FENCE == 2) __threadfence_block();
    if (BARRIER) __syncthreads();
    if (t == 0) {
        if (STYLE == 0 && FENCE == 1) __threadfence();
        last = atomicAdd(count, 1u) == nb - 1;
        if (ACQUIRE == 1) __threadfence();
        if (ACQUIRE == 4) __threadfence_block();
    }
    __syncthreads();
    if (last) {
        if (ACQUIRE == 2) __threadfence();
        float r = 0.f;
        for (int k = 0; k < nb; k++) r += ACQUIRE == 3 ? __ldcg(&partial[k * nt + t]) : partial[k * nt + t];
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
__global__ void last_one_fences(ARGS) { last_block<1, true, 0>(a, partial, out, count); }
__global__ void last_all_fence(ARGS) { last_block<1, true, 1>(a, partial, out, count); }
__global__ void last_readers_fence(ARGS) { last_block<1, true, 1, 2>(a, partial, out, count); }
__global__ void last_no_fence(ARGS) { last_block<0, true, 0>(a, partial, out, count); }
__global__ void last_block_fence(ARGS) { last_block<2, true, 1>(a, partial, out, count); }
__global__ void last_no_barrier(ARGS) { last_block<1, false, 0>(a, partial, out, count); }
__global__ void last_no_acquire(ARGS) { last_block<1, true, 1, 0>(a, partial, out, count); }
__global__ void last_cached_reads(ARGS) { last_block<1, true, 1, 3>(a, partial, out, count); }
__global__ void last_block_acquire(ARGS) { last_block<1, true, 0, 4>(a, partial, out, count); }
// The ticket's value is read by a plain load in the thread that took it.
__global__ void ticket_plain(ARGS) {
    if (threadIdx.x == 0) { unsigned ticket = count[0]; count[0] = ticket + 1; }
}
__global__ void ticket_of_block_scope(ARGS) { if (threadIdx.x == 0) atomicAdd_block(count, 1u); }
__global__ void ticket_of_system_scope(ARGS) { if (threadIdx.x == 0) atomicAdd_system(count, 1u); }
// Volatile on both sides, as in the programming guide's sample: strong accesses do not race.
__global__ void volatile_partials(ARGS) {
    __shared__ bool last;
    volatile float* parts = partial;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = 1.f;
        __threadfence();
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x < gridDim.x) atomicAdd(out, parts[threadIdx.x]);
}
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
    if (t == 0) {
        mine = atomicAdd(count, 1u);
        __threadfence();
    }
    mine = __shfl_sync(0xffffffffu, mine, 0);
    __syncwarp();  // what lane 0 acquired, for the others: a shuffle orders no memory
    if (mine == nb - 1) {
        float r = 0.f;
        for (int k = 0; k < nb; k++) r += partial[k * 32 + t];
        atomicAdd(out, r);
    }
}
__global__ void lock_no_acquire(ARGS) {
    if (threadIdx.x == 0) {
        while (atomicCAS(count, 0u, 1u)) { }
        out[0] += 1.f;
        __threadfence();
        atomicExch(count, 0u);
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
__global__ void volatile_chain_no_acquire(ARGS) {
    if (threadIdx.x != 0) return;
    volatile unsigned* flag = count;
    while (*flag != blockIdx.x) { }
    out[0] += 1.f;
    __threadfence();
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
    "last_readers_fence",
    "ticket_of_system_scope",
    "volatile_partials",
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
    "last_block_fence",
    "last_no_acquire",
    "last_cached_reads",
    "last_block_acquire",
    "ticket_plain",
    "ticket_of_block_scope",
    "lock_no_acquire",
    "volatile_chain_no_acquire",
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
            "volatile_partials": BLOCKS,
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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("last_no_fence", "no __threadfence() lies between that write and the atomic of its block that announces it"),
        ("last_block_fence", "only a __threadfence_block() lies between that write and the atomic of its block"),
        ("last_no_acquire", "no __threadfence() follows it before this access"),
        ("last_cached_reads", "__ldcg does not replace the fence"),
        ("last_block_acquire", "no __threadfence() follows it before this access"),
        ("ticket_of_block_scope", "an atomic of block scope"),
        ("accumulate_plain", "with nothing that orders the two blocks (a race on global memory)"),
        ("last_no_barrier", "with nothing that orders the two blocks (a race on global memory)"),
    ],
)
def test_the_sentence_says_which_side_lacks_what(profile, name, words):
    report, _, _ = _run(profile, name, "forward")
    sentences = [race.message for race in report.races]
    assert any(words in sentence for sentence in sentences), sentences


def test_a_block_fence_orders_the_own_block(profile):
    """A flag of block scope between two warps, in global memory; another block's flag is another variable."""
    source = r"""
    extern "C" __global__ void flags(unsigned* flags, float* data, float* out) {
        unsigned* flag = flags + blockIdx.x;
        float* value = data + blockIdx.x;
        if (threadIdx.x == 32) { *value = 1.f; __threadfence_block(); atomicExch_block(flag, 1u); }
        if (threadIdx.x == 0) {
            while (atomicAdd_block(flag, 0u) == 0) { }
            FENCE
            out[blockIdx.x] = *value;
        }
    }"""
    for fence, races in (("__threadfence_block();", 0), ("", 1)):
        out = torch.zeros(BLOCKS)
        arguments = torch.zeros(BLOCKS, dtype=torch.int32), torch.zeros(BLOCKS), out
        report = profile(source.replace("FENCE", fence), "flags", BLOCKS, THREADS, *arguments)
        assert len(report.findings) == races and out.sum() == BLOCKS, str(report)
        assert not races or "no __threadfence_block() follows" in report.races[0].message


def test_shared_flags_of_two_blocks_are_two_variables(profile):
    """Each block's counter is at the same shared address; it carries nothing from block to block."""
    source = r"""
    extern "C" __global__ void own_counters(float* out) {
        __shared__ unsigned count;
        if (threadIdx.x != 0) return;
        count = 0;
        atomicAdd(&count, 1u);
        __threadfence();
        out[0] = blockIdx.x;
        __threadfence();
        atomicAdd(&count, 1u);
        __threadfence();
    }"""
    report = profile(source, "own_counters", BLOCKS, THREADS, torch.zeros(1))
    assert report.races, str(report)


EQUAL = r"""
extern "C" __global__ void equal_writes(float* out, float* own) {
    __shared__ int any;
    if (threadIdx.x THREADS) any = VALUE;
    __syncthreads();
    out[0] = any;
    own[blockIdx.x * blockDim.x + threadIdx.x] = any;
}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_writes_of_one_value_by_several_warps_and_blocks_are_remarks(profile, schedule):
    source = EQUAL.replace("VALUE", "1").replace("THREADS", ">= 0")
    report = profile(source, "equal_writes", 3, 64, torch.zeros(1), torch.zeros(192), schedule=schedule)
    assert report.ok, str(report)
    assert {remark.partition(":")[0] for remark in report.remarks} == {"line 4", "line 6"}
    for words in ("any, which thread", "out[0], which thread", "both wrote the same value, so this is no finding"):
        assert any(words in remark for remark in report.remarks), report.remarks


def test_lanes_of_one_warp_that_write_one_value_are_no_remark(profile):
    source = EQUAL.replace("VALUE", "1").replace("THREADS", "< 32").replace("out[0] = any;", "")
    report = profile(source, "equal_writes", 3, 64, torch.zeros(1), torch.zeros(192))
    assert report.ok and not report.remarks, report.remarks


def test_writes_of_different_values_are_findings_and_no_remarks(profile):
    source = EQUAL.replace("VALUE", "threadIdx.x").replace("THREADS", ">= 0").replace("out[0] = any;", "")
    report = profile(source, "equal_writes", 3, 64, torch.zeros(1), torch.zeros(192))
    assert report.races and not report.remarks
