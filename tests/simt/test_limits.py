"""Launches and sources that no GPU accepts are refused, and a fault of the fast build has its line."""

import importlib
import re

import pytest
import torch

from course_lib import cuda
from course_lib.errors import CompileError, KernelFault, LaunchError, SignatureError

KERNEL = 'extern "C" __global__ void tested_kernel(float* x, int n) {{\n{body}\n}}\n'


def _compiled(body, before=""):
    return cuda.compile(before + KERNEL.format(body=body), "tested_kernel")


def _static(count):
    return (
        f"__shared__ float s[{count}];\ns[threadIdx.x] = n;\n__syncthreads();\nx[threadIdx.x] = s[n - 1 - threadIdx.x];"
    )


def test_declared_shared_memory_ends_at_48_kb():
    _compiled(_static(12288))(1, 32, torch.zeros(32), 32)
    with pytest.raises(CompileError, match="49,156 bytes, and a kernel may declare 49,152"):
        _compiled(_static(12289))


def test_what_another_kernel_declares_does_not_count():
    other = 'extern "C" __global__ void other_kernel(float* x, int n) {\n' + _static(12288) + "\n}\n"
    _compiled(_static(1024), before=other)(1, 32, torch.zeros(32), 32)


def test_declared_and_dynamic_shared_memory_count_together():
    kernel = _compiled(_static(1024))
    kernel(1, 32, torch.zeros(32), 32, shared_bytes=227 * 1024 - 4096)
    with pytest.raises(LaunchError, match="4,096 bytes of shared memory and is launched with 228,356 more"):
        kernel(1, 32, torch.zeros(32), 32, shared_bytes=227 * 1024 - 4092)


def test_headers_that_a_gpu_lacks_are_refused_by_their_line():
    with pytest.raises(CompileError, match="line 2: #include <iostream> is a host header") as caught:
        _compiled("", before="// prints\n#include <iostream>\n")
    assert caught.value.line == 2
    _compiled("", before="#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n")


PTX = {  # instruction -> asm statement that begins on line 3, what to use
    "bar.sync 0": ('asm volatile("bar.sync 0;");', r"__syncthreads\(\)"),
    "bar.sync": (
        'asm volatile("bar.sync %0, %1;" ::"r"(1), "r"(64));',
        "named_barrier_sync of common/named_barrier.cuh",
    ),
    "ex2.approx.ftz.f32": (
        'asm("ex2.approx.ftz.f32 %0, %1;\\n"\n: "=f"(y)\n: "f"(x[0]));',
        "fast_exp2 of common/fast_exp2",
    ),
    "lg2.approx.f32": ('asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x[0]));', "log2f"),
    "cvt.rn.f16.f32": ('asm("cvt.rn.f16.f32 %0, %1;" : "=r"(i) : "f"(x[0]));', "such as __float2half_rn"),
    "ld.global.nc.f32": ('asm("ld.global.nc.f32 %0, [%1];" : "=r"(i) : "l"(x));', "a plain load, or __ldg"),
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": (
        'asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "\n"{%0};" : "+r"(i));',
        "mma_m16n8k16_f32_bf16 of common/tensor_core.cuh",
    ),
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16": (
        'asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 %0;}"'
        '\n: "+r"(i));',
        "wgmma_m64k16",
    ),
}


@pytest.mark.parametrize("instruction", PTX)
def test_inline_ptx_is_refused_with_its_instruction_and_what_to_call(instruction):
    statement, remedy = PTX[instruction]
    words = rf"line 3: inline PTX \({re.escape(instruction)}\) is for the GPU alone .* use .*{remedy}"
    with pytest.raises(CompileError, match=words) as caught:
        _compiled(f'float y = 0; int i = 0;  // asm("rcp.approx.f32 %0;")\n{statement}\nx[0] = y + i;')
    assert caught.value.line == 3 and "\n" not in str(caught.value)


def test_another_mistake_beside_inline_ptx_is_the_compilers():
    with pytest.raises(CompileError, match="line 3: .*nonsense"):
        _compiled('asm volatile("" ::: "memory");\nnonsense = 3;')


def test_inline_ptx_behind_a_guard_does_no_harm():
    _compiled('#ifdef __CUDA_ARCH__\nasm volatile("bar.sync 0;");\n#else\n__syncthreads();\n#endif')


def test_an_assumption_is_never_evaluated():
    _compiled("int i = 0;\n__builtin_assume(n > 0 && ++i);\nx[0] = i;")


@pytest.mark.parametrize(
    "body, phrase",
    [
        ("x[0] = 1.f;\nassert(n == 3);", "line 3: thread .* failed the assertion `n == 3`"),
        ("*(float4*)(x + 1) = make_float4(1, 2, 3, 4);", "line 2: thread .* wrong alignment|line 2: .*multiple of 16"),
    ],
)
def test_faults_of_the_fast_build_have_a_line_and_a_reason(body, phrase, monkeypatch):
    build = importlib.import_module("course_lib.cuda.simt.build")
    monkeypatch.setattr(build, "FAST_FLAGS", ("-O2", *build.FAST_FLAGS[1:]))  # -Og stores a float4 in two halves
    with pytest.raises(KernelFault, match=phrase):
        _compiled(body)(1, 1, torch.zeros(64), 64)


def test_two_kernels_and_a_launch_as_in_triton_say_what_to_do():
    two = KERNEL.format(body="") + KERNEL.format(body="").replace("tested", "other")
    with pytest.raises(SignatureError, match="--entry tested_kernel"):
        cuda.compile(two)
    with pytest.raises(LaunchError, match=r"tested_kernel\(grid, block, …\)"):
        _compiled("")[1, 32]
