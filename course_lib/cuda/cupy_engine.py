"""The GPU engine: CuPy's RawModule (NVRTC), launched on torch's current stream with torch's own memory.

Loaded only where a GPU is; cupy is imported here and nowhere else.

May import: errors, device, source.
"""

import io
import os
import warnings

import torch

from .. import device
from ..errors import KernelFault, LaunchError, ToolchainError
from .source import KERNELS_ROOT, compile_error, cuda_headers, define_options, with_line_numbers

# what the driver says -> (error class, what it means and what to do)
_REPLAY = "On the SIMT machine kernel.profile(…) with the same arguments names the line."
_LOST = "The GPU takes no more work from this process: restart it."
_FAULTS = {
    "ILLEGAL_ADDRESS": (KernelFault, f"read or wrote an address outside its tensors. {_REPLAY} {_LOST}"),
    "MISALIGNED_ADDRESS": (KernelFault, f"accessed a vector at a misaligned address. {_REPLAY} {_LOST}"),
    "ILLEGAL_INSTRUCTION": (KernelFault, f"stopped itself (trap) or ran an illegal instruction. {_REPLAY} {_LOST}"),
    "LAUNCH_TIMEOUT": (KernelFault, f"ran into the driver's time limit; look for a loop that never ends. {_LOST}"),
    "ASSERT": (KernelFault, f"failed an assert. {_LOST}"),
    "LAUNCH_FAILED": (KernelFault, "failed while running: shared memory out of bounds, a barrier used wrongly, or a "
                                   f"pointer gone wrong. {_REPLAY} {_LOST}"),
    "LAUNCH_OUT_OF_RESOURCES": (LaunchError, "needs more registers for this block than an SM has; take fewer threads, "
                                             "or declare __launch_bounds__(threads)."),
    "OUT_OF_MEMORY": (LaunchError, "found no room on the GPU for its stack or local memory; free tensors "
                                   "(torch.cuda.empty_cache()) or take a smaller size."),
    "INVALID_VALUE": (LaunchError, "was launched with a configuration that this GPU does not take."),
}


class CupyModule:
    """One kernel compiled for the GPU in hand.

    Attributes
    ----------
    compile_log : str, notes and warnings of the compiler ("setmaxnreg ignored …"); empty when CuPy's disk cache had it
    """

    def __init__(self, source, name, parameters, *, defines, filename, first_line):
        self.name, self.parameters = name, parameters
        self._seen = set()
        cupy = _cupy()
        arch = device.current().arch
        options = ["-std=c++17", f"-arch={arch}", "-lineinfo", f"-I{KERNELS_ROOT}", 
                   *(f"-I{folder}" for folder in cuda_headers()), *define_options(defines)]
        log = io.StringIO()
        module = cupy.RawModule(code=with_line_numbers(source, filename, first_line), options=tuple(options),
                                backend="nvrtc")
        try:
            module.compile(log_stream=log)
            self.function = module.get_function(name)
        except cupy.cuda.compiler.CompileException as error:
            raise compile_error(str(error), name=name, filename=filename, defines=defines,
                                engine=f"NVRTC for {arch}") from None
        self._module = module
        self.compile_log = log.getvalue().strip()
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
        reported under its name; later ones are asynchronous. COURSE_SYNC=1 waits every time. Nothing waits while a CUDA
        graph is being captured.
        """
        cupy = _cupy()
        self._check_resources(block, shared_bytes)
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        index = tensors[0].device.index if tensors else torch.cuda.current_device()
        packed = tuple(_pack(parameter, value) for parameter, value in zip(self.parameters, values, strict=True))
        stream = torch.cuda.current_stream(index)
        key = (grid, block, shared_bytes, tuple(tuple(value.shape) if isinstance(value, torch.Tensor) else value
                                                for value in values))
        try:
            with cupy.cuda.Device(index), cupy.cuda.ExternalStream(stream.cuda_stream):
                self.function(grid, block, packed, shared_mem=shared_bytes)
            wanted = key not in self._seen or os.environ.get("COURSE_SYNC")
            if wanted and not torch.cuda.is_current_stream_capturing():
                stream.synchronize()
                self._seen.add(key)
        except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError, RuntimeError) as error:
            raise self._fault(error, grid, block, shared_bytes) from error

    def _check_resources(self, block, shared_bytes):
        """Refuse what this kernel's registers and static shared memory do not leave room for."""
        threads = block[0] * block[1] * block[2]
        if threads > self.function.max_threads_per_block:
            raise LaunchError(
                f"{self.name}: a block of {threads} threads; this kernel takes at most "
                f"{self.function.max_threads_per_block} ({self.function.num_regs} registers a thread, or its "
                "__launch_bounds__). Take fewer threads, or declare __launch_bounds__(threads).")
        static, limit = self.function.shared_size_bytes, device.current().shared_bytes_per_block
        if static + shared_bytes > limit:
            raise LaunchError(f"{self.name}: {static} bytes of static and {shared_bytes} of dynamic shared memory are "
                              f"{static + shared_bytes}; a block here has {limit}.")
        if shared_bytes > self.function.max_dynamic_shared_size_bytes:
            self.function.max_dynamic_shared_size_bytes = shared_bytes

    def _fault(self, error, grid, block, shared_bytes):
        """The driver's error as ours, with the launch that met it."""
        text, launch = str(error), f"{self.name}<<<{grid}, {block}, {shared_bytes}>>>"
        for key, (kind, meaning) in _FAULTS.items():
            if key in text.upper().replace(" ", "_"):
                return kind(f"{launch} {meaning} (driver: {text.splitlines()[0]})")
        return LaunchError(f"{launch} failed: {text}")


def _pack(parameter, value):
    """One argument as CuPy passes it: its bytes, nothing else."""
    import numpy

    if isinstance(value, torch.Tensor) or value is None:
        return numpy.uint64(0 if value is None else value.data_ptr())
    if isinstance(value, bytes):
        # a structured scalar of one field goes to the kernel as it is
        return numpy.frombuffer(value, dtype=numpy.dtype([("bytes", numpy.uint8, (len(value),))]))[0]
    return numpy.dtype(parameter.format).type(value)


def _cupy():
    """cupy, or a sentence."""
    try:
        import cupy
    except ImportError as error:
        raise ToolchainError("A GPU is here but cupy is not: pip install cupy-cuda13x. COURSE_ENGINE=cpu runs without "
                             "the GPU.") from error
    return cupy
