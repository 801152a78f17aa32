"""The solved kernels of the exercises, launched and compiled as the judge calls them: from the runs of their cases.

    python -m course_lib.solved [--language cuda] [--without 08.4]

launches each once where the course runs; a sanitizer watches it.

May import: everything of the course but cli; used by tests.
"""

import argparse
import inspect
from dataclasses import dataclass

import torch

from . import checklist, cuda
from .device import engine
from .grading.answer import loading
from .grading.exercise import registry
from .grading.judge.prepare import prepare
from .grading.processes.protocol import Ref
from .grading.processes.tensors import Bindings
from .ops._foundation.sizes import ceil_div, row_bytes
from .triton import aot

SEED = 20
OPTIONS = {"num_warps", "num_stages", "num_ctas", "maxnreg"}  # of a Triton launch, not parameters of the kernel
_TYPES = {
    **{torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.float64: "*fp64"},
    **{torch.int8: "*i8", torch.uint8: "*u8", torch.int16: "*i16", torch.int32: "*i32", torch.int64: "*i64"},
}
_SCALARS = {bool: "i1", float: "fp32"}


@dataclass(frozen=True)
class Solved:
    """A solved kernel with one of its runs."""

    exercise: object  # Exercise
    run: object  # Run

    def launch(self, device):
        """Launch it on fresh copies of the run's tensors; returns the outputs on the CPU, by name."""
        bound, run = Bindings(self.run, device), self.run
        if self.exercise.language == "cuda":
            kernel = cuda.compile(checklist.solution_text(self.exercise), self.exercise.entry, defines=run.constants)
            kernel(run.grid, run.block, *bound.arguments, shared_bytes=row_bytes(ceil_div(run.shared_bytes, 4)))
        else:
            self.function()[run.grid](*bound.arguments, **run.constants)
        return bound.results()

    def function(self):
        """The Triton function."""
        text = checklist.solution_text(self.exercise)
        return getattr(loading.load(text, self.exercise.solution), self.exercise.entry)

    def request(self):
        """(function, signature, constexprs, options) with which Triton compiles it."""
        function, run = self.function(), self.run
        bound = Bindings(run)
        kinds = dict(zip(inspect.signature(function.fn).parameters, map(_kind, bound.arguments), strict=False))
        named = {name: value for name, value in run.constants.items() if name not in OPTIONS}
        options = {name: value for name, value in run.constants.items() if name in OPTIONS}
        return function, kinds, named, options

    def compile_for(self, arch):
        """The Triton function as machine code for `arch`: aot.Compiled."""
        function, kinds, named, options = self.request()
        return aot.compile_for(function, kinds, named, arch, **options)


def solved(exercise_id, dtype=None):
    """The solved kernel of an exercise with the run of its smallest case, of `dtype`, that is not a single element."""
    exercise = registry.get(exercise_id)
    runs = [prepared.run for prepared in prepare(exercise, SEED) if dtype in (None, prepared.case.dtype)]
    runs.sort(key=_size)
    return Solved(exercise, runs[min(1, len(runs) - 1)])


def kernel_ids(language):
    """Ids of the exercises in "cuda" or "triton"."""
    return [exercise_id for exercise_id, task in registry.documents().items() if task.language == language]


def _kind(argument):
    if isinstance(argument, torch.Tensor):
        return _TYPES[argument.dtype]
    return _SCALARS.get(type(argument), "i32")


def _size(run):
    tensors = [value for name, value in run.inputs.items() if Ref(name) in run.arguments]
    return sum(value.numel() for value in tensors if isinstance(value, torch.Tensor))


def main():
    """Launch every solved kernel once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--language", choices=("all", "cuda", "triton"), default="all")
    parser.add_argument("--without", nargs="*", default=(), metavar="NN.k", help="exercises to leave out")
    options = parser.parse_args()
    device = "cuda" if engine() == "gpu" else "cpu"
    languages = ("cuda", "triton") if options.language == "all" else (options.language,)
    names = [name for language in languages for name in kernel_ids(language) if name not in options.without]
    for exercise_id in names:
        solved(exercise_id).launch(device)
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"{len(names)} solved kernels launched on {device}")


if __name__ == "__main__":
    main()
