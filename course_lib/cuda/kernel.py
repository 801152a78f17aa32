"""The Kernel object: one compiled CUDA kernel, called on the GPU or on the SIMT machine.

May import: errors, device, and the rooms of course_lib.cuda.
"""

import functools

import torch

from .. import device
from ..errors import LaunchError
from . import arguments, signature
from .source import define_options, normalise_defines, with_headers_digest
from .tensor_map import TensorMap

MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
_launches = 0


def launch_count():
    """Return the number of kernels launched by this process, on either engine, profiles included."""
    return _launches


class Kernel:
    """A CUDA kernel, ready to launch.

    Made by ``cuda.compile`` or ``cuda.load``. Calling it runs it: on torch's current stream where there is a GPU, else
    on the SIMT machine. The engine is chosen at each call; the first use of an engine compiles the kernel for it, and
    `build` does so before.

    Attributes
    ----------
    name : str
    source : str, the author's text
    filename : str, as shown in messages
    first_line : int, the line of `filename` on which `source` starts
    defines : dict of macro name to text
    parameters : list of Parameter
    origin : (path, name, defines) of `cuda.load`, or None
    """

    origin = None

    def __init__(self, source, name=None, *, defines=None, filename="<cell>", first_line=1):
        self.source, self.filename, self.first_line = source, filename, first_line
        self.name = signature.choose(source, name, filename=filename)
        self.defines = normalise_defines(defines)
        self.parameters = signature.parse(source, self.name, defines=self.defines, filename=filename)
        self._text = with_headers_digest(source, filename=filename)
        self._built = {}

    def __repr__(self):
        declared = ", ".join(f"{parameter.ctype} {parameter.name}" for parameter in self.parameters)
        options = "".join(f" {option}" for option in define_options(self.defines))
        return f"<Kernel {self.name}({declared}) from {self.filename}{options}>"

    def build(self, checked=False):
        """Compile for the engine of a launch, or `checked` for `profile`; returns the kernel.

        Raises
        ------
        CompileError, ToolchainError   as `cuda.compile`
        """
        self._engine_module("checked" if checked else device.engine())
        return self

    def __call__(self, grid, block, *args, shared_bytes=0):
        """Launch the kernel.

        Parameters
        ----------
        grid, block : int or tuple of up to 3 ints; blocks, and threads per block
        args : one per parameter: torch tensors (on the GPU with a GPU, else on the CPU) and Python numbers
        shared_bytes : int, dynamic shared memory per block in bytes

        Raises
        ------
        LaunchError     a grid, block or shared_bytes that no launch may have
        ArgumentError   arguments that do not fit the declared parameters
        KernelFault     out of bounds, deadlock, endless loop, stack overflow
        """
        engine = device.engine()
        grid, block = check_configuration(self.name, grid, block, shared_bytes)
        values = arguments.check(self.name, self.parameters, args, device="cuda" if engine == "gpu" else "cpu")
        _count()
        values = values if engine == "gpu" else _for_simt(values)
        self._engine_module(engine).launch(grid, block, values, shared_bytes)

    def packed(self, grid, block, *args, shared_bytes=0):
        """This launch with its arguments packed, not yet run; a loop may run it with other addresses.

        Parameters
        ----------
        grid, block, args, shared_bytes : as in a launch

        Returns
        -------
        packed.PackedLaunch; None where a launch is more than that: on the SIMT machine, and as long as the host
            still waits for this one
        """
        if device.engine() != "gpu":
            return None
        grid, block = check_configuration(self.name, grid, block, shared_bytes)
        values = arguments.check(self.name, self.parameters, args, device="cuda")
        return self._engine_module("gpu").packed(grid, block, values, shared_bytes, count=_count)

    def __getitem__(self, configuration):
        """Refuse Triton's launch syntax ``kernel[grid](…)``.

        Raises
        ------
        LaunchError   always
        """
        raise LaunchError(
            f"{self.name}[…](…) is how Triton launches; a CUDA kernel is called with grid and block first: "
            f"{self.name}(grid, block, …)."
        )

    def profile(
        self, grid, block, *args, shared_bytes=0, schedule="forward", seed=0, step_limit=None, outputs=(),
        timeline=False,
    ):  # fmt: skip
        """Run the kernel on the SIMT machine and count what it does; meant for small sizes.

        Parameters
        ----------
        grid, block, args, shared_bytes : as in a launch; tensors may be on the CPU or the GPU, results are written back
        schedule : "forward", "reverse", "random" or "resident", the order in which blocks and threads run
        seed : int, for schedule="random"
        step_limit : int or None; basic blocks of one thread before a loop counts as endless
        outputs : tensors among `args` that count as uninitialised
        timeline : bool; record waits and asynchronous copies in report.timeline

        Returns
        -------
        report : Report; requests, sectors, conflicts and findings, each with its source line
        """
        grid, block = check_configuration(self.name, grid, block, shared_bytes)
        values = arguments.check(self.name, self.parameters, args)
        copies = _for_simt(values)
        marked = tuple(
            _memory_of(copy)
            for copy, value in zip(copies, values, strict=True)
            if any(_memory_of(value) is output for output in outputs)
        )
        _count()
        module = self._engine_module("checked")
        options = {"schedule": schedule, "seed": seed, "step_limit": step_limit, "timeline": timeline}
        report = module.profile(grid, block, copies, shared_bytes, outputs=marked, **options)
        for copy, value in zip(copies, values, strict=True):
            if isinstance(_memory_of(value), torch.Tensor) and copy is not value:
                _memory_of(value).copy_(_memory_of(copy))
        return report

    def as_compiled(self, arch="sm_90"):
        """Compile for a GPU, without one, and read the access instructions of the machine code.

        Parameters
        ----------
        arch : str, "sm_75" … "sm_120"

        Returns
        -------
        compiled : sass.AsCompiled; registers, shared memory, spills, and per source line the access instructions
        """
        from . import sass

        key = ("as compiled", arch)
        if key not in self._built:
            options = {"defines": self.defines, "filename": self.filename, "first_line": self.first_line}
            self._built[key] = sass.as_compiled(self.source, self.name, arch=arch, **options)
        return self._built[key]

    def _engine_module(self, engine):
        """Return the module of "gpu", "cpu" or "checked", built once."""
        if engine not in self._built:
            options = {"defines": self.defines, "filename": self.filename, "first_line": self.first_line}
            if engine == "gpu":
                from .cupy_engine import CupyModule

                self._built[engine] = CupyModule(self._text, self.name, self.parameters, **options)
            else:
                from . import simt

                mode = "fast" if engine == "cpu" else "checked"
                self._built[engine] = simt.build(self._text, self.name, self.parameters, mode=mode, **options)
        return self._built[engine]


def check_configuration(name, grid, block, shared_bytes):
    """Return grid and block as tuples of three, checked against the limits of every CUDA device.

    Raises
    ------
    LaunchError   a sentence with the limit
    """
    grid = tuple(grid) if isinstance(grid, list) else grid
    block = tuple(block) if isinstance(block, list) else block
    return _checked_configuration(name, grid, block, shared_bytes, _most_shared_bytes(device.engine()))


@functools.cache
def _most_shared_bytes(engine):
    """Of a block on an engine; asked for once, since every launch needs it."""
    return device.current().shared_bytes_per_block


@functools.lru_cache(maxsize=1024)
def _checked_configuration(name, grid, block, shared_bytes, shared_limit):
    """The cached part of check_configuration: a loop repeats the same configuration."""
    grid, block = _triple(name, "grid", grid), _triple(name, "block", block)
    for axis, size, limit in zip("xyz", grid, MAX_GRID, strict=True):
        if not 1 <= size <= limit:
            raise LaunchError(f"{name}: grid.{axis} is {size}; it must be 1 to {limit}.")
    for axis, size, limit in zip("xyz", block, MAX_BLOCK, strict=True):
        if not 1 <= size <= limit:
            raise LaunchError(f"{name}: block.{axis} is {size} threads; it must be 1 to {limit}.")
    threads = block[0] * block[1] * block[2]
    if threads > MAX_THREADS:
        raise LaunchError(
            f"{name}: a block of {block[0]} x {block[1]} x {block[2]} has {threads} threads; "
            f"a block holds at most {MAX_THREADS}."
        )
    if not isinstance(shared_bytes, int) or not 0 <= shared_bytes <= shared_limit:
        raise LaunchError(f"{name}: shared_bytes is {shared_bytes}; a block here may have 0 to {shared_limit} bytes.")
    return grid, block


def _triple(name, what, value):
    """Return an int or a tuple of up to three as a tuple of three."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    whole = all(hasattr(item, "__index__") and not isinstance(item, bool) for item in values)
    if not 1 <= len(values) <= 3 or not whole:
        raise LaunchError(f"{name}: {what} is {value!r}; give one to three whole numbers, as in 128 or (16, 16).")
    return tuple(item.__index__() for item in values) + (1,) * (3 - len(values))


def _for_simt(values):
    """Return the arguments with tensors on the CPU; views of one storage stay views of one storage."""
    storages = {}

    def moved(value):
        if value is None:
            return 0  # a null pointer
        if isinstance(value, TensorMap):
            copy = moved(value.tensor)
            return value if copy is value.tensor else value.of(copy)
        if not isinstance(value, torch.Tensor) or value.device.type == "cpu":
            return value
        storage = value.untyped_storage()
        if storage.data_ptr() not in storages:
            storages[storage.data_ptr()] = storage.cpu()
        moved_view = torch.empty(0, dtype=value.dtype, device="cpu")  # explicit: torch.set_default_device may differ
        return moved_view.set_(storages[storage.data_ptr()], value.storage_offset(), value.shape, value.stride())

    return [moved(value) for value in values]


def _memory_of(value):
    """The tensor of a tensor map; any other argument itself."""
    return value.tensor if isinstance(value, TensorMap) else value


def _count():
    """Count one launch."""
    global _launches
    _launches += 1
