"""compute-sanitizer finds nothing in any kernel of the course, and does find what is planted."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
OUT_OF_BOUNDS = """
import torch
from course_lib import cuda
kernel = cuda.compile('extern "C" __global__ void k(float* x) { x[threadIdx.x + (1 << 28)] = 1.0f; }')
kernel(1, 32, torch.zeros(8, device="cuda"))
"""
TURNS = """
import torch
from course_lib import cuda
kernel = cuda.compile('''#include "common/named_barrier.cuh"
extern "C" __global__ void k(int* x) {
    __shared__ int number[32];
    const int consumer = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (consumer == 0) number[lane] = 0;
    __syncthreads();
    if (consumer == 1) named_barrier_arrive(1, 64);
    for (int round = 0; round < 3; ++round) {
        named_barrier_sync(1 + consumer, 64);
        number[lane] = 2 * number[lane] + consumer;
        if (consumer == 0 || round < 2) named_barrier_arrive(2 - consumer, 64);
    }
    __syncthreads();
    if (consumer == 0) x[lane] = number[lane];
}''')
x = torch.zeros(32, dtype=torch.int32, device="cuda")
kernel(1, 64, x)
assert (x == 0b10101).all()
"""
RACE = """
import torch
from course_lib import cuda
kernel = cuda.compile('''extern "C" __global__ void k(float* x) {
    __shared__ float tile_smem[128];
    tile_smem[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = tile_smem[127 - threadIdx.x];
}''')
kernel(1, 128, torch.zeros(128, device="cuda"))
"""


def sanitize(tool, *command):
    """(exit code, output) of a Python command under a tool of compute-sanitizer; 9 says that something was found."""
    # the library that makes tensor maps probes the driver for functions: calls that fail, and no error of a kernel
    options = ["--report-api-errors", "no"] if tool == "memcheck" else []
    done = subprocess.run(
        [TOOL, "--tool", tool, *options, "--error-exitcode", "9", sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


# Triton's compiler lets several threads write the same number to the same shared word, which racecheck calls a race:
# how a program uses shared memory is the compiler's business, so racecheck watches the CUDA kernels. It does not follow
# two orders that PTX promises: turns that pass by bar.arrive (08.4; the program TURNS), and a reader's barrier before
# another thread's arrival at an mbarrier (the row statistics of the backward pass). The SIMT machine follows both
UNKNOWN_TO_RACECHECK = ("08.4", "flash_attention_3_backward/01_keys_as_rows")


@pytest.mark.parametrize("module", ["course_lib.ops.examples", "course_lib.solved"])
@pytest.mark.parametrize(
    ("tool", "language"), [("memcheck", "all"), ("racecheck", "cuda"), ("initcheck", "all"), ("synccheck", "all")]
)
def test_every_kernel_is_clean(tool, language, module):
    without = ["--without", *UNKNOWN_TO_RACECHECK] if tool == "racecheck" else []
    code, output = sanitize(tool, "-m", module, "--language", language, *without)
    assert code == 0, output[-3000:]


@pytest.mark.parametrize(("tool", "program"), [("memcheck", OUT_OF_BOUNDS), ("racecheck", RACE), ("racecheck", TURNS)])
def test_what_is_planted_is_found(tool, program):
    code, output = sanitize(tool, "-c", program)
    assert code == 9, output[-3000:]
