"""What a stranger's answer may not contain: every listed way is found, and no answer of the course is."""

import os

import pytest

from course_lib import checklist, cli
from course_lib.cuda.simt.build import compile_kernel
from course_lib.errors import CompileError
from course_lib.grading.answer import refused
from course_lib.grading.exercise import registry, submissions

KERNEL = 'extern "C" __global__ void twice(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }\n'
PYTHON = (
    "import course_lib.reference.softmax",
    "from course_lib.grading.processes import tensors",
    "import sys",
    "import os",
    "import ctypes",
    "import gc",
    "import torch.utils._python_dispatch",
    "from torch import load",
    "import torch\ntorch.allclose = print",
    "import torch\ndel torch.Tensor.exp",
    "import torch\nf = torch.ops",
    "import torch\nx = torch.empty(1).data_ptr()",
    "import numpy\nnumpy.load('x')",
    "import triton.runtime",
    "f = (lambda: 0).__globals__",
    "f = [c for c in ().__class__.__base__.__subclasses__()]",
    "eval('1')",
    "__import__('os')",
    "open('x')",
    "f = getattr",
    "import torch\nvars(torch)['exp'] = 1",
    "import torch\nf = vars(torch).items()",
    "import torch\nf = dict(vars(torch))",
    "class A: pass\nvars(A())['x'] = 1",
    "def answer(x):\n    try: 1 / 0\n    except Exception as e: e.__traceback__.tb_frame.f_back",
    "import operator\nf = operator.attrgetter('x')",
    # files and machine code, by torch and numpy
    "import torch\nf = torch.from_file",
    "import torch\nf = torch.UntypedStorage.from_file",
    "import torch\nf = torch.frombuffer",
    "import torch\nx = torch.ones(1).untyped_storage()",
    "import torch\ntorch.ops.load_library('x')",
    "from torch.utils import cpp_extension",
    "import torch\nf = torch.load",
    "import torch\nf = torch.serialization.load",
    "import torch\nf = torch.jit.load",
    "import torch\nf = torch.hub.load",
    "from torch import from_file",
    "import numpy\nf = numpy.memmap",
    "import numpy as np\nf = np.fromfile",
    "import numpy\nf = numpy.fromregex",
    "import numpy.ctypeslib",
    "from numpy.ctypeslib import as_array",
    "import numpy.f2py",
    "from numpy.lib.format import open_memmap",
    "import torch\nf = torch.ones(1).numpy().tofile",
    # modules of the system, by themselves or through another
    "import pickle",
    "import importlib",
    "from importlib import import_module",
    "import inspect",
    "import builtins",
    "import multiprocessing",
    "import subprocess",
    "import threading",
    "import weakref",
    "import torch\nf = torch.os.system",
    "import torch\nt = torch\nf = t.ctypes",
    "import torch\nf = torch.builtins.open",
    "import random\nf = random._os.environ",
    "import collections\nf = collections._sys.modules",
    "import traceback\nf = traceback.linecache.cache",
    "from random import _os",
    "from torch import os",
    "from torch import *",
    # the oracle or the judge's frames
    "import sys\nf = sys._getframe(1)",
    "import gc\nf = gc.get_objects()",
    "def answer(x):\n    def g(): yield\n    return g().gi_frame",
    "async def g(): pass\nf = g().cr_frame",
    "f = (lambda: 0).__closure__",
    "f = answer.__code__",
    "class A:\n    def __del__(self): self.__dict__",
    "f = type.mro(int)[-1].__subclasses__()",
    "import functools\nf = functools.partial.__reduce__",
    # what other code of the process would then see
    "import torch\ntorch.Tensor.__eq__ = lambda a, b: True",
    "import torch\ntorch.set_default_dtype(torch.float64)",
    "import torch\ntorch.set_default_device('meta')",
    "import torch\nsetattr(torch, 'exp', None)",
    "import torch\ntorch.nn.functional.softmax = None",
    "import torch\ntorch.library.impl('aten::exp', 'CPU')",
    "import math\nmath.exp = None",
    "import triton\ntriton.jit = None",
    "import triton.language as tl\ntl.exp = None",
    "import numpy\nnumpy.exp = None",
    "globals()['__builtins__']",
    "import functools\nf = functools.reduce(getattr, ['a'], 1)",
    "exec('import os')",
    "compile('1', 'f', 'eval')",
)
CUDA = (
    'asm("nop");',
    '__asm__ volatile(".incbin \\"/etc/passwd\\"");',
    '#include "/etc/passwd"',
    '#include "../../solutions/x.cu"',
    '__attribute__((no_sanitize("thread"))) void f() {}',
    "__attribute__((constructor)) void f() {}",
    'extern "C" int PyRun_SimpleString(const char*);',
    'extern "C" { int system(const char*); }',
    "#define JOIN(a, b) a##b",
    "#pragma GCC optimize(3)",
    "__device__ void f() { __builtin_trap(); }",
    "as\\\nm(\"nop\");",
)  # fmt: skip


@pytest.mark.parametrize("text", PYTHON)
def test_what_reaches_beyond_an_answer_is_found(text):
    for language in ("python", "triton"):
        sentence, line = refused.find(language, text + "\n")
        assert "no answer needs" in sentence and sentence.startswith(f"Line {line} ")


@pytest.mark.parametrize("text", CUDA)
def test_what_reaches_beyond_a_kernel_is_found(text):
    sentence, line = refused.find("cuda", f"{KERNEL}// asm in a comment\n{text}\n")
    assert line == 3 and "no answer needs" in sentence


def test_no_answer_of_the_course_is_refused():
    for exercise_id in registry.ids():
        exercise = registry.get(exercise_id)
        solution = checklist.solution_text(exercise)
        texts = [solution, *(submissions.edited(solution, one) for one in submissions.load("right", exercise_id))]
        assert [found for text in texts if (found := refused.find(exercise.language, text))] == []


def test_a_kernel_that_calls_the_host_is_refused_by_its_symbols(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_SANDBOXED", "1")
    declared = "int getppid();\n" + KERNEL.replace("y[threadIdx.x] =", "y[threadIdx.x] = (float)getppid() +")
    marked = f"// {tmp_path}\n"  # a text that no cache holds
    with pytest.raises(CompileError, match="getppid"):
        compiled(marked + declared)
    compiled(marked + KERNEL.replace("= x[", "= __expf(1.0f) * sinf(x[0]) + powf(x[0], 2.0f) + x["))


def compiled(text):
    return compile_kernel(text, "twice", defines=None, filename="a", first_line=1, mode="checked")


def test_grade_all_judges_each_submission_in_a_sandbox(tmp_path, capsys):
    solution = checklist.solution_text(registry.get("03.1"))
    for name, text in {"anna/03.1.py": solution, "ben/03_1_x.py": "import os\n" + solution}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (tmp_path / "anna" / "02.1.cu").symlink_to("/etc/hostname")
    status = cli.main(["grade-all", str(tmp_path)])
    out, err = capsys.readouterr()
    if status == cli.BAD_REQUEST:
        assert "sandbox" in err and "grade without --sandbox" in err
        pytest.skip(err)
    assert status == 1 and out.splitlines()[0].split()[:3] == ["anna/03.1.py", "03.1", "PASS"]
    assert "the module os" in out and out.splitlines()[-1] == "1 of 2 submissions pass."


def test_grade_all_says_when_there_is_nothing(tmp_path, capsys):
    assert cli.main(["grade-all", str(tmp_path)]) == cli.BAD_REQUEST
    assert cli.main(["grade-all", str(tmp_path / "none")]) == cli.BAD_REQUEST
    assert "holds no submission" in (said := capsys.readouterr().err) and "there is no folder" in said
    assert os.listdir(tmp_path) == []
