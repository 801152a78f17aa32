"""Every wrapper of inline PTX in kernels_cu/common has the same name, result and parameters on the SIMT machine."""

import re
import subprocess
from pathlib import Path

import pytest
from headers_common import INCLUDE

from course_lib.cuda.simt.compilers import compiler
from course_lib.cuda.source import KERNELS_ROOT

TWIN = re.compile(r"^#include <simt/(\w+\.h)>", re.MULTILINE)  # what a wrapper includes on the SIMT machine
FILES = sorted((KERNELS_ROOT / "common").glob("*.cuh"))
WRAPPERS = {path.name: match[1] for path in FILES if (match := TWIN.search(path.read_text()))}
FUNCTION = re.compile(r"(?:^|[>;}\s])((?:\w+ )*\w+\*?) (\w+)\(([^{};]*)\) \{")  # result, name, parameters
ATTRIBUTES = re.compile(r"\b(static|inline|__attribute__\(\((?:[^()]|\([^()]*\))*\)\)) ?")
NAME = re.compile(r"(?<=[ *&])(?!(?:int|unsigned|long|float|bool|char)\b)[a-z]\w*(?=$|,|\)| =)")  # of a parameter
GPU = ("-D__CUDA_ARCH__=900", "-D__CUDA_ARCH_FEAT_SM90_ALL", "-D__device__=", "-D__forceinline__=", "-D__shared__=")


def expanded(text, files, options, include):
    """The lines that come from `files`, their macros expanded, as one line without attributes."""
    command = [compiler()[0], "-std=c++17", "-E", "-x", "c++", *options, *(f"-I{folder}" for folder in include), "-"]
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[:2000]
    own, inside = [], False
    for line in run.stdout.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            inside = Path(marker[1]).name in files
        elif inside:
            own.append(line)
    return ATTRIBUTES.sub("", re.sub(r"\s+", " ", " ".join(own)))


def functions(text):
    """{(result, name, types of the parameters)} of the functions in `text`; extents of arrays do not count."""
    found = set()
    for result, name, values in FUNCTION.findall(text):
        values = NAME.sub("", re.sub(r"\[\w+\]", "[]", values.strip()).replace(", ", ","))
        types = tuple(" ".join(value.split()) for value in values.split(","))
        if result not in ("return", "else") and not name.startswith("simt_"):
            found.add((result, name, types))
    return found


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_the_same_functions(wrapper, tmp_path):
    for name in ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h"):
        (tmp_path / name).write_text("")  # the GPU's own are long, and not needed to read the functions
    text = f'#include "common/{wrapper}"\n'
    gpu = functions(expanded(text, {wrapper}, GPU, (tmp_path, KERNELS_ROOT)))
    on_cpu = ("-DSIMT_FAST", "-include", INCLUDE / "simt" / "machine.h")
    machine = functions(expanded(text, {wrapper, WRAPPERS[wrapper]}, on_cpu, (INCLUDE, KERNELS_ROOT)))
    assert gpu, f"no function of {wrapper} was read"
    assert gpu == machine


def test_every_header_with_inline_ptx_has_another_way_for_the_machine():
    alone = [path.name for path in FILES if "asm" in path.read_text() and "__CUDA_ARCH__" not in path.read_text()]
    assert not alone, f"{alone} do not run on the SIMT machine"


def test_another_name_result_or_type_is_another_function():
    one = functions("template <int N> void f(float (&d)[32], const void* source, unsigned n = 1) { body }")
    assert one == {("void", "f", ("float (&)[]", "const void*", "unsigned = 1"))}
    assert one == functions("void f(float (&acc)[REGS], const void* src, unsigned num = 1) { other; }")
    for changed in (
        "void g(float (&d)[32], const void* source, unsigned n = 1) {}",
        "int f(float (&d)[32], const void* source, unsigned n = 1) {}",
        "void f(float (&d)[32], void* source, unsigned n = 1) {}",
        "void f(float (&d)[32], const void* source, int n = 1) {}",
        "void f(float (&d)[32], const void* source, unsigned n) {}",
    ):
        assert functions(changed.replace("{}", "{ }")) != one
