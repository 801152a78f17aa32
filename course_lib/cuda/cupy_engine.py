"""The GPU engine: NVRTC's machine code in CuPy's RawModule, launched on torch's current stream and memory.

Imported only on a machine with a GPU; no other module imports cupy. Machine code is cached on disk, so a notebook that
is run again does not compile again.

May import: errors, device, dependent, notes, nvrtc, packed, tensor_map.
"""

import functools
import hashlib
import os
import re
import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path

import torch

from .. import device
from ..errors import KernelFault, LaunchError, ToolchainError
from . import dependent, nvrtc
from .notes import explained
from .packed import PackedLaunch, memory_of, pack, scalar_types
from .tensor_map import TensorMap

_HOW = Path(nvrtc.__file__).read_text(encoding="utf-8")  # options, and what of the log is kept
MAX_WATCHED = 16  # configurations of one kernel that are synchronised; a loop over growing sizes must not always wait
_REPLAY = "On the SIMT machine kernel.profile(…) with the same arguments names the line."
_LOST = "The GPU takes no more work from this process: restart it."
_FAILED = (
    "failed while running: shared memory out of bounds, a barrier used wrongly, or a "
    f"pointer gone wrong. {_REPLAY} {_LOST}"
)
# name of the driver's error -> (error class, cause and remedy)
_FAULTS = {
    "ILLEGAL_ADDRESS": (KernelFault, f"read or wrote an address outside its tensors. {_REPLAY} {_LOST}"),
    "MISALIGNED_ADDRESS": (KernelFault, f"accessed a vector at a misaligned address. {_REPLAY} {_LOST}"),
    "ILLEGAL_INSTRUCTION": (KernelFault, f"stopped itself (trap) or ran an illegal instruction. {_REPLAY} {_LOST}"),
    "LAUNCH_TIMEOUT": (KernelFault, f"ran into the driver's time limit; look for a loop that never ends. {_LOST}"),
    "ASSERT": (KernelFault, f"failed an assert. {_LOST}"),
    "LAUNCH_FAILED": (KernelFault, _FAILED),
    "LAUNCH_FAILURE": (KernelFault, _FAILED),  # as torch spells it
    "LAUNCH_OUT_OF_RESOURCES": (
        LaunchError,
        "needs more registers for this block than an SM has; take fewer threads, "
        "or declare __launch_bounds__(threads).",
    ),
    "OUT_OF_MEMORY": (
        LaunchError,
        "found no room on the GPU for its stack or local memory; free tensors "
        "(torch.cuda.empty_cache()) or take a smaller size.",
    ),
    "INVALID_VALUE": (LaunchError, "was launched with a configuration that this GPU does not take."),
}


class CupyModule:
    """One kernel compiled for this machine's GPU.

    Attributes
    ----------
    compile_log : str, the compiler's notes and warnings ("setmaxnreg ignored …"), those on wgmma explained
    """

    def __init__(self, source, name, parameters, *, defines, filename, first_line):
        self.name, self.parameters = name, parameters
        self._seen, self._fitting, self._streams = set(), set(), {}
        self._types = scalar_types(parameters)
        path, notes = _cubin(source, defines, filename, first_line)
        self.compile_log = explained(notes)
        self._module = _cupy().RawModule(path=str(path))
        self.function, self._dependent = self._module.get_function(name), dependent.is_dependent(source, defines)
        if self.compile_log:
            warnings.warn(f"{filename}: the compiler's notes on {name}:\n{self.compile_log}", stacklevel=4)

    def launch(self, grid, block, values, shared_bytes):
        """Launch on torch's current stream.

        Parameters
        ----------
        grid, block : tuples of three
        values : list, converted by arguments.check
        shared_bytes : int, dynamic shared memory

        Notes
        -----
        The first launch of each configuration (grid, block, shapes, numbers) waits for the kernel, so that a fault is
        reported under its name; later ones, and all after MAX_WATCHED configurations, are asynchronous. COURSE_SYNC=1
        waits every time. Nothing waits while a CUDA graph is being captured.
        """
        index = _index_of(values)
        if (index, block, shared_bytes) not in self._fitting:
            with _on_device(index):
                self._check_resources(block, shared_bytes)
            self._fitting.add((index, block, shared_bytes))
        packed = tuple(map(pack, self._types, values))
        stream = torch.cuda.current_stream(index)
        try:
            with _on_device(index), self._stream(stream.cuda_stream):
                if self._dependent:
                    dependent.launch(self.function.kernel.ptr, grid, block, packed, shared_bytes, stream.cuda_stream)
                else:
                    self.function(grid, block, packed, shared_mem=shared_bytes)
            if self._wants_wait(grid, block, values, shared_bytes) and not torch.cuda.is_current_stream_capturing():
                stream.synchronize()
                self._seen.add(_configuration(grid, block, values, shared_bytes))
        except _driver_errors() as error:
            raise self._fault(error, grid, block, shared_bytes) from error

    def packed(self, grid, block, values, shared_bytes, count):
        """A PackedLaunch, or None as long as the host waits for such launches."""
        if self._wants_wait(grid, block, values, shared_bytes):
            return None
        with _on_device(_index_of(values)):
            function = self.function.kernel.ptr  # loaded on each GPU; this is the one where the tensors are
        launch = dependent.launch_kernel if self._dependent else _cupy().cuda.driver.launchKernel

        def run(stream, parameters):
            count()
            try:
                launch(function, *grid, *block, shared_bytes, stream, parameters, 0)
            except _driver_errors() as error:
                raise self._fault(error, grid, block, shared_bytes) from error

        return PackedLaunch(run, self._types, values)

    def _wants_wait(self, grid, block, values, shared_bytes):
        """Whether the host waits for this launch; a kernel that has been watched enough costs nothing here."""
        if len(self._seen) < MAX_WATCHED and _configuration(grid, block, values, shared_bytes) not in self._seen:
            return True
        return os.environ.get("COURSE_SYNC") == "1"

    def _check_resources(self, block, shared_bytes):
        """Refuse a block that exceeds the kernel's register limit or the block's shared memory of the current GPU."""
        threads = block[0] * block[1] * block[2]
        if threads > self.function.max_threads_per_block:
            raise LaunchError(
                f"{self.name}: a block of {threads} threads; this kernel takes at most "
                f"{self.function.max_threads_per_block} ({self.function.num_regs} registers a thread, or its "
                "__launch_bounds__). Take fewer threads, or declare __launch_bounds__(threads)."
            )
        static, limit = self.function.shared_size_bytes, device.current().shared_bytes_per_block
        if static + shared_bytes > limit:
            raise LaunchError(
                f"{self.name}: {static} bytes of static and {shared_bytes} of dynamic shared memory are "
                f"{static + shared_bytes}; a block here has {limit}."
            )
        if shared_bytes > self.function.max_dynamic_shared_size_bytes:
            self.function.max_dynamic_shared_size_bytes = shared_bytes

    def _stream(self, pointer):
        """Return torch's stream as a CuPy stream, created once."""
        if pointer not in self._streams:
            self._streams[pointer] = _cupy().cuda.Stream.from_external(_TorchStream(pointer))
        return self._streams[pointer]

    def _fault(self, error, grid, block, shared_bytes):
        """Return the driver's error as a course error that names the launch; cupy and torch spell them differently."""
        text, launch = str(error), f"{self.name}<<<{grid}, {block}, {shared_bytes}>>>"
        advice = "TORCH_USE_CUDA_DSA"  # in the last line of every torch error, which mentions assertions
        relevant = "".join(line for line in text.splitlines() if advice not in line)
        letters = re.sub(r"[^A-Z]", "", relevant.upper())
        for key, (kind, meaning) in _FAULTS.items():
            if key.replace("_", "") in letters:
                return kind(f"{launch} {meaning} (driver: {text.splitlines()[0]})")
        return LaunchError(f"{launch} failed: {text}")


class _TorchStream:
    """A torch stream under the CUDA stream protocol, which CuPy reads."""

    def __init__(self, pointer):
        self._pointer = pointer

    def __cuda_stream__(self):
        return 0, self._pointer


def _key(value):
    """What of an argument makes another configuration: a tensor's shape, a map without its address, or the value."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    return value.key if isinstance(value, TensorMap) else value


def _cubin(source, defines, filename, first_line):
    """Return (path of the machine code, the compiler's notes), from the disk cache or newly compiled."""
    arch = device.current().arch
    parts = (source, arch, repr(sorted(defines.items())), filename, str(first_line), nvrtc.version(), _HOW)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    root = os.environ.get("COURSE_CACHE_DIR") or Path.home() / ".cache" / "attention-kernel-by-kernel"
    path = Path(root) / "cubin" / f"{key}.cubin"
    notes = path.with_suffix(".notes")
    if not (path.is_file() and notes.is_file()):
        cubin = nvrtc.compile_cubin(
            source, arch=arch, defines=defines, filename=filename, first_line=first_line, line_info=True
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(notes, cubin.notes.encode())
        _write(path, cubin.code)
    return path, notes.read_text(encoding="utf-8")


def _write(path, content):
    """Write a file and move it to its name, so that another process never reads a partial one."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)


def _configuration(grid, block, values, shared_bytes):
    """What is watched once: the launch, shapes and numbers."""
    return grid, block, shared_bytes, tuple(map(_key, values))


def _index_of(values):
    """The number of the GPU that holds the arguments' memory; without any, of the current one."""
    tensor = next((x for x in map(memory_of, values) if x is not None), None)
    return torch.cuda.current_device() if tensor is None else tensor.device.index


@functools.cache
def _several_gpus():
    return torch.cuda.device_count() > 1


def _on_device(index):
    """CuPy's context of a GPU; where there is one only, nothing needs to be set."""
    return _cupy().cuda.Device(index) if _several_gpus() else nullcontext()


@functools.cache
def _driver_errors():
    driver, runtime = _cupy().cuda.driver, _cupy().cuda.runtime
    return driver.CUDADriverError, runtime.CUDARuntimeError, RuntimeError


@functools.cache
def _cupy():
    """Import cupy, or raise a ToolchainError that says how to install it."""
    try:
        import cupy
    except ImportError as error:
        raise ToolchainError(
            "A GPU is here but cupy is not: pip install cupy-cuda13x. COURSE_ENGINE=cpu runs without the GPU."
        ) from error
    return cupy
