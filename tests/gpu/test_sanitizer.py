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
    done = subprocess.run(
        [TOOL, "--tool", tool, "--error-exitcode", "9", sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


# Triton's compiler lets several threads write the same number to the same shared word, which racecheck calls a race:
# how a program uses shared memory is the compiler's business, so racecheck watches the CUDA kernels
@pytest.mark.parametrize("module", ["course_lib.ops.examples", "course_lib.solved"])
@pytest.mark.parametrize(
    ("tool", "language"), [("memcheck", "all"), ("racecheck", "cuda"), ("initcheck", "all"), ("synccheck", "all")]
)
def test_every_kernel_is_clean(tool, language, module):
    code, output = sanitize(tool, "-m", module, "--language", language)
    assert code == 0, output[-3000:]


@pytest.mark.parametrize(("tool", "program"), [("memcheck", OUT_OF_BOUNDS), ("racecheck", RACE)])
def test_what_is_planted_is_found(tool, program):
    code, output = sanitize(tool, "-c", program)
    assert code == 9, output[-3000:]
