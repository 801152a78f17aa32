"""The SIMT machine on Arm: cross-compiled, run by qemu, compared with this computer's machine on the same kernels.

Context switches, signals, timers, thread-local storage and page sizes differ; results, counters and findings must not.
aarch64_driver.cpp takes the place of Python in the emulated process.
"""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from course_lib.cuda import simt
from course_lib.cuda.signature import parse
from course_lib.cuda.simt import machine
from course_lib.cuda.simt.memory import OBJECT_KINDS, value_bytes
from course_lib.errors import KernelFault

DRIVER = Path(__file__).with_name("aarch64_driver.cpp")
SOURCE = r"""
#include <cuda_fp16.h>
extern "C" {
__global__ void stride(const float* x, float* out, int n) { out[threadIdx.x] = x[threadIdx.x * n]; }
__global__ void offset(const float* x, float* out, int n) { out[threadIdx.x] = x[threadIdx.x + n]; }
__global__ void vector(const float4* x, float4* out, int n) { out[threadIdx.x] = x[threadIdx.x % n]; }
__global__ void banks(const float* x, float* out, int n) {
    __shared__ float s[64 * 33];
    s[threadIdx.x * n] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[(63 - threadIdx.x) * n];
}
__global__ void dynamic(const float* x, float* out, int n) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x] + n;
}
__global__ void reduction(const float* x, float* out, int n) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += 32) sum += expf(x[i]);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) out[0] = sum;
    if (threadIdx.x == 1) printf("%d numbers\n", n);
}
__global__ void halves(const float* x, float* out, int n) {
    out[threadIdx.x] = __half2float(__float2half(x[threadIdx.x] * 1.001f)) + __half2float(__float2half(1e-7f * n));
}
__global__ void tickets(const float* x, float* out, int n) {
    __shared__ int count;
    __shared__ float total[1];
    if (threadIdx.x == 0) { count = 0; total[0] = 0.f; }
    __syncthreads();
    atomicAdd(total, (float)threadIdx.x);
    if (atomicAdd(&count, 1) == n - 1) atomicMax((int*)out, count);
    __syncthreads();
    out[1 + threadIdx.x] = total[0];
}
__global__ void ragged(const float* x, float* out, int n) {
    float sum = 0.f;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < (threadIdx.x + i) % 5; j++) sum += x[(threadIdx.x + j) % n];
    out[threadIdx.x] = sum;
}
__global__ void race(const float* x, float* out, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    out[threadIdx.x] = s[n - 1 - threadIdx.x];
}
__global__ void divergent(const float* x, float* out, int n) {
    if (threadIdx.x >= n - 16) return;
    __syncthreads();
    out[threadIdx.x] = x[threadIdx.x];
}
__global__ void bounds(const float* x, float* out, int n) { out[threadIdx.x] = x[threadIdx.x + n]; }
__global__ void poison(const float* x, float* out, int n) {
    __shared__ float s[64];
    if (threadIdx.x != 7) s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
__global__ void endless(const float* x, float* out, int n) {
    unsigned i = threadIdx.x;
    while (i != 1000u) i = (i * 2u) | 1u;
    out[0] = i;
}
__global__ void far_away(const float* x, float* out, int n) { out[threadIdx.x] = x[1ll << 40]; }
__device__ int deeper(int n, volatile int* p) { return p[0] + deeper(n + 1, p) + p[1]; }
__global__ void recursion(const float* x, float* out, int n) { int a[2] = {n, n}; out[0] = deeper(n, a); }
__global__ void large_frame(const float* x, float* out, int n) {
    float local[1 << 16];
    for (int i = 0; i < 1 << 16; i++) local[(i * 7) % (1 << 16)] = x[i % 64];
    out[0] = local[n];
}
}
"""


def _tool(name, package):
    """Path of a program of the system, or a failure that says which package holds it."""
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"This test needs {name}. Debian and Ubuntu: make system-packages, or apt-get install {package}.")
    return path


class ArmModule(machine.Module):
    """A Module whose launches happen in the driver's process."""

    def _set_inactive_byte(self, byte):
        raise AssertionError("launches cannot be repeated in the driver; no kernel of this file reads an inactive lane")

    def __init__(self, path, name, mode, driver):
        self.path, self.name, self.mode, self.driver = path, name, mode, driver
        self.parameters = parse(SOURCE, name)
        self._lines = machine.LineTable(path, machine.AUTHOR)
        self.variables = machine.variables(path)
        self._variables = self.variables if mode == "checked" else []

    def _run(
        self,
        grid,
        block,
        arguments,
        shared_bytes,
        memory,
        *,
        checked,
        schedule=0,
        seed=0,
        step_limit=0,
        timeline=False,
    ):
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        words = [self.path, int(checked), schedule, seed, 1 if checked else 3, step_limit, 0.5, shared_bytes]
        words += [*machine._triple(grid), *machine._triple(block), len(self._variables)]
        for one in self._variables:
            words += [one.offset, one.bytes, OBJECT_KINDS.index(one.kind)]
        words += [len(tensors)]
        for value, fresh in zip(tensors, memory.fresh, strict=True):
            words += [0, int(fresh), value.numpy().tobytes().hex() or "-"]
        words += [len(arguments)]
        for parameter, value, piece in zip(self.parameters, arguments, memory.piece_of, strict=True):
            words += [piece, 0, "-" if piece >= 0 else value_bytes(parameter, value).raw.hex()]
        self.driver.stdin.write(" ".join(map(str, words)) + "\n")
        self.driver.stdin.flush()
        answer, printed = json.loads(self._line()), bytes.fromhex(self._line().strip("-")).decode()
        for value in tensors:
            value.copy_(torch.frombuffer(bytearray.fromhex(self._line()), dtype=value.dtype).view_as(value))
        return answer | {"shared_bytes": shared_bytes}, printed

    def _line(self):
        line = self.driver.stdout.readline()
        assert line, f"{self.name} ended the process on Arm, with status {self.driver.wait(10)}"
        return line.strip()


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """arm(name, mode) -> ArmModule; one process for all launches, as a notebook's kernel is."""
    compiler, qemu = _tool("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"), _tool("qemu-aarch64", "qemu-user")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    builder = sys.modules["course_lib.cuda.simt.build"]
    rooms = [sys.modules[f"course_lib.cuda.simt.{name}"] for name in ("build", "compilers", "link")]

    @contextlib.contextmanager
    def cross_compiled():
        with pytest.MonkeyPatch.context() as patch:
            for room in rooms:
                patch.setattr(room, "compiler", lambda: (compiler, "gcc", version))
            yield

    program = tmp_path_factory.mktemp("aarch64") / "driver"
    subprocess.run([compiler, "-std=c++17", "-O1", "-o", program, DRIVER, "-ldl"], check=True)
    with cross_compiled():
        runtime = builder.runtime_library()
    arguments = [qemu, "-L", "/usr/aarch64-linux-gnu", program, runtime]
    driver = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def module(name, mode):
        with cross_compiled():
            path = builder.compile_kernel(SOURCE, name, defines=None, filename="<cell>", first_line=1, mode=mode)
        return ArmModule(path, name, mode, driver)

    yield module
    driver.stdin.close()
    assert driver.wait(10) == 0


def _native(name, mode):
    return simt.build(SOURCE, name, parse(SOURCE, name), mode=mode)


def _tensors():
    x = torch.linspace(-2, 3, 4096)
    return x, torch.zeros(512)


# name -> (blocks, threads, the number n, kinds of findings)
KERNELS = {
    "stride": (1, 64, 8, []),
    "offset": (1, 64, 3, []),
    "vector": (1, 64, 50, []),
    "banks": (1, 64, 32, []),
    "dynamic": (4, 64, 2, []),
    "reduction": (1, 32, 1000, []),
    "halves": (1, 64, 3, []),
    "tickets": (1, 64, 64, []),
    "ragged": (1, 64, 64, []),
    "race": (1, 64, 64, ["race", "uninitialised_read"]),
    "divergent": (1, 64, 64, ["divergent_barrier"]),
    "bounds": (1, 64, 4090, ["out_of_bounds"]),
    "poison": (1, 64, 64, ["uninitialised_read"]),
    "endless": (1, 32, 1, ["step_limit"]),
}


def _profiled(module, name, schedule):
    blocks, threads, n, _ = KERNELS[name]
    x, out = _tensors()
    report = module.profile(blocks, threads, [x, out, n], 256, schedule=schedule, seed=1, step_limit=20_000)
    found = [(one.kind, one.line, one.other_line, one.space, one.message) for one in report.findings]
    return found, report.ledger(), report.printed, out.view(torch.int32).tolist()


@pytest.mark.parametrize("name", KERNELS)
def test_arm_finds_and_counts_the_same(arm, name):
    emulated, native = arm(name, "checked"), _native(name, "checked")
    for schedule in ("forward", "random"):
        expected = _profiled(native, name, schedule)
        assert sorted({one[0] for one in expected[0]}) == KERNELS[name][3]
        assert _profiled(emulated, name, schedule) == expected


@pytest.mark.parametrize("name", ["dynamic", "tickets", "reduction", "vector"])
def test_arm_computes_the_same_on_several_workers(arm, name, capsys):
    _, threads, n, _ = KERNELS[name]
    results = []
    for module in (arm(name, "fast"), _native(name, "fast")):
        x, out = _tensors()
        module.launch(8 if name == "dynamic" else 1, threads, [x, out, n], 256)
        results.append(out)
        assert capsys.readouterr().out == ("1000 numbers\n" if name == "reduction" else "")
    assert results[0].abs().sum() > 0 and torch.equal(*results)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("far_away", "touches address 0x[0-9a-f]*, which belongs to no tensor"),
        ("recursion", "ran out of its 64 KB of stack"),
        ("large_frame", "ran out of its 64 KB of stack"),
        ("endless", "was still running here when the time limit was reached"),
    ],
)
def test_arm_survives_what_crashes(arm, name, sentence):
    module, after = arm(name, "fast"), arm("offset", "fast")
    for _ in range(3):
        x, out = _tensors()
        with pytest.raises(KernelFault, match=sentence):
            module.launch(6, 64, [x, out, 1])
        after.launch(1, 64, [x, out, 3])
        assert torch.equal(out[:64], x[3:67])
