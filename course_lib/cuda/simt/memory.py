"""The arguments of a launch in the form that the runtime takes: memory extents, values as bytes, the C structures.

May import: errors, far, tensor_map.
"""

import ctypes

import torch

from ...errors import ArgumentError
from ...far import address
from ..tensor_map import MAP_ALIGNMENT, MAP_BYTES, TensorMap

OBJECT_KINDS = ("shared", "device", "constant")  # the order is that of ObjectKind in runtime/state.h


class Tensor(ctypes.Structure):
    """SimtTensor of runtime/machine.cpp."""

    _fields_ = [
        ("memory", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("misalignment", ctypes.c_uint64),
        ("uninitialised", ctypes.c_int),
        ("is_const", ctypes.c_int),
    ]


class Object(ctypes.Structure):
    """SimtObject of runtime/machine.cpp."""

    _fields_ = [("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("kind", ctypes.c_int)]


class Task(ctypes.Structure):
    """SimtTask of runtime/machine.cpp."""

    _fields_ = [
        ("entry", ctypes.c_void_p),
        ("dynamic_base", ctypes.c_void_p),
        ("blocks_per_sm", ctypes.c_void_p),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("tensors", ctypes.POINTER(Tensor)),
        ("num_tensors", ctypes.c_uint64),
        ("tensor_of_argument", ctypes.POINTER(ctypes.c_int)),
        ("offset_of_argument", ctypes.POINTER(ctypes.c_uint64)),
        ("num_arguments", ctypes.c_uint64),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("checked", ctypes.c_int),
        ("schedule", ctypes.c_int),
        ("objects", ctypes.POINTER(Object)),
        ("num_objects", ctypes.c_uint64),
        ("seed", ctypes.c_uint),
        ("num_workers", ctypes.c_int),
        ("step_limit", ctypes.c_uint64),
        ("time_limit_s", ctypes.c_double),
        ("timeline", ctypes.c_int),
    ]


class Memory:
    """The distinct extents of memory among the arguments; views of one storage share an extent.

    Attributes
    ----------
    extents : list of [first byte, past the last byte, start of the storage], host addresses
    fresh : list of bool, by extent: all its tensors count as uninitialised
    const : list of bool, by extent: no parameter may write it; a map may
    piece_of : list of int, by argument: its extent, -1 for a plain value
    offset_of : list of int, by argument: bytes from the start of its extent
    shown : list of (name, extent, host address, bytes, itemsize) of the tensors, for messages
    """

    def __init__(self, parameters, arguments, outputs):
        self.extents, self.fresh, self.const = [], [], []
        self.piece_of, self.shown = [], []
        self._extent_of_storage = {}
        marked = {id(output) for output in outputs}
        lows = []
        for parameter, argument in zip(parameters, arguments, strict=True):
            value = argument.tensor if isinstance(argument, TensorMap) else argument
            is_tensor = isinstance(value, torch.Tensor)
            is_const = parameter.is_const and value is argument
            self.piece_of.append(self._add(parameter, value, id(value) in marked, is_const) if is_tensor else -1)
            lows.append(value.data_ptr() if is_tensor else 0)
        self.offset_of = [
            low - self.extents[piece][0] if piece >= 0 else 0 for low, piece in zip(lows, self.piece_of, strict=True)
        ]

    def _add(self, parameter, tensor, is_output, is_const):
        """Add a tensor to the extent of its storage. Returns the extent's number."""
        if tensor.device.type != "cpu":
            raise ArgumentError(f"{parameter.name} is a tensor on {tensor.device}; the SIMT machine runs on the CPU.")
        storage, low = tensor.untyped_storage().data_ptr(), address(tensor)
        num_bytes = _span(tensor) * tensor.element_size()
        if storage not in self._extent_of_storage:
            self._extent_of_storage[storage] = len(self.extents)
            self.extents.append([low, low + num_bytes, storage])
            self.fresh.append(True)
            self.const.append(True)
        piece = self._extent_of_storage[storage]
        extent = self.extents[piece]
        extent[0], extent[1] = min(extent[0], low), max(extent[1], low + num_bytes)
        self.fresh[piece] &= is_output
        self.const[piece] &= is_const
        self.shown.append((parameter.name, piece, low, num_bytes, tensor.element_size()))
        return piece

    def copy(self):
        """Return the bytes of all extents as they are now."""
        return [ctypes.string_at(low, high - low) for low, high, _ in self.extents]

    def restore(self, copied):
        """Write what `copy` returned back into the extents that have changed since."""
        for (low, high, _), data in zip(self.extents, copied, strict=True):
            if ctypes.string_at(low, high - low) != data:
                ctypes.memmove(low, data, len(data))

    def task_fields(self, buffers):
        """Return the fields of Task that describe tensors and arguments; `buffers` as of value_buffers."""
        count = max(1, len(buffers))
        addresses = [ctypes.addressof(one) if one is not None else None for one in buffers]
        return {
            "arguments": (ctypes.c_void_p * count)(*addresses),
            "tensors": self._tensors(),
            "num_tensors": len(self.extents),
            "tensor_of_argument": (ctypes.c_int * count)(*self.piece_of),
            "offset_of_argument": (ctypes.c_uint64 * count)(*self.offset_of),  # of a Far tensor below 0: modulo 2^64
        }

    def _tensors(self):
        rows = [
            (low, high - low, (low - storage) % 256, fresh, const)
            for (low, high, storage), fresh, const in zip(self.extents, self.fresh, self.const, strict=True)
        ]
        return (Tensor * max(1, len(rows)))(*rows)


def _span(tensor):
    """Elements from the first to the last of a tensor with strides, both included; 0 when it is empty."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _aligned(map_bytes):
    """Return a tensor map's bytes in an aligned ctypes buffer; the launch rebases the address in them."""
    room = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
    buffer = (ctypes.c_char * MAP_BYTES).from_buffer(room, -ctypes.addressof(room) % MAP_ALIGNMENT)
    buffer.raw = map_bytes
    return buffer


def value_buffers(parameters, arguments):
    """Return a list with a ctypes buffer for every plain value and tensor map, and None for every tensor."""
    return [
        None if isinstance(value, torch.Tensor) else value_bytes(parameter, value)
        for parameter, value in zip(parameters, arguments, strict=True)
    ]


def value_bytes(parameter, value):
    """Return a plain argument as the bytes of its declared type, in a ctypes buffer of at least 16 bytes."""
    types = {"float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool}
    if isinstance(value, TensorMap):
        return _aligned(value.simt_bytes())
    if value is None:  # a null pointer
        raw = bytes(8)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
    elif parameter.element in types:
        raw = bytes(types[parameter.element](value))
    elif parameter.element == "half":
        raw = bytes(torch.tensor([value], dtype=torch.float16, device="cpu").view(torch.uint8).numpy())
    elif parameter.element == "bfloat16":
        raw = bytes(torch.tensor([value], dtype=torch.bfloat16, device="cpu").view(torch.uint8).numpy())
    elif isinstance(value, (int, bool)):
        raw = int(value).to_bytes(parameter.size_bytes or 8, "little", signed=value < 0)
    else:
        raise ArgumentError(
            f"{parameter.name} is {type(value).__name__}; the SIMT machine takes tensors, numbers and bytes."
        )
    return ctypes.create_string_buffer(raw, max(16, len(raw)))
