"""Arguments of a launch as the driver takes them: each as its bytes, all of them packed once for many launches.

May import: tensor_map, numpy, torch.
"""

import ctypes
import threading

import numpy
import torch

from .tensor_map import MAP_BYTES, TensorMap

_thread = threading.local()


class PackedLaunch:
    """A launch whose arguments lie ready for the driver: a call writes the addresses and launches.

    It keeps no tensor alive.
    """

    def __init__(self, run, types, values):
        """
        run : function(stream, address of the array of addresses of all arguments), which launches
        types : list, as of `scalar_types`
        values : list, converted by arguments.check, at least one of them with memory
        """
        memories = [memory_of(value) for value in values]
        self._run, self._index = run, next(x.device.index for x in memories if x is not None)
        packed = [pack(kind, value).tobytes() for kind, value in zip(types, values, strict=True)]
        self._buffers = [ctypes.create_string_buffer(each, len(each)) for each in packed]
        self._slots = []  # (address of the bytes, as a number to write to, function that makes the bytes of a map)
        for value, memory, buffer in zip(values, memories, self._buffers, strict=True):
            if memory is not None:
                place = ctypes.addressof(buffer)
                encode = value.encoder() if isinstance(value, TensorMap) else None
                self._slots.append((place, ctypes.c_uint64.from_address(place), encode))
        self._array = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, self._buffers))
        self._parameters, self._lock = ctypes.addressof(self._array), threading.Lock()

    def __call__(self, addresses):
        """Launch on torch's current stream of the tensors' GPU, which need not be the current one.

        addresses : list of int, of the memory of each argument that has any, tensors and tensor maps, in order
        """
        before = _make_current(self._index)
        stream = current_stream(self._index)
        try:
            with self._lock:  # another thread may write while the driver copies
                for (place, pointer, encode), address in zip(self._slots, addresses, strict=True):
                    if encode is None:
                        pointer.value = address
                    else:
                        ctypes.memmove(place, encode(address), MAP_BYTES)
                self._run(stream, self._parameters)
        finally:
            if before != self._index:
                torch.cuda.set_device(before)


def current_stream(index):
    """The address of torch's current stream on a GPU, without the object that torch.cuda.current_stream makes."""
    return torch._C._cuda_getCurrentRawStream(index)


def _make_current(index):
    """Make a GPU the thread's current one, since the driver launches in its context; returns the one that was.

    A thread that has called nothing of CUDA yet has no context, whatever its current GPU.
    """
    before = torch._C._cuda_getDevice()  # torch.cuda.current_device without its look whether CUDA is initialised
    if before != index or not getattr(_thread, "has_context", False):
        torch.cuda.set_device(index)
        _thread.has_context = True
    return before


def memory_of(value):
    """The tensor of an argument with memory on the GPU, a tensor or a map of one; None of any other."""
    if isinstance(value, TensorMap):
        return value.tensor
    return value if isinstance(value, torch.Tensor) else None


def scalar_types(parameters):
    """The numpy type of each parameter that is a number of C, else None."""
    return [numpy.dtype(parameter.format).type if parameter.format else None for parameter in parameters]


def pack(scalar_type, value):
    """Return one argument as a numpy scalar of exactly its bytes, which CuPy passes unchanged."""
    if isinstance(value, torch.Tensor):
        return numpy.uint64(value.data_ptr())
    if isinstance(value, TensorMap):
        value = value.driver_bytes()  # the driver copies them at the launch
    if value is None:
        return numpy.uint64(0)
    if isinstance(value, bytes):
        # CuPy passes a structured scalar of one field as its bytes
        return numpy.frombuffer(value, dtype=numpy.dtype([("bytes", numpy.uint8, (len(value),))]))[0]
    return scalar_type(value)
