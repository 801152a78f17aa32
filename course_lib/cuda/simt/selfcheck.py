"""Self-test of the detector with the compiler at hand, once for each compiler and version of the machine.

A detector without instrumentation reports nothing, which looks like a correct kernel. A compiler that leaves accesses
uninstrumented, or moves them, must be noticed; so a kernel with a missing barrier and its correct twin run first.

May import: errors, simt.build, simt.cache, simt.machine, simt.report.
"""

import torch

from ...errors import ToolchainError
from .build import checked_key, compile_kernel
from .cache import cache_dir
from .compilers import compiler
from .machine import Module
from .report import TRAFFIC

SOURCE = """
template <bool BARRIER>
__device__ __forceinline__ void reverse(const float* x, float* out) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (BARRIER) __syncthreads();
    float sum = 0.f;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < (threadIdx.x + i) % 5; j++) sum += s[63 - threadIdx.x];
    out[threadIdx.x] = sum;
}
struct Pair { unsigned short first, second; };  // copied as a whole, as __half2 is
template <bool BARRIER>
__device__ __forceinline__ void reverse_pairs(const float* x, float* out) {
    __shared__ Pair s[64];
    s[threadIdx.x] = ((const Pair*)x)[threadIdx.x];
    if (BARRIER) __syncthreads();
    ((Pair*)out)[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void right_pairs(const float* x, float* out) { reverse_pairs<true>(x, out); }
extern "C" __global__ void wrong_pairs(const float* x, float* out) { reverse_pairs<false>(x, out); }
extern "C" __global__ void right(const float* x, float* out) { reverse<true>(x, out); }
extern "C" __global__ void wrong(const float* x, float* out) { reverse<false>(x, out); }
"""
READ, WRITE = 9, 5  # lines of SOURCE
PAIR_READ, PAIR_WRITE, PAIR_BYTES = 18, 16, 64 * 4
REQUESTS = (2, 2, 24, 2)  # of two warps: global loads and stores, shared loads (3 rounds of at most 4) and stores


class _Pointer:
    """A parameter of the kernels above, with the attributes of signature.Parameter."""

    ctype, element, is_pointer, is_const, size_bytes = "float*", "float", True, False, 8

    def __init__(self, name):
        self.name = name


def _profile(name):
    path = compile_kernel(SOURCE, name, defines=None, filename="<self-check>", first_line=1, mode="checked")
    module = Module(path, name, [_Pointer("x"), _Pointer("out")], filename="<self-check>", mode="checked")
    x = torch.arange(64.0, device="cpu")  # whatever torch.set_default_device says
    return module.profile(1, 64, [x, torch.zeros_like(x)])


def self_check():
    """Run the two kernels, unless this compiler and machine have passed before.

    Raises
    ------
    ToolchainError   the compiler's instrumentation is not what the machine needs
    """
    passed = cache_dir() / f"passed-{checked_key()}"
    if passed.exists():
        return
    right, wrong = _profile("right"), _profile("wrong")
    seen = [(race.line, race.other_line) for race in wrong.races]
    counted = tuple(getattr(right, name).requests for name in TRAFFIC)
    if not right.ok or (READ, WRITE) not in seen or counted != REQUESTS:
        raise ToolchainError(
            f"The SIMT machine's self-test failed with {compiler()[2]}: a missing barrier gave {seen} (expected "
            f"lines {READ} and {WRITE}), accesses were counted as {counted} (expected {REQUESTS}), and the "
            f"correct kernel gave {len(right.findings)} findings. "
            "Try another compiler: set COURSE_CXX to g++ 12 or newer, or clang++ 19."
        )
    _check_pairs()
    passed.touch()


def _check_pairs():
    """The same of structs: a compiler may copy them by memcpy, which no instrumentation sees."""
    right, wrong = _profile("right_pairs"), _profile("wrong_pairs")
    seen = [(race.line, race.other_line) for race in wrong.races]
    counted = right.global_load.bytes, right.global_store.bytes
    if not right.ok or (PAIR_READ, PAIR_WRITE) not in seen or counted != (PAIR_BYTES, PAIR_BYTES):
        raise ToolchainError(
            f"{compiler()[2]} copies structs such as __half2 without telling the SIMT machine: a missing barrier gave "
            f"{seen} (expected lines {PAIR_READ} and {PAIR_WRITE}), and {counted} bytes were counted (expected "
            f"{PAIR_BYTES} each). Try another compiler: set COURSE_CXX to g++ 12 or newer, or clang++ 19."
        )
