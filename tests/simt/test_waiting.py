"""Threads and blocks that wait for one another in the fast build: it ends, with the right numbers, and soon."""

import time

import pytest
import torch

SOURCE = r"""
extern "C" {
__global__ void grid_barrier_atomic(unsigned* count, float* out) {
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1u);
        while (atomicAdd(count, 0u) < gridDim.x) { }
        __threadfence();
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1.f;
}
__global__ void grid_barrier_volatile(unsigned* count, float* out) {
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1u);
        while (*(volatile unsigned*)count < gridDim.x) { }
        __threadfence();
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1.f;
}
__global__ void later_block(unsigned* count, float* out) {  // the first block waits for the last one
    volatile unsigned* flag = count;
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) *flag = 1;
    if (blockIdx.x == 0) while (*flag == 0) { }
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1.f;
}
__global__ void later_thread(unsigned* count, float* out) {
    __shared__ volatile unsigned flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 0) while (flag == 0) { }
    if (threadIdx.x == 40) flag = 1;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1.f;
}
}
"""


@pytest.mark.parametrize("name", ["grid_barrier_atomic", "grid_barrier_volatile", "later_block", "later_thread"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_waiting_ends_in_the_fast_build(launch, monkeypatch, name, workers):
    monkeypatch.setenv("COURSE_SIMT_WORKERS", workers)
    monkeypatch.setenv("COURSE_TIME_LIMIT_S", "8")
    launch(SOURCE, name, 1, 64, torch.zeros(1, dtype=torch.int32), torch.zeros(64))  # compiles it
    out = torch.zeros(40 * 64)
    started = time.monotonic()
    launch(SOURCE, name, 40, 64, torch.zeros(1, dtype=torch.int32), out)
    assert time.monotonic() - started < 2 and out.sum() == out.numel()


POLL = r"""
extern "C" __global__ void plain_poll(unsigned* flag, float* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == gridDim.x - 1) atomicExch(flag, 1u);
    else while (READ == 0) { }
    out[blockIdx.x] = 1.f;
}
extern "C" __global__ void endless(unsigned* flag, float* out) {
    unsigned sum = 0;
    while (sum != 1) sum += 2 * flag[0] + 2 * flag[1];
    out[0] = sum;
}
"""


@pytest.mark.parametrize("read", ["__ldcg(flag)", "*flag"])
def test_a_poll_that_is_none_has_a_sentence_of_its_own(profile, read):
    arguments = torch.zeros(1, dtype=torch.int32), torch.zeros(4)
    source = POLL.replace("READ", read)
    report = profile(source, "plain_poll", 4, 64, *arguments, step_limit=20_000)
    message = report.findings[-1].message
    assert "reads flag[0] here again and again" in message and "3 of the 4 blocks have not started" in message
    assert source.splitlines()[report.findings[-1].line - 1].strip().startswith("else while")


def test_a_poll_of_a_volatile_flag_ends(profile):
    out = torch.zeros(4)
    source = POLL.replace("READ", "*(volatile unsigned*)flag")
    report = profile(source, "plain_poll", 4, 64, torch.zeros(1, dtype=torch.int32), out, step_limit=20_000)
    assert report.ok and out.sum() == 4, str(report)


def test_a_loop_over_two_addresses_is_not_called_a_poll(profile):
    arguments = torch.zeros(2, dtype=torch.int32), torch.zeros(4)
    report = profile(POLL.replace("READ", "*flag"), "endless", 1, 1, *arguments, step_limit=20_000)
    assert "after the step limit" in report.findings[-1].message
