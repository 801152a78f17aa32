"""Triton kernels compile ahead of time for other GPUs, in a worker process that stays alive."""

import os

import pytest
import torch  # noqa: F401  the interpreter of this process stays usable beside the compiler
import triton
import triton.language as tl

from course_lib import worker
from course_lib.errors import ArgumentError, CompileError, UnsupportedError
from course_lib.triton import aot, compile_for

SCALE = tl.constexpr(2.0)


@triton.jit
def scaled_dot_kernel(x, y, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    at = i[:, None] * TILE + i[None, :]
    a = tl.load(x + at)
    tl.store(y + at, (tl.dot(a, a) * SCALE).to(y.dtype.element_ty))


@triton.jit
def bad_range_kernel(x, BLOCK: tl.constexpr):
    i = tl.arange(0, 3)
    tl.store(x + i, i)


TENSOR_CORE = {"sm_75": None, "sm_90": "wgmma.mma", "sm_100": "tcgen05.mma"}  # the others: mma.sync


@pytest.mark.parametrize("arch", aot.ARCHITECTURES)
def test_every_architecture_of_the_support_matrix(arch):
    """The sentence of the support matrix is what the PTX shows."""
    tile = 32 if arch == "sm_75" else 64
    compiled = compile_for(scaled_dot_kernel, {"x": "*fp16", "y": "*fp32"}, {"TILE": tile}, arch)
    assert f".target {arch}" in compiled.ptx and compiled.cubin[:4] == b"\x7fELF"
    assert 0 < compiled.registers <= 255 and compiled.seconds < 30
    assert compiled.spill_bytes == 0 or arch == "sm_75"
    instruction = TENSOR_CORE.get(arch, "mma.sync")
    used = {name for name in ("wgmma.mma", "tcgen05.mma", "mma.sync") if name in compiled.ptx}
    assert used == ({instruction} if instruction else set())
    assert (instruction or "without tensor cores").split(".")[0] in aot.support(arch)


def test_options_and_shared_memory_arrive():
    few, many = (
        compile_for(scaled_dot_kernel, {"x": "*fp16", "y": "*fp32"}, {"TILE": 64}, "sm_80", num_warps=warps)
        for warps in (1, 8)
    )
    assert few.registers > many.registers and few.shared_bytes > 0
    assert ".reqntid 32" in few.ptx and ".reqntid 256" in many.ptx


def test_spills_are_seen():
    compiled = compile_for(scaled_dot_kernel, {"x": "*fp16", "y": "*fp32"}, {"TILE": 64}, "sm_80", maxnreg=32)
    assert compiled.registers == 32 and compiled.spill_bytes > 0


def test_a_refusal_names_the_authors_line():
    with pytest.raises(CompileError, match="bad_range_kernel does not compile for sm_90 at line.*power of 2") as caught:
        compile_for(bad_range_kernel, {"x": "*i32"}, {"BLOCK": 4}, "sm_90")
    with open(__file__) as file:
        assert "tl.arange(0, 3)" in file.readlines()[caught.value.line - 1]
    assert caught.value.filename == __file__ and "arange" in caught.value.log


def test_fp8_needs_an_architecture_that_has_it():
    with pytest.raises(CompileError, match="fp8e4nv not supported in this architecture"):
        compile_for(scaled_dot_kernel, {"x": "*fp8e4nv", "y": "*fp32"}, {"TILE": 32}, "sm_80")
    compile_for(scaled_dot_kernel, {"x": "*fp8e4nv", "y": "*fp32"}, {"TILE": 32}, "sm_89")


def test_a_file_and_a_name(tmp_path):
    file = tmp_path / "stored.py"
    text = (
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef fill(x, BLOCK: tl.constexpr):\n"
        "    tl.store(x + tl.arange(0, BLOCK), 1.0)\n"
    )
    file.write_text(text)
    assert "st.global" in compile_for(f"{file}:fill", {"x": "*fp32"}, {"BLOCK": 64}, "sm_80").ptx
    file.write_text(text.replace("tl.store(", "tl.atomic_add("))
    assert "atom.global" in compile_for(f"{file}:fill", {"x": "*fp32"}, {"BLOCK": 64}, "sm_80").ptx
    with pytest.raises(ArgumentError, match="stored.py has no function other"):
        compile_for(f"{file}:other", {}, {}, "sm_80")
    with pytest.raises(ArgumentError, match="the file must exist"):
        compile_for("nowhere.py:other", {}, {}, "sm_80")


def test_arguments_are_checked():
    with pytest.raises(ArgumentError, match="without y and with the unknown z"):
        compile_for(scaled_dot_kernel, {"x": "*fp16", "z": "*fp32"}, {"TILE": 32}, "sm_80")
    with pytest.raises(UnsupportedError, match="sm_80"):
        compile_for(scaled_dot_kernel, {"x": "*fp16", "y": "*fp32"}, {"TILE": 32}, "sm_35")


def test_a_forked_child_does_not_end_the_process_at_its_exit():
    compile_for(scaled_dot_kernel, {"x": "*fp16", "y": "*fp32"}, {"TILE": 32}, "sm_80")
    compiler = worker.worker(f"{aot.__name__}:serve", aot._ENVIRONMENT)
    pid = os.fork()
    if pid == 0:
        compiler.close()
        os._exit(0 if compiler.process is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert compiler.running()


def test_the_process_comes_back_after_it_died():
    signature = {"x": "*fp16", "y": "*fp32"}
    compile_for(scaled_dot_kernel, signature, {"TILE": 32}, "sm_80")
    process = aot.worker(f"{aot.__name__}:serve", aot._ENVIRONMENT).process
    process.kill()
    process.wait()
    assert compile_for(scaled_dot_kernel, signature, {"TILE": 32}, "sm_80").registers > 0
