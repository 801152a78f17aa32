"""Launches and sources that no GPU accepts are refused, and a fault of the fast build has its line."""

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


def test_inline_assembly_is_refused_with_a_sentence():
    with pytest.raises(CompileError, match="inline assembly is for the GPU alone"):
        _compiled('asm volatile("bar.sync 0;");')


@pytest.mark.parametrize(
    "body, phrase",
    [
        ("x[0] = 1.f;\nassert(n == 3);", "line 3: thread .* failed the assertion `n == 3`"),
        ("*(float4*)(x + 1) = make_float4(1, 2, 3, 4);", "line 2: thread .* wrong alignment|line 2: .*multiple of 16"),
    ],
)
def test_faults_of_the_fast_build_have_a_line_and_a_reason(body, phrase):
    with pytest.raises(KernelFault, match=phrase):
        _compiled(body)(1, 1, torch.zeros(64), 64)


def test_two_kernels_and_a_launch_as_in_triton_say_what_to_do():
    two = KERNEL.format(body="") + KERNEL.format(body="").replace("tested", "other")
    with pytest.raises(SignatureError, match="--entry tested_kernel"):
        cuda.compile(two)
    with pytest.raises(LaunchError, match=r"tested_kernel\(grid, block, …\)"):
        _compiled("")[1, 32]
