"""Interpreter or compiler: chosen once, before triton is imported; an error afterwards."""

import os
import subprocess
import sys

import pytest

from course_lib.triton import mode


def run(code, root, **environment):
    """Run `code` in a fresh Python from the repository's root; return what it printed, errors included."""
    ours = ("TRITON_INTERPRET", "COURSE_ENGINE", "TRITON_CACHE_DIR")
    environment = {**{k: v for k, v in os.environ.items() if k not in ours}, **environment}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def test_importing_the_course_is_light_and_chooses(root):
    code = (
        "import sys, os, course_lib\n"
        "heavy = {'torch', 'triton', 'cupy', 'numpy', 'matplotlib', 'IPython'} & set(sys.modules)\n"
        "print(sorted(heavy), os.environ.get('TRITON_INTERPRET'), os.environ['TRITON_CACHE_DIR'])\n"
        "from course_lib.triton.mode import loaded_mode, is_interpreted\n"
        "print(loaded_mode(), is_interpreted())\n"
        "import triton\n"
        "print(loaded_mode(), is_interpreted())\n"
    )
    out = run(code, root, COURSE_ENGINE="cpu", COURSE_CACHE_DIR="/tmp/somewhere").splitlines()
    assert out == ["[] 1 /tmp/somewhere/triton", "None True", "interpreter True"]


@pytest.mark.parametrize("name", ["_TritonFinder", "_Finder"])
def test_a_finder_of_another_package_is_not_taken_for_the_courses_own(root, name):
    foreign = f"class {name}:\n    find_spec = staticmethod(lambda *_: None)\nsys.meta_path.insert(0, {name}())\n"
    code = (
        "import course_lib, triton.runtime.interpreter as i\nprint(i.InterpreterBuilder.create_masked_load.__module__)"
    )
    assert run(f"import sys\n{foreign}{code}", root, TRITON_INTERPRET="1").strip() == "course_lib.triton._private"


def test_too_late_is_said_with_what_to_do(root):
    out = run("import triton, course_lib", root, COURSE_ENGINE="cpu")
    assert "CourseError: triton was imported before course_lib, in compiler mode" in out
    assert "Import course_lib first" in out and "restart the kernel" in out


def test_triton_first_in_the_right_mode_is_adapted(root):
    code = (
        "import triton, course_lib\n"
        "print(triton.runtime.interpreter._course_adapted, triton.runtime.jit._course_adapted)\n"
    )
    assert run(code, root, TRITON_INTERPRET="1").split() == ["True", "True"]


@pytest.mark.parametrize(
    ("variable", "has_gpu", "interpreted"),
    [(None, False, True), (None, True, False), ("1", True, True), ("0", False, False), ("", False, True)],
)
def test_the_choice(monkeypatch, variable, has_gpu, interpreted):
    """An explicit TRITON_INTERPRET wins; otherwise the machine decides."""
    monkeypatch.setattr(mode, "loaded_mode", lambda: None)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    if variable is not None:
        monkeypatch.setenv("TRITON_INTERPRET", variable)
    assert mode.choose_interpreter(has_gpu) is interpreted
    assert (os.environ.get("TRITON_INTERPRET") == "1") is interpreted


def test_a_gpu_machine_profiles_in_a_process_of_its_own(root, tmp_path):
    """In compiler mode (as on a GPU machine) profile_triton is the same call with the same results."""
    file = tmp_path / "kernels.py"
    file.write_text(GPU_MACHINE)
    out = run(f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')", root, TRITON_INTERPRET="0")
    assert out.splitlines() == [
        "compiler JITFunction",
        "True True 3200 True",
        "[('out_of_bounds', 17, 'x')]",
        "KernelFault line 28: AttributeError",
        "ArgumentError uses the global SETTINGS",
    ], out


GPU_MACHINE = """\
import course_lib
import torch, triton, triton.language as tl
from course_lib import profile_triton
from course_lib.triton.mode import loaded_mode
FACTOR = tl.constexpr(3)
SETTINGS = {"a": 1}


@triton.jit
def scaled(v):
    return v * FACTOR


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, scaled(v).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def broken(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    # a comment, so that the line below is counted



    tl.store(x + i, tl.load(x + i).nothing())


@triton.jit
def unsendable(x):
    tl.store(x, SETTINGS["a"])


print(loaded_mode(), type(kernel).__name__)
x, y = torch.arange(800.0), torch.zeros(800)
grid = lambda meta: (triton.cdiv(800, meta["BLOCK"]),)
report = profile_triton(kernel, grid, x, y, 800, outputs=(y,), BLOCK=128)
print(report.ok, torch.equal(y, 3 * x), report.load.bytes, report.lines[0].text.startswith("v = tl.load"))
report = profile_triton(kernel, 7, x, torch.zeros(900), 810, BLOCK=128)
print([(f.kind, f.line, f.tensor) for f in report.findings])
for fn, args, constants in ((broken, (x,), {"BLOCK": 16}), (unsendable, (x,), {})):
    try:
        profile_triton(fn, 1, *args, **constants)
    except Exception as error:
        end = str(error).find("Error") + 5 if "AttributeError" in str(error) else str(error).find(",")
        print(type(error).__name__, str(error)[:end].removeprefix("unsendable "))
"""
