"""Every kernel of the course compiles for every architecture that its header promises; the gate itself can say no."""

import dataclasses

import pytest
import torch

from course_lib.book.pages.overview import CARDS
from course_lib.cuda import gate, notes, nvrtc, signature, simt, source, steps
from course_lib.errors import CompileError

FILES = gate.files()


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}/{path.stem}" for path in FILES])
def test_kernel_compiles_for_every_promised_architecture(path):
    if gate.compiled_before(path):  # the same text, headers and compilers: nothing else can come out
        return
    gate.build_on_cpu(path)
    rows = gate.check_file(path)
    assert all(0 < row.resources.registers <= 255 for row in rows)
    assert gate.problems(path, rows) == []


def test_a_file_is_compiled_again_when_anything_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "KERNELS_ROOT", tmp_path)
    monkeypatch.setattr(gate, "COMPILED", tmp_path / "compiled.csv")
    path = tmp_path / "family" / "k.cu"
    path.parent.mkdir()
    text = '#include "common/constants.cuh"\n' + KERNEL.format(needs="compute capability 9.0a")
    path.write_text(text)
    assert not gate.compiled_before(path)
    gate.store({("family/k", "cuda"): gate.digest(path), ("family/k", "triton"): "other"})
    assert gate.compiled_before(path)
    for changed in (text + "// more", text.replace("-DN=8", "-DN=16"), text.replace("9.0a", "8.0")):
        path.write_text(changed)
        assert not gate.compiled_before(path)
    path.write_text(text)
    with monkeypatch.context() as other:
        other.setattr(source, "included_files", lambda *_, **__: {tmp_path / "constants.cuh": "changed"})
        assert not gate.compiled_before(path)
    with monkeypatch.context() as other:
        other.setattr(gate.nvrtc, "version", lambda: "99.0")
        assert not gate.compiled_before(path)
    assert gate.compiled_before(path)


def test_what_spills_is_missing_or_was_repaired_is_a_problem(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(KERNEL.format(needs="compute capability 9.0a"))
    row, spilling = (
        gate.Row("k.cu", "k", "sm_90a", "-DN=8", nvrtc.Resources(8, 32, spilled), "", 0.1) for spilled in (0, 4)
    )
    assert gate.problems(path, [row]) == []
    assert gate.problems(path, []) == ["k.cu promises sm_90a, for which nothing was compiled."]
    [problem] = gate.problems(path, [spilling])
    assert problem.startswith(
        "k.cu k -DN=8 on sm_90a spills 4 bytes: 8 registers a thread do not hold its values. Take"
    )
    noted = dataclasses.replace(row, notes="ptxas info    : (C7519) warpgroup.arrive is injected in around line 9")
    assert gate.problems(path, [noted]) == [f"k.cu k -DN=8 on sm_90a: {notes.meaning('C7519')}"]
    other = dataclasses.replace(row, notes="k.cu(3): warning #177-D: variable was declared but never referenced")
    assert gate.problems(path, [other]) == []


def test_the_command_compiles_what_it_is_asked_for(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["gate", "vector/01"])
    gate.main()
    assert "vector/01_add.cu add_kernel" in capsys.readouterr().out


def test_there_are_kernels():
    assert len(FILES) >= 12


KERNEL = """// Needs     {needs}
// gate: -DN=8
extern "C" __global__ void k(float* x) {{
    __shared__ float tile_smem[N];
    tile_smem[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile_smem[N - 1 - threadIdx.x];
}}
"""


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ("any compute capability", gate.ARCHITECTURES),
        ("compute capability 8.0 · more", ("sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")),
        ("compute capability 9.0a", ("sm_90a",)),
    ],
)
def test_header_says_which_architectures(needs, expected):
    assert gate.architectures(KERNEL.format(needs=needs)) == expected


def test_a_header_without_needs_is_refused():
    with pytest.raises(CompileError, match="Needs"):
        gate.architectures("// 01_something")


def test_variants_are_compiled_and_measured(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(KERNEL.format(needs="any compute capability"))
    [row] = gate.check_file(path, archs=["sm_90"])
    assert (row.kernel, row.defines, row.resources.shared_bytes) == ("k", "-DN=8", 32)
    assert "k -DN=8" in gate.table([row])


def test_wgmma_is_refused_where_the_architecture_has_none():
    source = 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }'
    assert nvrtc.compile_cubin(source, arch="sm_90a").code
    with pytest.raises(Exception, match="wgmma"):
        nvrtc.compile_cubin(source, arch="sm_90")


def test_compile_error_names_the_authors_file_line_and_macros():
    source = 'extern "C" __global__ void k(float* x) {\n    x[0] = y;\n}\n'
    with pytest.raises(CompileError) as caught:
        nvrtc.compile_cubin(source, arch="sm_90", defines={"BLOCK": 64}, filename="cell 5", first_line=3)
    error = caught.value
    assert (error.filename, error.line) == ("cell 5", 4)
    assert str(error).startswith('cell 5, line 4: identifier "y" is undefined')
    assert "-DBLOCK=64" in str(error) and "x[0] = y;" in error.log


def test_a_missing_macro_says_what_to_pass():
    path = gate.KERNELS_ROOT / "access" / "01_global_stride.cu"
    with pytest.raises(CompileError, match="pass -DSTRIDE=1"):
        nvrtc.compile_cubin(path.read_text(encoding="utf-8"), arch="sm_90")


def test_missing_header_is_named_with_those_there_are():
    with pytest.raises(CompileError, match='line 2: #include "common/nothing.cuh" is not .*constants.cuh'):
        nvrtc.compile_cubin('\n#include "common/nothing.cuh"\n', arch="sm_90")


def test_notes_of_the_compiler_are_kept():
    source = 'extern "C" __global__ void k(int* x) { int unused; x[0] = 1; }'
    assert "unused" in nvrtc.compile_cubin(source, arch="sm_90").notes


def test_what_is_refused_says_what_it_needs():
    states = {machine: steps.support("compute capability 9.0", machine) for machine in CARDS}
    assert states["cpu"] == ("emulated", "") and states["sm_90"] == ("compiles", "")
    assert states["sm_75"] == states["sm_89"] == ("refused", "needs compute capability 9.0")


def test_what_only_hopper_has_is_refused_on_newer_gpus_too():
    states = {machine: steps.support("compute capability 9.0a", machine) for machine in (*CARDS, "sm_100", "sm_120")}
    assert states["cpu"] == ("emulated", "") and states["sm_90"] == ("compiles", "")
    assert states["sm_80"] == ("refused", "needs compute capability 9.0a")
    newer = "needs compute capability 9.0a, whose own instructions newer GPUs do not have"
    assert states["sm_100"] == states["sm_120"] == ("refused", newer)


def test_what_the_machine_cannot_compile_is_refused(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(
        '// Needs     compute capability 8.0\nextern "C" __global__ void k(float* x) { asm("bar.sync 0;" : y); }'
    )
    with pytest.raises(CompileError):
        gate.build_on_cpu(path)


CONSTANTS = """extern "C" __global__ void k(float* x) {
    constexpr float lowest = -INFINITY;  // known when compiling, as with nvcc
    x[0] = fmaxf(x[0], lowest);
    x[1] = INFINITY;
    x[2] = NAN;
}
"""


def test_infinity_and_nan_are_there_on_both_engines():
    for arch in gate.ARCHITECTURES:
        assert nvrtc.compile_cubin(CONSTANTS, arch=arch).notes == ""
    x = torch.tensor([-3.0, 0.0, 0.0])
    module = simt.build(CONSTANTS, "k", signature.parse(CONSTANTS, "k"))
    module.launch(1, 1, [x])
    assert x[0] == -3.0 and x[1] == float("inf") and x[2].isnan()


def test_an_own_infinity_wins():
    assert nvrtc.compile_cubin(CONSTANTS, arch="sm_90", defines={"INFINITY": "3.0f"}).notes == ""
