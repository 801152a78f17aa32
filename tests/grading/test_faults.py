"""How a Python answer can go wrong: each way its own outcome, one sentence and, where there is one, the line."""

import re
import time

import pytest
import torch
from scale_kernel import fault_of

from course_lib.grading.processes import isolation, zygote
from course_lib.grading.processes.protocol import Change, ChildTask, Ref, Run
from course_lib.grading.subjects.softmax.library import LIBRARY_SOFTMAX

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
RUN = Run("case 0", {"x": X}, {"y": ((2, 2), "float32")}, (Ref("x"),), constants={"block_n": 2})
GOOD = "def answer(x, block_n): return x * 2"


def run(source, **limits):
    return isolation.run_task(ChildTask("python", source, "answer", (RUN,), filename="In [3]", **limits))


@pytest.fixture(autouse=True)
def _the_next_answer_is_judged_as_before():
    yield
    after = run(GOOD)
    assert after.fault is None
    torch.testing.assert_close(after.runs[0].outputs["y"], X * 2)


OUTCOMES = {
    "syntax error": (
        "import torch\n\ndef answer(x, block_n)\n    return x",
        "compile_error",
        "line 3: expected ':'",
        3,
    ),
    "wrong name": ("def anwser(x, block_n): return x", "missing_function", "has no answer; it defines anwser", None),
    "nothing defined": ("y = 1", "missing_function", "it defines no function", None),
    "not a function": ("answer = 3", "missing_function", "answer is a int", None),
    "too few parameters": ("\ndef answer(x): return x", "wrong_signature", r"answer\(x\) cannot be called", 2),
    "too many parameters": (
        "def answer(x, block_n, z): return x",
        "wrong_signature",
        "missing a required argument: 'z'",
        1,
    ),
    "wrong dtype": ("def answer(x, block_n): return x.double()", "wrong_return", "float64 .* expected float32", None),
    "wrong shape": ("def answer(x, block_n): return x[0]", "wrong_return", r"shape \(2,\); expected .* \(2, 2\)", None),
    "nothing returned": ("def answer(x, block_n): x * 2", "wrong_return", "returned None; it must return y", None),
    "one too many": ("def answer(x, block_n): return x, x", "wrong_return", "returned tuple", None),
    "not a tensor": ("def answer(x, block_n): return 'PASS'", "wrong_return", "a str as y", None),
    "exception": ("def answer(x, block_n):\n    return x[9]", "exception", "IndexError in line 2", 2),
    "exception while loading": ("import torch\nx = torch.nope", "exception", "AttributeError in line 2", 2),
    "not written yet": (
        "def answer(x, block_n):\n    raise NotImplementedError('99.1')",
        "exception",
        "not written yet",
        2,
    ),
    "endless recursion": (
        "def answer(x, block_n):\n    return answer(x, block_n)",
        "recursion",
        "calls itself without end",
        2,
    ),
    "100 GB by torch": (
        "import torch\ndef answer(x, block_n):\n    return torch.zeros(25 << 30)",
        "out_of_memory",
        "line 3",
        3,
    ),
    "100 GB by Python": ("def answer(x, block_n):\n    return bytearray(100 << 30)", "out_of_memory", "line 2", 2),
    "sys.exit": ("import sys\ndef answer(x, block_n):\n    sys.exit(0)", "exited", "sys.exit in line 3", 3),
    "os._exit": ("import os\ndef answer(x, block_n):\n    os._exit(0)", "exited", "exit code 0", None),
    "kills itself": ("import os\ndef answer(x, block_n):\n    os.kill(os.getpid(), 9)", "killed", "SIGKILL", None),
    "terminates itself": (
        "import os\ndef answer(x, block_n):\n    os.kill(os.getpid(), 15)",
        "killed",
        "SIGTERM",
        None,
    ),
    "kills its group": ("import os\ndef answer(x, block_n):\n    os.killpg(0, 9)", "killed", "SIGKILL", None),
    "kills the watcher": (
        "import os, time\ndef answer(x, block_n): os.kill(os.getppid(), 9), time.sleep(9)",
        "killed",
        "watches",
        None,
    ),
    "wild pointer": (
        "import ctypes\ndef answer(x, block_n):\n    ctypes.memset(8, 0, 8)",
        "out_of_bounds",
        "not its own in line 3",
        3,
    ),
    "writes to the channel": (
        "import os\ndef answer(x, block_n):\n    for fd in range(3, 1024):\n        try: os.write(fd, b'PASS' * 9)\n"
        "        except OSError: pass\n    return x * 2",
        "exited",
        "channel that carries its results",
        None,
    ),
    "pickle in the channel": (
        "import os, pickle\ndef answer(x, block_n):\n    for fd in range(3, 1024):\n"
        "        try: os.write(fd, pickle.dumps(OSError))\n        except OSError: pass\n    os._exit(0)",
        "exited",
        "channel",
        None,
    ),
    "a file too large": (
        "def answer(x, block_n):\n    with open('big', 'wb') as file:\n"
        "        for _ in range(600): file.write(bytes(1 << 20))",
        "exception",
        "File too large",
        3,
    ),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome(name):
    source, kind, sentence, line = OUTCOMES[name]
    result = run(source)
    fault = fault_of(result)
    assert fault is not None and fault.kind == kind
    assert re.search(sentence, fault.message), fault.message
    assert fault.line == line
    assert fault.message.count("\n") == 0
    assert result.runs[0].outputs is None


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def answer(x, block_n):\n    while True:\n        pass", (2, 3)),
        ("import time\ndef answer(x, block_n):\n    helper()\ndef helper():\n    time.sleep(600)", (5,)),
        ("import torch\ndef answer(x, block_n):\n    while True:\n        x = x @ x", (3, 4)),
        ("while True:\n    pass\n", (1, 2)),
    ],
    ids=["loop", "sleep in a helper", "loop in torch", "while loading"],
)
def test_an_endless_loop_is_stopped_and_its_line_named(source, line):
    started = time.perf_counter()
    fault = fault_of(run(source, wall_seconds=0.7))
    assert time.perf_counter() - started < 4
    assert fault.kind == "timeout" and fault.line in line
    assert "it was in line" in fault.message and f"line {fault.line}" in fault.message


def test_a_stopped_answer_is_killed_when_its_whole_stack_is_written(monkeypatch):
    accounts, collect = [], isolation.outcome.collect

    def seen(task, account, data):
        accounts.append(account)
        return collect(task, account, data)

    monkeypatch.setattr(isolation.outcome, "collect", seen)
    run("def answer(x, block_n):\n    while True:\n        pass\n", cpu_seconds=0.5)
    frames = accounts[0]["where"].splitlines(keepends=True)
    assert len(frames) > 3 and zygote.is_whole("".join(frames))
    assert not any(zygote.is_whole("".join(frames[:count])) for count in range(len(frames)))


def test_an_endless_loop_costs_its_processor_time_and_names_its_own_line():
    source = (
        "import torch\ndef answer(x, block_n):\n"
        "    for row in x:\n        while block_n > 0:\n            helper(row)\n"
        "def helper(row):\n    for _ in range(3):\n        row = row + 1\n    return row\n"
    )
    started = time.perf_counter()
    fault = fault_of(run(source, cpu_seconds=0.5))
    assert time.perf_counter() - started < 6  # not the 20 s of the wall
    assert (fault.kind, fault.line) == ("timeout", 4)
    assert "after 0.5 s of processor time" in fault.message and "in the loop of line 4" in fault.message


def test_waiting_costs_no_processor_time():
    source = "import time\ndef answer(x, block_n):\n    time.sleep(1)\n    return x * 2"
    assert fault_of(run(source, cpu_seconds=0.6)) is None


def test_an_answer_that_ignores_signals_is_stopped_too():
    source = (
        "import signal\n"
        "def answer(x, block_n):\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
        "    while True: pass\n"
    )
    assert fault_of(run(source, wall_seconds=0.7)).kind == "timeout"


def test_slow_growth_of_memory_is_stopped():
    source = "def answer(x, block_n):\n    kept = []\n    while True: kept.append(bytearray(16 << 20))"
    assert fault_of(run(source, memory_bytes=256 << 20)).kind == "out_of_memory"


def test_output_is_kept_to_its_limit_and_the_rest_is_counted():
    lines = "for _ in range(1000): os.write(1, b'x' * 23999 + b'\\n')"
    source = f"import os\ndef answer(x, block_n):\n    {lines}\n    return x * 2"
    result = run(source, output_bytes=1 << 10)
    assert result.fault is None and result.runs[0].outputs is not None
    assert len(result.printed) < (1 << 10) + 100
    assert "23,998,976 more bytes of output were dropped" in result.printed


def test_output_that_is_no_text_does_no_harm():
    assert (
        "ok"
        in run("import os\ndef answer(x, block_n):\n    os.write(1, bytes(range(256)) + b'ok')\n    return x").printed
    )


def test_a_changed_input_is_named_and_the_original_is_safe():
    result = run("def answer(x, block_n):\n    x += 1\n    return x - 1")
    assert result.runs[0].inputs_changed == (Change("x", (0, 0), 1.0, 2.0, 4),)
    assert X.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ("numpy.int64(3)", "int64", 3),
        ("numpy.int32(3)", "int64", 3),
        ("numpy.float32(0.5)", "float64", 0.5),
        ("numpy.array(3)", "int64", 3),
        ("numpy.bool_(True)", "bool", True),
        ("2.0", "int64", 2),
    ],
)
def test_a_number_may_be_one_of_numpy(value, dtype, expected):
    result = _returning(value, (), dtype)
    assert fault_of(result) is None and result.runs[0].outputs["y"].item() == expected


@pytest.mark.parametrize(
    ("value", "shape", "says"),
    [
        ("2.5", (), "answer returned 2.5 as y; it must be a whole number (int64)."),
        ("numpy.float64(2.5)", (), "answer returned 2.5 (numpy.float64) as y; it must be a whole number (int64)."),
        ("float('nan')", (), "answer returned nan as y; it must be a whole number (int64)."),
        (
            "numpy.zeros(3, dtype='int64')",
            (3,),
            "answer returned a numpy array of shape (3,), int64, as y; it must be a int64 tensor (torch.from_numpy "
            "makes one).",
        ),
    ],
)
def test_what_is_no_number_is_described(value, shape, says):
    fault = fault_of(_returning(value, shape, "int64"))
    assert (fault.kind, fault.message) == ("wrong_return", says)


@pytest.mark.parametrize(
    "value",
    [
        "x.t()[:, 0]",
        "x[:, 1]",
        "x[1:, 1]",  # one element, 2 steps to the next one that there is not
        "x[0, 0].expand(2)",
        "x[:1, 0]",
        "torch.arange(6.0)[::5]",
        "torch.arange(9.0).as_strided((1, 2), (7, 3))",
        "torch.zeros(0, 3).t()",
    ],
)
def test_a_result_may_have_strides(value):
    expected = eval(value, {"x": X, "torch": torch})
    result = _returning(value, tuple(expected.shape), "float32")
    assert fault_of(result) is None
    assert torch.equal(result.runs[0].outputs["y"], expected)


def _returning(value, shape, dtype):
    """The result of an answer that returns the expression `value`."""
    one = Run("case 0", {"x": X}, {"y": (shape, dtype)}, (Ref("x"),))
    source = f"import numpy, torch\ndef answer(x):\n    return {value}"
    return isolation.run_task(ChildTask("python", source, "answer", (one,)))


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("x[1, 0] = float('nan')", Change("x", (1, 0), 3.0, float("nan"), 1)),
        ("x.t_()", Change("x", (0, 1), 2.0, 3.0, 2)),
        ("x.resize_(1, 2)", Change("x", None, None, None, 4)),
        ("x.data = x.double()", Change("x", None, None, None, 4)),
    ],
)
def test_every_way_to_change_an_input_is_seen(line, change):
    found = run(f"def answer(x, block_n):\n    y = x * 2\n    {line}\n    return y").runs[0].inputs_changed
    assert str(found) == str((change,))


def test_a_nan_of_other_bits_is_a_change():
    given = torch.tensor([1.0, float("nan")])
    line = "x.view(torch.int32)[1] ^= 5"
    source = f"import torch\ndef answer(x):\n    y = x.clone()\n    {line}\n    return y"
    one = Run("case 0", {"x": given}, {"y": ((2,), "float32")}, (Ref("x"),))
    (found,) = isolation.run_task(ChildTask("python", source, "answer", (one,))).runs[0].inputs_changed
    assert (found.name, found.index, found.count) == ("x", (1,), 1)


@pytest.mark.parametrize(
    "call",
    [
        "torch.softmax(x, 1)",
        "softmax(x, 1)",
        "x.softmax(1)",
        "torch.nn.functional.softmax(x, 1)",
        "torch.nn.Softmax(1)(x)",
        "torch.special.log_softmax(x, 1).exp()",
        "torch._softmax(x, 1, False)",
        "torch.ops.aten._softmax(x, 1, False)",
        "torch.ops.aten.softmax.int(x, 1)",
        "torch.sparse.softmax(x.to_sparse(), 1).to_dense()",
        "torch.nn.functional.gumbel_softmax(x)",
        "torch.jit.script(typed)(x)",
        "torch.exp(x - torch.special.logsumexp(x, 1, True))",
        "torch.exp(x - torch.logcumsumexp(x, 1)[:, -1:])",
        "torch.nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None])[0, 0]",
        "torch.nn.functional.scaled_dot_product_attention(x, x, x)",
        "torch._C._nn.scaled_dot_product_attention(x, x, x)",
        "swallowed(x)",
    ],
)
def test_a_forbidden_operator_raises_however_it_is_reached(call):
    source = (
        "import torch\n"
        "from torch import softmax\n"
        "def typed(x: torch.Tensor) -> torch.Tensor: return torch.softmax(x, 1)\n"
        "def swallowed(x):\n"
        "    try: return torch.softmax(x, 1)\n"
        "    except BaseException: return x\n"
        f"def answer(x, block_n):\n    return {call}\n"
    )
    fault = fault_of(run(source, forbidden=LIBRARY_SOFTMAX))
    assert fault.kind == "forbidden_call" and "off limits" in fault.message
    assert fault.line == (5 if call == "swallowed(x)" else 8) or "jit" in call  # TorchScript loses the line


def test_what_looks_like_a_forbidden_operator_is_allowed():
    source = "import torch\ndef answer(x, block_n):\n    return torch.exp(x - x.amax(1, True)) * torch.logaddexp(x, x)"
    assert run(source, forbidden=LIBRARY_SOFTMAX).runs[0].fault is None


def test_a_forbidden_callable_raises():
    source = "import torch\ndef answer(x, block_n):\n    return torch.special.erf(x)"
    fault = fault_of(run(source, forbidden=("torch.special.erf",)))
    assert fault.kind == "forbidden_call" and "torch.special.erf is off limits" in fault.message


def test_processes_and_threads_that_stay_behind_are_ended():
    source = (
        "import os, subprocess, threading, time\n"
        "def answer(x, block_n):\n"
        "    pids = [subprocess.Popen(['sleep', '300'], start_new_session=True).pid]\n"
        "    if (pid := os.fork()) == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0: time.sleep(300)\n"
        "        os._exit(0)\n"
        "    threading.Thread(target=time.sleep, args=(300,)).start()\n"
        "    print(*pids, pid)\n"
        "    return x * 2\n"
    )
    started = time.perf_counter()
    result = run(source)
    assert time.perf_counter() - started < 5
    assert result.fault is None and result.runs[0].outputs is not None
    assert not [pid for pid in _running("sleep", "300") if pid in result.printed.split()]


def _running(*words):
    """Process ids whose command line holds all words."""
    import pathlib

    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            parts = path.read_bytes().decode().split("\0")
        except OSError:
            continue
        if all(word in parts for word in words):
            found.append(path.parent.name)
    return found
