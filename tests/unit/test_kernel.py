"""kernel.py on the CPU engine: load, compile, launch, profile, and the sentences for what no launch may be."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch

from course_lib import cuda
from course_lib.cuda import simt
from course_lib.cuda.kernel import check_configuration
from course_lib.errors import ArgumentError, CompileError, LaunchError, SignatureError

SCALE = """#include "common/constants.cuh"
extern "C" __global__ void scale_kernel(const float* x, float* out, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i] + OFFSET;
}
"""


@pytest.fixture(autouse=True)
def cpu(monkeypatch):
    monkeypatch.setenv("COURSE_ENGINE", "cpu")


@pytest.fixture
def scale():
    return cuda.compile(SCALE, defines={"OFFSET": 2})


def test_launch(scale):
    x, out = torch.randn(100), torch.zeros(100)
    before = cuda.launch_count()
    scale(4, 32, x, out, 3, 100)
    assert torch.allclose(out, 3 * x + 2) and cuda.launch_count() == before + 1


def test_attributes(scale):
    assert (scale.name, scale.filename, scale.first_line, scale.defines) == (
        "scale_kernel",
        "<cell>",
        1,
        {"OFFSET": "2"},
    )
    assert scale.source == SCALE and [parameter.name for parameter in scale.parameters] == ["x", "out", "factor", "n"]
    assert (
        repr(scale) == "<Kernel scale_kernel(const float* x, float* out, float factor, int n) from <cell> -DOFFSET=2>"
    )


def test_the_same_text_is_compiled_once(scale):
    assert cuda.compile(SCALE, defines={"OFFSET": 2}) is scale
    assert cuda.compile(SCALE, defines={"OFFSET": 3}) is not scale


def test_a_kernel_of_a_file_is_built_for_what_it_is_used_for(monkeypatch):
    modes, build = [], simt.build

    def seen(*args, mode, **options):
        modes.append(mode)
        return build(*args, mode=mode, **options)

    monkeypatch.setattr(simt, "build", seen)
    kernel = cuda.with_edits(cuda.load("vector/01_add.cu"), ("x[i] + y[i]", "y[i] + 2.0f * x[i]"))
    assert modes == []  # a launch and a profile need different builds
    x, y, out = torch.randn(64), torch.randn(64), torch.zeros(64)
    assert kernel.profile(2, 32, x, y, out).ok and modes == ["checked"]
    kernel(2, 32, x, y, out)
    assert modes == ["checked", "fast"] and torch.equal(out, y + 2 * x)


def test_a_text_is_compiled_at_once_and_one_of_a_file_where_it_is_first_used():
    broken = ("out[i] = x[i] + y[i];", "out[i] = z[i];")
    kernel = cuda.with_edits(cuda.load("vector/01_add.cu"), broken)
    with pytest.raises(CompileError, match="z"):
        kernel.profile(1, 32, *torch.zeros(3, 32))
    for _ in range(2):  # what failed is not taken for compiled
        with pytest.raises(CompileError, match="z"):
            cuda.compile(kernel.source)


def test_profile_counts_and_writes(scale):
    x, out = torch.randn(64), torch.zeros(64)
    report = scale.profile(2, 32, x, out, 1.0, 64, outputs=(out,))
    assert report.ok and (report.global_load.requests, report.global_load.sectors) == (2, 8)
    assert torch.equal(out, x + 2)


def test_outputs_count_as_uninitialised():
    kernel = cuda.compile('extern "C" __global__ void k(float* out) { out[threadIdx.x] += 1.0f; }')
    out = torch.zeros(32)
    assert kernel.profile(1, 32, out).ok
    assert kernel.profile(1, 32, out, outputs=(out,)).uninitialised_reads


def test_null_pointer_and_bytes_arrive():
    kernel = cuda.compile("""#include <cuda_fp16.h>
    struct Pair { int first; float second; };
    extern "C" __global__ void k(float* out, const __half* null, Pair p, float2 v, double d) {
        out[0] = null == nullptr; out[1] = p.first; out[2] = p.second; out[3] = v.y; out[4] = d;
    }""")
    out = torch.zeros(5)
    kernel(1, 1, out, None, b"\x07\0\0\0\0\0\x80\x3e", (1, 2), 0.5)
    assert out.tolist() == [1, 7, 0.25, 2, 0.5]
    kernel.profile(1, 1, out, None, b"\x08\0\0\0\0\0\x80\x3e", (1, 2), 0.5)
    assert out[1] == 8


def test_views_of_one_storage_stay_views():
    kernel = cuda.compile('extern "C" __global__ void k(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }')
    both = torch.arange(64.0)
    kernel.profile(1, 32, both[:32], both[32:])
    assert torch.equal(both[:32], both[32:])


def test_load_takes_the_only_kernel_of_a_file():
    kernel = cuda.load("access/03_global_vector.cu")
    assert (kernel.name, kernel.filename) == ("global_vector_kernel", "kernels_cu/access/03_global_vector.cu")


def test_a_file_is_compiled_again_when_it_or_a_header_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(cuda.source, "KERNELS_ROOT", tmp_path)
    monkeypatch.setattr(cuda, "KERNELS_ROOT", tmp_path)
    monkeypatch.setattr(cuda, "_kernel", lambda *_: type("Made", (), {})())
    clock = iter(range(10))
    monkeypatch.setattr(cuda.time, "monotonic", lambda: next(clock) * cuda.LOOK_EVERY)
    header, file = tmp_path / "common" / "scale.cuh", tmp_path / "family" / "k.cu"
    for path in (header, file):
        path.parent.mkdir()
    header.write_text("#define SCALE 2.0f\n")
    text = '#include "common/scale.cuh"\nextern "C" __global__ void k(float* x) { x[threadIdx.x] *= SCALE; }\n'
    file.write_text(text)
    first = cuda.load("family/k.cu")
    assert cuda.load("family/k.cu") is first
    header.write_text("#define SCALE 30.0f\n")
    second = cuda.load("family/k.cu")
    assert second is not first
    file.write_text(text.replace("*=", "+="))
    third = cuda.load("family/k.cu")
    assert third not in (first, second)
    file.write_text(text.replace("*=", "-="))
    monkeypatch.setattr(cuda.time, "monotonic", lambda: 3.9 * cuda.LOOK_EVERY)
    assert cuda.load("family/k.cu") is third, "looked at too soon"
    assert cuda.is_newest(third)
    monkeypatch.setattr(cuda.time, "monotonic", lambda: 9 * cuda.LOOK_EVERY)
    assert not cuda.is_newest(third), "the file is another now"


def test_load_of_a_file_with_two_kernels_names_them():
    with pytest.raises(SignatureError, match="2 kernels .shared_float2_kernel, shared_float4_kernel."):
        cuda.load("access/06_shared_vector.cu")


def test_load_of_nothing_lists_what_there_is():
    with pytest.raises(FileNotFoundError, match="access/ holds: 01_global_stride.cu"):
        cuda.load("access/99_nothing.cu")


def test_compile_error_has_the_authors_line_on_the_cpu_too():
    with pytest.raises(CompileError) as caught:
        cuda.compile('\nextern "C" __global__ void k(float* x) { x[0] = nothing; }', filename="cell 2", first_line=10)
    assert (caught.value.filename, caught.value.line) == ("cell 2", 11) and "nothing" in str(caught.value)


def test_missing_header_is_found_before_the_compiler_runs():
    with pytest.raises(CompileError, match="common/none.cuh"):
        cuda.compile('#include "common/none.cuh"\nextern "C" __global__ void k(int x) {}')


def test_wrong_arguments_are_named(scale):
    with pytest.raises(ArgumentError, match="Nothing was given for n"):
        scale(1, 32, torch.zeros(1), torch.zeros(1), 1.0)
    with pytest.raises(ArgumentError, match="parameter out .float.. wants a tensor of float32"):
        scale(1, 32, torch.zeros(1), torch.zeros(1).half(), 1.0, 1)


@pytest.mark.parametrize(
    ("grid", "block", "shared_bytes", "sentence"),
    [
        (0, 32, 0, "grid.x is 0; it must be 1 to 2147483647"),
        ((1, 70000), 32, 0, "grid.y is 70000; it must be 1 to 65535"),
        ((1, 1, 65536), 32, 0, "grid.z is 65536; it must be 1 to 65535"),
        (1, 0, 0, "block.x is 0 threads; it must be 1 to 1024"),
        (1, 2048, 0, "block.x is 2048 threads; it must be 1 to 1024"),
        (1, (1, 1, 65), 0, "block.z is 65 threads; it must be 1 to 64"),
        (1, (64, 32), 0, "a block of 64 x 32 x 1 has 2048 threads; a block holds at most 1024"),
        (1, 32, 300000, "shared_bytes is 300000; a block here may have 0 to 232448 bytes"),
        (1, 32, -4, "shared_bytes is -4"),
        (1.5, 32, 0, "grid is 1.5; give one to three whole numbers"),
        ((1, 2, 3, 4), 32, 0, "grid is .1, 2, 3, 4."),
    ],
)
def test_impossible_launches_are_sentences(grid, block, shared_bytes, sentence):
    with pytest.raises(LaunchError, match=sentence):
        check_configuration("k", grid, block, shared_bytes)


def test_configuration_becomes_triples():
    assert check_configuration("k", 7, (16, 8), 0) == ((7, 1, 1), (16, 8, 1))
    assert check_configuration("k", torch.Size([2, 3]), 1, 64) == ((2, 3, 1), (1, 1, 1))


def test_as_compiled_and_as_written_meet_on_a_line(scale):
    compiled = scale.as_compiled("sm_80")
    report = scale.profile(1, 32, torch.zeros(32), torch.zeros(32), 1.0, 32)
    assert {access.kind for access in compiled.at_line(4, "global")} == {"load", "store"}
    assert report.lines[4].global_load.requests == 1


def test_ledgers_side_by_side_show_the_merged_loads():
    kernel = cuda.load("softmax/02_online.cu", defines={"BLOCK": 128})
    report = kernel.profile(2, 128, torch.randn(2, 256), torch.zeros(2, 256), 2, 256)
    comparison = cuda.compare(report, kernel.as_compiled("sm_90"))
    merged = [row for row in comparison.rows if row[3] == "1 x LDS.128"]
    assert len(merged) == 2 and all(row[1] == "shared load" and "smem" in line_of(kernel, row[0]) for row in merged)
    assert all("up to 512 bytes at once, as written 128" in row[4] for row in merged)
    assert "1 x LDS.128" in str(comparison) and "<table" in comparison._repr_html_()


def test_ledgers_name_what_the_compiler_dropped():
    kernel = cuda.compile("""extern "C" __global__ void k(const float* x, float* out) {
        __shared__ float tile_smem[32];
        tile_smem[threadIdx.x] = x[threadIdx.x];
        out[threadIdx.x] = tile_smem[threadIdx.x];
    }""")
    report = kernel.profile(1, 32, torch.zeros(32), torch.zeros(32))
    rows = {(row[0], row[1]): row for row in cuda.compare(report, kernel.as_compiled()).rows}
    assert rows["4", "shared load"][3:] == ("-", "not in the machine code: kept in a register, or done at another line")


def line_of(kernel, number):
    """The text of a line of a kernel's own file; empty for a header's line."""
    return kernel.source.splitlines()[int(number) - 1] if number.isdigit() else ""


def test_a_default_device_of_torch_does_not_reach_the_simt_machine():
    program = """
        import secrets, torch
        from course_lib import cuda
        torch.set_default_device("meta")  # tensors without memory: a missing device="cpu" crashes
        kernel = cuda.compile(f"// {secrets.token_hex()}: compiled anew" + '''
        #include <cuda_fp16.h>
        extern "C" __global__ void k(float* x, __half factor) { x[threadIdx.x] *= (float)factor; }''')
        x = torch.ones(32, device="cpu")
        kernel(1, 32, x, 2.0)
        assert kernel.profile(1, 32, x, 2.0).ok and x.tolist() == [4.0] * 32
    """
    environment = {**os.environ, "PYTHONPATH": str(cuda.KERNELS_ROOT.parent)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
