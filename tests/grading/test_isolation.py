"""run_task: what goes in comes out as data, inside limits, and the next answer finds everything as before."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from course_lib.errors import UnsupportedError
from course_lib.grading.processes import isolation, wire
from course_lib.grading.processes.protocol import ChildTask, Ref, Run


def run_python(source, *runs, entry="answer", **limits):
    return isolation.run_task(ChildTask("python", source, entry, runs or (doubling("only"),), **limits))


def doubling(name, rows=3, cols=2):
    """A run whose answer gets x (rows, cols) and returns y of the same shape."""
    x = torch.arange(float(rows * cols)).reshape(rows, cols)
    return Run(name, {"x": x}, {"y": ((rows, cols), "float32")}, (Ref("x"),))


def test_outputs_come_back_in_the_order_of_the_runs():
    result = run_python("def answer(x): return x * 2", doubling("small", 1, 1), doubling("large", 40, 50))
    assert result.fault is None
    assert [run.name for run in result.runs] == ["small", "large"]
    torch.testing.assert_close(result.runs[1].outputs["y"], torch.arange(2000.0).reshape(40, 50) * 2)


def test_strides_of_an_input_reach_the_answer():
    run = Run("transposed", {"x": torch.arange(6.0).reshape(2, 3).t()}, {"y": ((2,), "int64")}, (Ref("x"),))
    result = run_python("import torch\ndef answer(x): return torch.tensor(x.stride())", run)
    assert result.runs[0].outputs["y"].tolist() == [1, 3]


def test_what_the_meta_device_needs_is_loaded_before_the_answer_runs():
    source = (
        "import sys, torch\n"
        "def answer(x):\n"
        "    before = len(sys.modules)\n"
        "    torch.empty_like(x.to('meta').T).square().mean(-1).rsqrt()\n"
        "    return torch.tensor(len(sys.modules) - before)"
    )
    run = Run("modules", {"x": torch.ones(2, 3)}, {"count": ((), "int64")}, (Ref("x"),))
    assert run_python(source, run, meta=True).runs[0].outputs["count"] == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool", "float8_e4m3fn"])
def test_every_dtype_of_the_course_travels(dtype):
    x = torch.tensor([0, 1, 1, 0]).to(getattr(torch, dtype))
    run = Run("copy", {"x": x}, {"y": ((4,), dtype)}, (Ref("x"),))
    outputs = run_python("def answer(x): return x.clone()", run).runs[0].outputs
    assert outputs["y"].dtype == x.dtype
    assert outputs["y"].float().tolist() == [0, 1, 1, 0]


def test_a_size_of_minus_one_stands_for_any():
    run = Run("row", {}, {"row": ((-1,), "float32")}, ())
    assert run_python("import torch\ndef answer(): return torch.ones(7)", run).runs[0].outputs["row"].shape == (7,)


def test_a_later_crash_keeps_earlier_results():
    source = "import os\ndef answer(x):\n    if len(x) == 2: os._exit(3)\n    return x * 2"
    result = run_python(source, doubling("first", 1, 1), doubling("second", 2, 2), doubling("third"))
    assert result.runs[0].outputs is not None
    assert result.runs[1].fault.kind == "exited"
    assert result.runs[2].outputs is None and result.runs[2].fault is None
    assert "exit code 3" in result.fault.message


def test_the_answer_cannot_see_the_notebooks_folder_or_leave_files():
    source = "import os\ndef answer(x):\n    open('left.txt', 'w').write('x')\n    print(os.getcwd())\n    return x * 2"
    result = run_python(source)
    folder = result.printed.strip()
    assert result.fault is None and folder != os.getcwd()
    assert not os.path.exists(folder)


def test_standard_input_is_closed():
    result = run_python("def answer(x):\n    return x * 2 if input() else x")
    assert "EOFError" in result.runs[0].fault.message


def test_environment_of_the_judge_survives_a_patched_torch():
    run_python(
        "import torch\ntorch.allclose = lambda *_: True\ndef answer(x):\n    torch.Tensor.__mul__ = None\n    return x"
    )
    assert run_python("def answer(x): return x * 2").runs[0].outputs is not None


def test_no_core_file_and_small_files_only():
    source = (
        "import resource\n"
        "def answer(x):\n"
        "    print(resource.getrlimit(resource.RLIMIT_CORE)[0], resource.getrlimit(resource.RLIMIT_FSIZE)[0])\n"
        "    return x"
    )
    core, largest = map(int, run_python(source).printed.split())
    assert core == 0 and 0 < largest <= 1 << 30


def test_what_every_answer_needs_is_loaded_before_the_fork():
    needed = ("triton.language.extra.libdevice", "triton.experimental.gluon", "course_lib.triton.recorder")
    source = f"import sys\ndef answer(x):\n    assert set({needed}) <= set(sys.modules)\n    return x * 2"
    assert run_python(source).runs[0].fault is None
    kernel = 'extern "C" __global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2.0f * x[threadIdx.x]; }'
    run = replace(doubling("one", 1, 4), arguments=(Ref("x"), Ref("y")), block=(4, 1, 1))
    result = isolation.run_task(ChildTask("cuda", kernel, "twice", (run,)))
    assert result.runs[0].outputs["y"].tolist() == [[0.0, 2.0, 4.0, 6.0]]
    maps = Path(f"/proc/{isolation.zygote().process.pid}/maps")
    assert not maps.exists() or "/libsimt-" in maps.read_text()


def test_a_warm_check_takes_milliseconds():
    run_python("def answer(x): return x * 2")
    started = time.perf_counter()
    run_python("def answer(x): return x * 2")
    assert time.perf_counter() - started < 1.0


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\xff" * 40,
        (10**15).to_bytes(8, "little") + b"{}",
        wire.pack({"x": torch.zeros(4)})[:-3],
        (len(b'{"~tensor": ["float32", [-1], null, 4]}')).to_bytes(8, "little")
        + b'{"~tensor": ["float32", [-1], null, 4]}'
        + b"0000",
        (len(b'{"~tensor": ["load", [1], null, 4]}')).to_bytes(8, "little")
        + b'{"~tensor": ["load", [1], null, 4]}'
        + b"0000",
    ],
)
def test_damaged_bytes_are_refused(damage):
    with pytest.raises(wire.WireError):
        wire.unpack(damage)


def test_a_task_survives_the_way():
    run = Run(
        "r",
        {"x": torch.ones(2, 2).t()},
        {"y": ((2,), "float16")},
        (Ref("x"), 3, 0.5, True),
        (2, 1, 1),
        (32, 1, 1),
        16,
        {"BLOCK": 8},
        schedules=("forward",),
    )
    task = ChildTask("cuda", "text", "entry", (run,), forbidden=("torch.softmax",))
    back = wire.unpack_task(wire.pack_task(task))
    assert back.forbidden == task.forbidden and back.runs[0].arguments == run.arguments
    assert back.runs[0].outputs == run.outputs and back.runs[0].schedules == ("forward",)
    assert back.runs[0].arguments[3] is True and back.runs[0].poison != back.runs[0].poison


def test_the_sandbox_hides_the_network_and_locks_the_files(tmp_path):
    target = tmp_path / "written"
    source = (
        "import socket\n"
        "def answer(x):\n"
        f"    try: open({str(target)!r}, 'w')\n"
        "    except OSError: print('files are locked')\n"
        "    try: socket.create_connection(('1.1.1.1', 80), timeout=2)\n"
        "    except OSError as error: print('no network')\n"
        "    return x * 2"
    )
    task = ChildTask("python", source, "answer", (doubling("only"),))
    try:
        result = isolation.run_task(task, sandbox=True)
    except UnsupportedError as error:
        assert "bubblewrap" in str(error)
        pytest.skip("bubblewrap is not installed")
    assert result.fault is None and result.runs[0].outputs is not None
    assert result.printed.split("\n")[:2] == ["files are locked", "no network"]
    assert not target.exists()


def test_a_judge_whose_notebook_is_gone_ends_without_a_word():
    ours, theirs = socket.socketpair()
    factory = "course_lib.grading.judge.server:serve"
    command = [sys.executable, "-P", "-m", "course_lib.worker", str(theirs.fileno()), factory]
    server = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
    theirs.close()
    ours.close()
    _, said = server.communicate(timeout=60)
    assert server.returncode == 0 and said == ""


@pytest.mark.parametrize(
    ("tuned", "expected"),
    [("", "glibc.malloc.hugetlb=1"), ("glibc.malloc.perturb=3", "glibc.malloc.hugetlb=1:glibc.malloc.perturb=3")],
)
def test_what_the_user_has_tuned_in_glibc_stays(monkeypatch, tuned, expected):
    monkeypatch.setenv("GLIBC_TUNABLES", tuned)
    assert isolation._large_pages() == {"GLIBC_TUNABLES": expected}
