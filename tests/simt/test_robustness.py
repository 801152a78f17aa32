"""The machine among others: Ctrl-C, forks, threads, parallel builds, the course's kernels in every schedule."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from course_lib import cuda
from course_lib.cuda import simt
from course_lib.cuda.signature import parse
from course_lib.errors import KernelFault

ROOT = Path(__file__).resolve().parents[2]
ENDLESS = 'extern "C" __global__ void forever(float* x) { unsigned i = 1; while (i) i |= 1u; x[0] = i; }'
ADD = 'extern "C" __global__ void add(float* x, float y) { x[blockIdx.x * blockDim.x + threadIdx.x] += y; }'
CRASH = 'extern "C" __global__ void crash(float* x) { x[1ll << 40] = 1.f; }'


def _build(source, mode="fast"):
    name = source.split("void ")[-1].split("(")[0]
    return simt.build(source, name, parse(source, name), mode=mode)


@pytest.mark.parametrize("mode", ["fast", "checked"])
def test_ctrl_c_stops_a_kernel(mode):
    module = _build(ENDLESS, mode)
    x = torch.zeros(4)
    alarm = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    started = time.monotonic()
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        if mode == "fast":
            module.launch(2, 32, [x])
        else:
            module.profile(2, 32, [x], step_limit=1 << 60)
        time.sleep(5)  # where the interrupt would come out if the launch had swallowed it
    assert time.monotonic() - started < 3
    assert _build(ADD).launch(1, 4, [x, 1.0]) is None and x.tolist() == [1.0] * 4


def _in_child(queue):
    x = torch.zeros(8)
    _build(ADD).launch(2, 4, [x, 2.0])
    try:
        _build(CRASH).launch(1, 1, [x])
    except KernelFault:
        queue.put(x.tolist())


def test_a_forked_process_runs_kernels():
    x = torch.zeros(8)
    _build(ADD).launch(2, 4, [x, 1.0])
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=30) == [2.0] * 8
    child.join(10)
    assert child.exitcode == 0


def test_threads_of_python_take_turns():
    results = []

    def work(value):
        x = torch.zeros(256)
        for _ in range(5):
            _build(ADD).launch(8, 32, [x, float(value)])
        results.append((value, x.tolist() == [5.0 * value] * 256))

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(value, True) for value in range(4)]


def test_two_processes_may_build_the_same_kernel(tmp_path):
    """Into a cache that holds the machine already: only the kernel is built twice."""
    source = ADD + f"\n// {tmp_path}"
    program = (
        "import sys\nfrom course_lib.cuda import simt\nfrom course_lib.cuda.signature import parse\n"
        "source = sys.argv[1]\nprint(simt.build(source, 'add', parse(source, 'add')).path.name)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, source], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    names = {child.communicate(timeout=120)[0].strip() for child in children}
    assert len(names) == 1 and names.pop().startswith("kernel-fast-")


def test_the_cache_forgets_what_was_used_longest_ago(tmp_path, monkeypatch):
    cache = sys.modules["course_lib.cuda.simt.cache"]
    monkeypatch.setattr(cache, "CACHE_BYTES", 250)
    for age in (9000, 8000, 7000, 10):
        path = tmp_path / f"kernel-fast-{age}.so"
        path.write_bytes(b"0" * 100)
        os.utime(path, (time.time() - age, time.time() - age))
    cache.prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernel-fast-10.so", "kernel-fast-7000.so"]


def test_many_faults_in_a_row_leave_the_process_whole():
    x = torch.zeros(4)
    crash, add = _build(CRASH), _build(ADD)
    for _ in range(20):
        with pytest.raises(KernelFault):
            crash.launch(4, 64, [x])
        add.launch(1, 4, [x, 1.0])
    assert x.tolist() == [20.0] * 4


def test_the_host_keeps_its_own_signal_handlers():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)]
    _build(ADD).launch(1, 4, [torch.zeros(4), 1.0])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)] == before


COURSE = [
    ("softmax/01_three_pass.cu", 128, 128),
    ("softmax/02_online.cu", 128, 128),
    ("softmax/03_online_warp.cu", 32, None),
]


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random", "resident"])
@pytest.mark.parametrize(("path", "threads", "block"), COURSE, ids=[row[0] for row in COURSE])
def test_the_courses_kernels_are_clean(path, threads, block, schedule):
    kernel = cuda.load(path, defines={"BLOCK": block} if block else None)
    x = torch.randn(5, 67)
    out = torch.full_like(x, float("nan"))
    report = kernel.profile(5, threads, x, out, 5, 67, schedule=schedule, outputs=(out,))
    assert report.ok, str(report)
    assert torch.allclose(out, x.softmax(-1), atol=1e-6)


def test_results_of_many_blocks_on_several_workers_are_the_same(monkeypatch):
    kernel = cuda.load("softmax/02_online.cu", defines={"BLOCK": 128})
    x = torch.randn(600, 300)
    outs = []
    for workers in ("1", "2", "4"):
        monkeypatch.setenv("COURSE_SIMT_WORKERS", workers)
        out = torch.full_like(x, float("nan"))
        kernel(600, 128, x, out, 600, 300)
        outs.append(out)
    assert torch.equal(outs[0], outs[1]) and torch.equal(outs[0], outs[2])
    assert torch.allclose(outs[0], x.softmax(-1), atol=1e-6)


def test_the_report_reads_as_a_table():
    kernel = cuda.load("softmax/02_online.cu", defines={"BLOCK": 128})
    x = torch.randn(4, 64)
    report = kernel.profile(4, 128, x, torch.zeros_like(x), 4, 64)
    text, page = str(report), report._repr_html_()
    assert "no findings" in text and "global load" in text
    assert page.count("<tr>") == len(report.rows()) and "online_softmax_kernel" in page
    ledger = report.ledger()
    assert ledger["global_load"]["bytes"] == 2 * x.numel() * 4
    assert ledger["global_store"] == {"requests": 8, "sectors": 32, "bytes": 1024, "ideal_sectors": 32}


def test_a_finding_in_an_included_header_names_the_header_and_the_call(tmp_path, monkeypatch):
    """The row state's helpers live in kernels_cu/common; a line number alone would point into the wrong file."""
    source = '#include "common/helper.cuh"\nextern "C" __global__ void f(float* x) { x[0] = past(x); }\n'
    helper = "// a comment\n__device__ {} float past(const float* x) {{ return x[9]; }}\n"
    kernel = _with_helper(tmp_path, monkeypatch, helper.format("__noinline__"), source)
    (finding,) = kernel.profile(1, 1, [torch.zeros(9)]).findings
    assert (finding.kind, finding.line, finding.file, finding.call_line) == (
        "out_of_bounds", 2, "common/helper.cuh", None,
    )  # fmt: skip
    assert finding.message.startswith("common/helper.cuh, line 2: ")
    kernel = _with_helper(tmp_path, monkeypatch, helper.format("__forceinline__"), source)
    (finding,) = kernel.profile(1, 1, [torch.zeros(9)]).findings
    assert (finding.line, finding.file, finding.call_line) == (2, "common/helper.cuh", 2)
    assert finding.message.startswith("line 2 (in common/helper.cuh, line 2): ")


def test_two_calls_of_one_barrier_are_two_places(tmp_path, monkeypatch):
    """The halves of a block call the same helper, and wait at its one barrier from two lines of the kernel."""
    helper = "__device__ __forceinline__ void meet() {\n    __syncthreads();\n}\n"
    source = (
        '#include "common/helper.cuh"\n'
        'extern "C" __global__ void f(float* x) {\n'
        "    if (threadIdx.x < 32) { meet(); x[0] = 1.0f; }\n"
        "    else { x[1] = 1.0f;\n"
        "        meet(); }\n"
        "}\n"
    )
    (finding,) = _with_helper(tmp_path, monkeypatch, helper, source).profile(1, 64, [torch.zeros(9)]).findings
    assert (finding.kind, finding.call_line, finding.other_call_line) == ("divergent_barrier", 3, 5)
    assert "at the barrier of line 5 (in common/helper.cuh, line 2)" in finding.message


def _with_helper(tmp_path, monkeypatch, helper, source):
    """A checked kernel that includes `helper` from a kernels_cu/common of its own."""
    builder = sys.modules["course_lib.cuda.simt.build"]
    folder = tmp_path / "kernels_cu"
    (folder / "common").mkdir(parents=True, exist_ok=True)
    (folder / "common" / "helper.cuh").write_text(helper)
    monkeypatch.setattr(builder, "KERNELS", folder)
    builder._tree_hash.cache_clear()
    return _build(source, "checked")
