"""The GPU engine: what a launch may be, what it refuses, and what it says."""

import struct
import subprocess
import sys
import textwrap

import pytest
import torch

from course_lib import cuda, device
from course_lib.cuda import nvrtc
from course_lib.errors import ArgumentError, CompileError, LaunchError
from course_lib.ops import norm
from course_lib.ops._foundation import plans

DYNAMIC = """extern "C" __global__ void k(float* out, int n) {
    extern __shared__ float tile_smem[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) tile_smem[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = tile_smem[n - 1 - i];
}
"""


def compiled(source, **options):
    return cuda.compile(textwrap.dedent(source), **options)


@pytest.mark.parametrize("kilobytes", [16, 48, 100, 227])
def test_dynamic_shared_memory_beyond_48_kb(kilobytes):
    n = kilobytes * 256
    out = torch.full((n,), -1.0, device="cuda")
    compiled(DYNAMIC)(1, 256, out, n, shared_bytes=4 * n)
    assert torch.equal(out.cpu(), torch.arange(n - 1, -1, -1).float())


def test_a_source_that_was_compiled_before_still_tells_its_registers():
    first, again = (nvrtc.compile_cubin(DYNAMIC, arch=device.current().arch).resources for _ in range(2))
    assert first == again
    assert first["k"].registers > 0


def test_too_much_shared_memory_is_a_sentence():
    with pytest.raises(LaunchError, match="a block here may have 0 to 232448 bytes"):
        compiled(DYNAMIC)(1, 256, torch.zeros(1, device="cuda"), 1, shared_bytes=228 * 1024)


def test_static_and_dynamic_shared_memory_add_up():
    kernel = compiled("""extern "C" __global__ void k(float* out) {
        __shared__ float tile_smem[8192];
        extern __shared__ float more_smem[];
        tile_smem[threadIdx.x] = more_smem[threadIdx.x] = 1.0f;
        __syncthreads();
        out[threadIdx.x] = tile_smem[31 - threadIdx.x] + more_smem[31 - threadIdx.x];
    }""")
    with pytest.raises(LaunchError, match="32768 bytes of static and 204800 of dynamic"):
        kernel(1, 32, torch.zeros(32, device="cuda"), shared_bytes=200 * 1024)


def test_registers_limit_the_block():
    kernel = compiled('extern "C" __global__ void __launch_bounds__(64) k(float* out) { out[threadIdx.x] = 1.0f; }')
    with pytest.raises(LaunchError, match="a block of 128 threads; this kernel takes at most 64"):
        kernel(1, 128, torch.zeros(128, device="cuda"))


def test_runs_on_torchs_current_stream():
    kernel = compiled("""extern "C" __global__ void k(float* out, long long cycles) {
        const long long start = clock64();
        while (clock64() - start < cycles) {}
        out[0] += 1.0f;
    }""")
    out = torch.zeros(1, device="cuda")
    kernel(1, 1, out, 1000)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        kernel(1, 1, out, 1000)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        kernel(1, 1, out, 20_000_000)
        end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 5, "the events of the side stream did not enclose the kernel"
    assert out.item() == 3


def test_captured_in_a_cuda_graph():
    kernel = compiled('extern "C" __global__ void k(float* out) { out[threadIdx.x] += 1.0f; }')
    out = torch.zeros(32, device="cuda")
    kernel(1, 32, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(1, 32, out)
    for _ in range(3):
        graph.replay()
    assert out.cpu().tolist() == [4.0] * 32


def test_every_scalar_type_arrives():
    kernel = compiled("""
    struct Pair { int first; float second; };
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void k(double* out, bool b, char c, short s, int i, unsigned u, long long l, size_t z,
                                 float f, double d, __half h, __nv_bfloat16 w, float4 v, Pair p, const float* null) {
        double values[] = {double(b), double(c), double(s), double(i), double(u), double(l), double(z), f, d,
                           __half2float(h), __bfloat162float(w), v.x, v.w, double(p.first), p.second, double(!null)};
        for (int k = 0; k < 16; ++k) out[k] = values[k];
    }""")
    out = torch.zeros(16, dtype=torch.float64, device="cuda")
    kernel(
        1,
        1,
        out,
        True,
        -3,
        -300,
        -70000,
        4000000000,
        -(2**40),
        2**53,
        0.5,
        1e-300,
        1.5,
        -2.0,
        (1, 2, 3, 4),
        struct.pack("<if", 7, 0.25),
        None,
    )
    assert out.tolist() == [1, -3, -300, -70000, 4000000000, -(2**40), 2**53, 0.5, 1e-300, 1.5, -2, 1, 4, 7, 0.25, 1]


@pytest.mark.parametrize(("ctype", "dtype"), [("__half", torch.float16), ("__nv_bfloat16", torch.bfloat16)])
def test_half_precision_tensors(ctype, dtype):
    kernel = compiled(f"""#include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern "C" __global__ void k(const {ctype}* x, {ctype}* out, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = ({ctype})(2.0f * (float)x[i]);
    }}""")
    x = torch.randn(1000, device="cuda").to(dtype)
    out = torch.zeros_like(x)
    kernel(8, 128, x, out, 1000)
    assert torch.equal(out, 2 * x)


def test_cpu_tensor_is_refused():
    kernel = compiled('extern "C" __global__ void k(float* x) { x[0] = 1.0f; }')
    with pytest.raises(ArgumentError, match=r"parameter x .*on the GPU.*Pass x.cuda\(\)"):
        kernel(1, 1, torch.zeros(1))


def test_compile_error_has_the_authors_line():
    with pytest.raises(CompileError) as caught:
        cuda.compile('\nextern "C" __global__ void k(float* x) { x[0] = nothing; }', filename="cell 2", first_line=10)
    assert caught.value.line == 11 and caught.value.filename == "cell 2" and "nothing" in str(caught.value)


def test_hopper_instructions_compile():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma exists on compute capability 9.0 alone")
    compiled('extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }')(1, 128)


def test_compiler_notes_are_shown():
    source = 'extern "C" __global__ void k(int* x) { int unused; x[0] = 1; }'
    with pytest.warns(UserWarning, match="unused"):
        compiled(source)


FAULTS = {
    "out of bounds": ("x[1ull << 40] = 1.0f;", "k<<<(1, 1, 1), (1, 1, 1), 0>>> read or wrote an address outside"),
    "misaligned": ("*(float4*)(x + 1) = make_float4(0, 0, 0, 0);", "accessed a vector at a misaligned address"),
    "trap": ("__trap();", "k<<<(1, 1, 1), (1, 1, 1), 0>>> "),
}


def run_script(body):
    """A Python program of its own: a fault takes the whole process's GPU context with it."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_the_kernel(name):
    statement, sentence = FAULTS[name]
    done = run_script(f"""
        import torch
        from course_lib import cuda
        kernel = cuda.compile('extern "C" __global__ void k(float* x) {{ {statement} }}')
        kernel(1, 1, torch.zeros(8, device="cuda"))
    """)
    assert done.returncode != 0 and sentence in done.stderr, done.stderr


@pytest.mark.whole_gpu
def test_out_of_memory_is_a_sentence():
    done = run_script("""
        import torch
        from course_lib import cuda
        free, _ = torch.cuda.mem_get_info()
        taken = torch.empty(free - (1 << 30), dtype=torch.int8, device="cuda")
        kernel = cuda.compile('''extern "C" __global__ void k(int* x, int n) {
            volatile int stack[100000];
            for (int i = 0; i < n; ++i) stack[i * 7 % 100000] = i;
            x[0] = stack[n];
        }''')
        kernel(1, 1, torch.zeros(8, dtype=torch.int32, device="cuda"), 100)
    """)
    assert done.returncode != 0 and "found no room on the GPU for its stack" in done.stderr, done.stderr


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="2 GPUs are needed")
def test_launches_alternate_between_two_gpus():
    """Each runs where its tensors are, those of kept plans too, and the current GPU stays what it was."""
    inputs = [(torch.randn(5, 256, device=place), torch.randn(256, device=place)) for place in ("cuda:0", "cuda:1")]
    expected = [torch.nn.functional.rms_norm(x, (256,), weight, 1e-5) for x, weight in inputs]
    for turn in range(6):
        for index in (0, 1):
            made = norm.plan_rms_norm(*inputs[index], eps=1e-5)
            assert turn < plans.MOST_TRIES or isinstance(made, plans.Bound)
            made.run()
            torch.testing.assert_close(made.outputs[0], expected[index], rtol=1e-5, atol=1e-5)
            assert torch.cuda.current_device() == 0


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="2 GPUs are needed")
def test_shared_memory_beyond_48_kb_on_two_gpus():
    kernel, n = compiled(DYNAMIC), 100 * 256
    for place in ("cuda:0", "cuda:1", "cuda:0", "cuda:1"):
        out = torch.full((n,), -1.0, device=place)
        kernel(1, 256, out, n, shared_bytes=4 * n)
        assert torch.equal(out.cpu(), torch.arange(n - 1, -1, -1).float())
