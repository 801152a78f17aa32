"""What compiles for a GPU compiles for the machine, and what does not, does not: NVRTC and the machine side by side."""

import re
from pathlib import Path

import pytest

from course_lib.cuda import nvrtc, signature, simt
from course_lib.errors import CompileError, ToolchainError

NAMES = ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "math_constants.h", "mma.h")
HEADERS = "\n".join(f"#include <{name}>" for name in NAMES)
PARAMETERS = "float* f, int* i, double* d, __half* h, __half2* h2, __nv_bfloat16* b, __nv_bfloat162* b2, float2* f2"

CASES = Path(__file__).with_name("headers_accepted.cu").read_text()
ACCEPTED = dict(re.findall(r"^// case: (.*)\n((?:(?!// case:).*\n?)*)", CASES, re.MULTILINE))

REFUSED = [
    "f[0] = h[0] * 2.0f;",
    "f[0] = b[0] + 1.0f;",
    "f[0] += h[0];",
    "b[0] = h[0];",
    "h[0] = b[0];",
    "h[0] = h[1] > 1.0f;",
    "h[0].__x = 1;",
    "__nv_fp8_e4m3 x = f[0];",
    "f[0] = __nv_fp8_e4m3(f[1]);",
    "f[0] = max(i[0], f[0]);",
    "size_t n = 3; i[0] = min(n, i[0]);",
    "f[0] = exp(1);",
    "i[0] = isnan(i[0]);",
    "float4 v = 1.0f;",
    "float4 v = float4(1.f, 2.f, 3.f, 4.f);",
    "bool* flag = (bool*)i; i[0] = __ldg(flag);",
    "f[0] = std::sqrt(f[0]);",
    "f[0] = FLT_MAX;",
    "f[0] = M_PI;",
    "uint n = 1; i[0] = n;",
]

NEEDS_HEADER = [
    "half x = 1.0f; f[0] = x;",
    "__nv_bfloat16 x = f[0]; f[0] = x;",
    "__nv_fp8_e4m3 x(f[0]); f[0] = float(x);",
    "f[0] = CUDART_INF_F;",
    "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> x; f[0] = x.x[0];",
]


def outcomes(source):
    """Does it compile: (NVRTC, machine), each None or the error's text."""

    def attempt(compile_):
        try:
            compile_()
        except CompileError as error:
            return str(error)
        return None

    try:
        gpu = attempt(lambda: nvrtc.compile_cubin(source, arch="sm_90"))
    except ToolchainError as missing:
        pytest.skip(f"NVRTC is not installed: {missing}")
    parameters = signature.parse(source, "probe_kernel")
    return gpu, attempt(lambda: [simt.build(source, "probe_kernel", parameters, mode=m) for m in ("checked", "fast")])


def kernel(body, parameters=PARAMETERS, headers=HEADERS):
    return f'{headers}\nextern "C" __global__ void probe_kernel({parameters}) {{ {body} }}\n'


@pytest.mark.parametrize("name", ACCEPTED)
def test_both_accept(name):
    assert outcomes(kernel(ACCEPTED[name])) == (None, None)


@pytest.mark.parametrize("body", REFUSED)
def test_both_refuse(body):
    gpu, machine = outcomes(kernel(body))
    assert gpu is not None, "NVRTC accepts this now: the machine should, too"
    assert machine is not None, f"the machine accepts what NVRTC refuses: {gpu}"


@pytest.mark.parametrize("body", NEEDS_HEADER)
def test_both_refuse_without_the_header(body):
    gpu, machine = outcomes(kernel(body, "float* f", headers=""))
    assert gpu is not None and machine is not None


def test_macros_of_the_kernel_do_not_reach_into_the_headers():
    """One-letter -D names are common in lessons; the machine's headers are compiled before them."""
    source = kernel(ACCEPTED["wmma"])
    parameters = signature.parse(source, "probe_kernel")
    letters = {letter: 3 for letter in "ABCDEGHIJKLMNOPQRSTUVWXYZ"}
    simt.build(source, "probe_kernel", parameters, defines=letters, mode="fast")
