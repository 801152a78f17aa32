"""%%cuda: what it binds, what it says, and that no stale kernel ever answers to a name."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from course_lib import cuda, magic
from course_lib.errors import CompileError, SignatureError
from course_lib.grading.answer.text import extract

GOOD = 'extern "C" __global__ void f(int n) {}\n'


@pytest.fixture
def shell():
    """A fresh IPython with the extension loaded."""
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "course_lib")
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def compiler(monkeypatch):
    """Fake of cuda.compile: records its calls; set `.error` to let the next compile fail."""

    class Compiler:
        error, calls = None, []

        def __call__(self, source, name=None, **options):
            self.calls.append((source, name, options))
            if self.error:
                raise self.error
            return f"kernel {len(self.calls)}"

    compiler = Compiler()
    compiler.calls = []
    monkeypatch.setattr(cuda, "compile", compiler)
    return compiler


def test_the_name_is_bound_to_the_kernel_of_this_cell(shell, compiler):
    assert shell.run_cell(f"%%cuda mine -D BLOCK=128 -D SCALE=0.5 -D TYPE=float --entry f\n{GOOD}").success
    source, name, options = compiler.calls[0]
    assert shell.user_ns["mine"] == "kernel 1" and source == GOOD and name == "f"
    assert options["defines"] == {"BLOCK": 128, "SCALE": 0.5, "TYPE": "float"}
    assert options["first_line"] == 2 and options["filename"].startswith("In [")


def test_a_cell_that_does_not_compile_replaces_the_kernel_of_an_earlier_run(shell, compiler, capsys):
    shell.run_cell(f"%%cuda mine\n{GOOD}")
    compiler.error = CompileError("expected ';' before '}' token", filename="In [1]", line=3, log="In [1]:3:11: error")
    assert shell.run_cell("%%cuda mine\nint a;\nint b = 1 + }\nint c;").success
    kernel = shell.user_ns["mine"]
    assert isinstance(kernel, magic.NotCompiled) and "1 + }" in kernel.source
    shown = capsys.readouterr().err
    assert "-->    3 | int b = 1 + }" in shown and "expected ';'" in shown
    guilty, caret = shown.splitlines()[3:5]
    assert caret.index("^") == guilty.index("+")
    with pytest.raises(CompileError, match="expected ';'"):
        kernel(1, 32)
    with pytest.raises(CompileError):
        kernel.profile(1, 32)


def test_the_judge_can_read_what_did_not_compile(shell, compiler):
    compiler.error = SignatureError("In [1] has no __global__ function.")
    shell.run_cell("%%cuda mine --entry g\nint a;")
    answer = extract(shell.user_ns["mine"])
    assert answer.text == "int a;\n" and answer.entry == "g" and answer.first_line == 2


def test_under_strict_a_compile_error_is_raised_but_an_untouched_starter_is_not(shell, compiler, monkeypatch):
    monkeypatch.setenv("COURSE_STRICT", "1")
    compiler.error = CompileError("no", line=2)
    assert isinstance(shell.run_cell("%%cuda mine\nint a").error_in_exec, CompileError)
    assert shell.run_cell("%%cuda mine\n// TODO 03.2: your code here").success
    assert isinstance(shell.user_ns["mine"], magic.NotCompiled)


def test_an_unexpected_error_leaves_no_stale_kernel(shell, compiler):
    shell.run_cell(f"%%cuda mine\n{GOOD}")
    compiler.error = RuntimeError("disk on fire")
    assert not shell.run_cell(f"%%cuda mine\n{GOOD}").success
    assert "mine" not in shell.user_ns


LAUNCH = "from course_lib.errors import LaunchError\n\ndef f():\n    raise LaunchError('0 blocks')\n\nf()"


def test_an_error_of_the_course_is_shown_by_the_learners_own_lines(shell, capsys):
    assert not shell.run_cell(LAUNCH).success
    shown = capsys.readouterr().out.strip().splitlines()
    assert shown[-1] == "LaunchError: 0 blocks" and len(shown) == 3
    assert shown[0].endswith("line 6: f()") and "line 4: raise LaunchError" in shown[1]


def test_the_whole_traceback_can_be_had(shell, capsys, monkeypatch):
    monkeypatch.setenv("COURSE_DEBUG", "1")
    shell.run_cell(LAUNCH)
    assert "Traceback (most recent call last)" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["", "3x", "mine -D BLOCK", "mine -D =3", "mine --enter f", "mine other"])
def test_a_wrong_line_says_what_is_expected(shell, compiler, line, capsys):
    result = shell.run_cell(f"%%cuda {line}\n{GOOD}")
    assert "expected: %%cuda NAME [-D KEY=VALUE …] [--entry KERNEL]" in str(result.error_in_exec)
    assert not compiler.calls


def test_a_real_compile_error_names_the_line_of_the_cell(shell, capsys):
    shell.run_cell('%%cuda mine\nextern "C" __global__ void f(float* x) {\n    x[0] = undeclared;\n}')
    kernel = shell.user_ns["mine"]
    assert isinstance(kernel, magic.NotCompiled) and kernel.error.line == 3
    assert "-->    3 |     x[0] = undeclared;" in capsys.readouterr().err


def test_a_real_kernel_runs(shell):
    import torch

    cell = '%%cuda fill -D VALUE=7\nextern "C" __global__ void fill_kernel(float* x) {\n    x[threadIdx.x] = VALUE;\n}'
    assert shell.run_cell(cell).success
    x = torch.zeros(32)
    shell.user_ns["fill"](1, 32, x)
    assert x.tolist() == [7.0] * 32


def test_a_keyword_is_no_name_for_a_kernel(shell, compiler, capsys):
    shell.run_cell(f"%%cuda class\n{GOOD}")
    assert not compiler.calls and "'class' is not a name" in capsys.readouterr().err


def test_the_judge_starts_with_the_cell_that_brings_check(shell, monkeypatch):
    from course_lib.grading.judge import client

    started = []
    monkeypatch.setattr(client, "start_early", lambda: started.append(1))
    shell.run_cell("from course_lib import cuda")
    assert not started
    shell.run_cell("from course_lib import check")
    shell.run_cell("1 + 1")
    assert started == [1]
