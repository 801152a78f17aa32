"""Compiles an answer for a GPU, without one: what the CPU accepts is not always CUDA C++ or a Triton kernel.

A run's `returned` holds the compiler's notes; its fault, when it has one, the compiler's sentence and its line.

May import: answer.loading, child_python, protocol, cuda, triton, torch.
"""

import contextlib

from ..answer import loading
from .child_python import find
from .protocol import Ref

_OPTIONS = {"num_warps", "num_stages", "num_ctas", "maxnreg"}
_TYPES = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "i1",
}  # fmt: skip


def preload():
    """Before the fork: both compilers; one that is missing says so when an answer comes."""
    with contextlib.suppress(Exception):
        from course_lib.cuda import nvrtc

        nvrtc.version()
    with contextlib.suppress(ImportError):
        import triton.backends.compiler
        import triton.compiler
        import triton.language.extra.libdevice  # noqa: F401

        import course_lib.triton.aot  # noqa: F401


class Runner:
    """Compiles the answer for every run that it is given; nothing is launched."""

    def __init__(self, task):
        self.task, self.kernel = task, None

    def prepare(self):
        if self.task.language == "triton":
            module = loading.load(self.task.source, self.task.filename, self.task.first_line)
            self.kernel = find(module, self.task.entry)

    def order(self):
        return self.task.runs

    def run(self, run, result):
        result.returned = self._cuda(run) if self.task.language == "cuda" else self._triton(run)

    def _cuda(self, run):
        from course_lib.cuda.nvrtc import compile_cubin

        task, where = self.task, {"filename": self.task.filename, "first_line": self.task.first_line}
        return compile_cubin(task.source, arch=task.arch, defines=run.constants or None, **where).notes

    def _triton(self, run):
        from course_lib.triton.aot import compile_here

        arguments = [run.inputs[one.name] if isinstance(one, Ref) else one for one in run.arguments]
        constants, fn = dict(run.constants), self.kernel
        while type(fn).__name__ != "JITFunction":
            for config in getattr(fn, "configs", ())[:1]:
                constants |= config.all_kwargs()
            for name, heuristic in getattr(fn, "values", {}).items():
                constants[name] = heuristic({**dict(zip(fn.arg_names, arguments, strict=False)), **constants})
            fn = fn.fn
        options = {name: constants.pop(name) for name in _OPTIONS & constants.keys()}
        signature = {}
        for parameter, value in zip(fn.params, arguments, strict=False):
            if parameter.is_constexpr or value is None:
                constants[parameter.name] = value
            elif parameter.name not in constants:
                signature[parameter.name] = _type(value)
        return "\n".join(compile_here(fn, signature, constants, self.task.arch, **options))


def _type(value):
    """Triton's name of an argument's type: "*fp32", "i32"."""
    if hasattr(value, "dtype"):
        return f"*{_TYPES[str(value.dtype).removeprefix('torch.')]}"
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if abs(value) < 1 << 31 else "i64"
    return "fp32"
