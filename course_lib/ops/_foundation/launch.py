"""Launch objects: everything that a launch needs, in either language, before it runs.

May import: cuda, triton and triton_kernels inside functions; torch.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

_for_gpu = False
_watched = None  # the list of `watched`


@dataclass(frozen=True)
class Launch:
    """Everything that one launch needs, for either twin.

    ``run()`` launches where the course runs (GPU or CPU); ``profile()`` and ``traffic()`` count on the CPU.
    """

    language: str  # "cuda" | "triton"
    function: Any  # course_lib.cuda.Kernel or a Triton function
    grid: tuple[int, ...]
    block: int  # threads of a block; 0 for Triton
    arguments: tuple[Any, ...]
    constants: dict[str, Any]  # compile-time constants of the Triton twin
    outputs: tuple[torch.Tensor, ...]
    shared_bytes: int = 0  # dynamic shared memory of a block

    @property
    def launches(self):
        """Itself alone, as ``Launches`` has several."""
        return (self,)

    def run(self):
        report(self)
        if self.language == "cuda":
            self.function(self.grid, self.block, *self.arguments, shared_bytes=self.shared_bytes)
        else:
            self.function[self.grid](*self.arguments, **self.constants)

    def profile(self, schedule="forward", **options):
        """Return the report of one run on the CPU; `options` go to the engine: timeline=True, in CUDA."""
        if self.language == "cuda":
            return self.function.profile(
                self.grid,
                self.block,
                *self.arguments,
                shared_bytes=self.shared_bytes,
                schedule=schedule,
                outputs=self.outputs,
                **options,
            )
        from ...triton import profile_triton

        return profile_triton(self.function, self.grid, *self.arguments, schedule=schedule, **options, **self.constants)

    def traffic(self):
        """(bytes read, bytes written) in global memory, as counted on the CPU."""
        report = self.profile()
        if self.language == "cuda":
            return report.global_load.bytes, report.global_store.bytes
        return report.load.bytes, report.store.bytes


@dataclass(frozen=True)
class Launches:
    """Several launches, one after the other, that make one result; used like a single Launch."""

    launches: tuple[Launch, ...]
    outputs: tuple[torch.Tensor, ...]

    def run(self):
        for launch in self.launches:
            launch.run()

    def traffic(self):
        """(bytes read, bytes written) in global memory by all launches, as counted on the CPU."""
        counted = [launch.traffic() for launch in self.launches]
        return sum(read for read, _ in counted), sum(written for _, written in counted)


def cuda_launch(stem, grid, block, arguments, outputs, *, kernel=None, defines=None, shared_bytes=0):
    """The launch of a kernel of kernels_cu/STEM.cu.

    Parameters
    ----------
    grid, block : int or tuple of int
    outputs : tuple of tensors among `arguments` that the launch writes
    kernel : str or None, which kernel of the file; None takes the only one
    defines : dict; those that the file has no ``#ifndef`` for are left out, so that a family can pass the same to all
    shared_bytes : int, dynamic shared memory of a block
    """
    from ... import cuda
    from ...cuda.steps import step

    asked = {name: value for name, value in (defines or {}).items() if name in step(stem).macros}
    function = cuda.load(f"{stem}.cu", kernel, defines=asked)
    return Launch("cuda", function, grid, block, arguments, {}, outputs, shared_bytes)


def ring_launch(stem, num_blocks, arguments, outputs, *, shape, defines, tile_bytes):
    """The Launch of a CUDA step whose warps each keep a ring of tiles in shared memory.

    Parameters
    ----------
    shape : dict, macros of the kernel; NUM_WARPS of a block, NUM_STAGES tiles of a ring
    defines : dict, its other macros
    tile_bytes : int, shared memory of one tile
    the rest as in `cuda_launch`
    """
    options = {"defines": defines | shape, "shared_bytes": shape["NUM_WARPS"] * shape["NUM_STAGES"] * tile_bytes}
    return cuda_launch(stem, (num_blocks,), 32 * shape["NUM_WARPS"], arguments, outputs, **options)


def triton_launch(stem, grid, arguments, constants, outputs, *, kernel=None):
    """The launch of a Triton twin of a step; `kernel` says which one where it has several."""
    from ...triton_kernels import load

    return Launch("triton", load(stem, kernel), grid, 0, arguments, constants, outputs)


@contextmanager
def watched():
    """Yield a list to which every Launch is added that runs within."""
    global _watched
    before, _watched = _watched, []
    try:
        yield _watched
    finally:
        _watched = before


def report(launch):
    """Add a launch that runs to the list of `watched`."""
    if _watched is not None:
        _watched.append(launch)


def ran(launch):
    """Run a launch and return its first output."""
    launch.run()
    return launch.outputs[0]


def all_ran(launch):
    """Run a launch, or several, and return all outputs."""
    launch.run()
    return launch.outputs


def interprets(tensor):
    """Whether Triton's interpreter runs what is launched on `tensor`: tiles may be large there, never slow."""
    return not tensor.is_cuda and not _for_gpu


def is_hopper(tensor):
    """Whether `tensor` is on a card of compute capability 9.x, on which the tiles of the Triton twins were timed."""
    return tensor.is_cuda and torch.cuda.get_device_capability(tensor.device)[0] == 9


@contextmanager
def gpu_constants():
    """Plan as on a GPU, whatever the tensors' device: the ahead-of-time gate compiles the constants that a GPU gets."""
    global _for_gpu
    before, _for_gpu = _for_gpu, True
    try:
        yield
    finally:
        _for_gpu = before
