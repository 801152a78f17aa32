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
