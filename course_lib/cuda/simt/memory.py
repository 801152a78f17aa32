"""A launch's arguments as the runtime takes them: pieces of memory, values as bytes, and the C structures of the call.

May import: errors.
"""

import ctypes

import torch

from ...errors import ArgumentError

OBJECT_KINDS = ("shared", "device", "constant")  # the order is that of ObjectKind in runtime/state.h


class Tensor(ctypes.Structure):
    _fields_ = [
        ("memory", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("misalignment", ctypes.c_uint64),
        ("writable", ctypes.c_int),
        ("uninitialised", ctypes.c_int),
    ]


class Object(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("kind", ctypes.c_int)]


class Task(ctypes.Structure):
    _fields_ = [
        ("entry", ctypes.c_void_p),
        ("dynamic_base", ctypes.c_void_p),
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
    ]


class Memory:
    """The distinct pieces of memory among the arguments: views of one storage share a piece."""

    def __init__(self, parameters, arguments, outputs):
        self.names, self.extents, self.writable, self.fresh = [], [], [], []
        self.shown = []  # (name, piece, byte offset, bytes, itemsize) of every tensor, for messages
        self.piece_of, self.offset_of = [], []
        storages = {}
        marked = {id(output) for output in outputs}
        for parameter, value in zip(parameters, arguments, strict=True):
            if not isinstance(value, torch.Tensor):
                self.piece_of.append(-1)
                self.offset_of.append(0)
                continue
            if value.device.type != "cpu":
                raise ArgumentError(
                    f"{parameter.name} is a tensor on {value.device}; the SIMT machine runs on the CPU."
                )
            low = value.data_ptr()
            span = (
                0
                if value.numel() == 0
                else 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
            )
            high = low + span * value.element_size()
            storage = value.untyped_storage().data_ptr()
            if storage not in storages:
                storages[storage] = len(self.extents)
                self.extents.append([low, high, storage])
                self.writable.append(False)
                self.fresh.append(True)
            piece = storages[storage]
            extent = self.extents[piece]
            extent[0], extent[1] = min(extent[0], low), max(extent[1], high)
            self.writable[piece] |= not parameter.is_const
            self.fresh[piece] &= id(value) in marked
            self.shown.append((parameter.name, piece, low, span * value.element_size(), value.element_size()))
            self.piece_of.append(piece)
            self.offset_of.append(low)
        self.offset_of = [
            low - self.extents[piece][0] if piece >= 0 else 0
            for low, piece in zip(self.offset_of, self.piece_of, strict=True)
        ]

    def copy(self):
        """The bytes of all pieces, as they are now."""
        return [ctypes.string_at(low, high - low) for low, high, _ in self.extents]

    def restore(self, copied):
        """Put what `copy` gave back into the pieces that a kernel may write."""
        for (low, _, _), writable, data in zip(self.extents, self.writable, copied, strict=True):
            if writable:
                ctypes.memmove(low, data, len(data))

    def as_c(self):
        rows = [
            (low, high - low, (low - storage) % 256, writable, fresh)
            for (low, high, storage), writable, fresh in zip(self.extents, self.writable, self.fresh, strict=True)
        ]
        return (Tensor * max(1, len(rows)))(*rows)


def value_bytes(parameter, value):
    """A plain argument as the bytes of its declared type, in a buffer of at least 8 bytes."""
    types = {"float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool}
    if isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
    elif parameter.element in types:
        raw = bytes(types[parameter.element](value))
    elif parameter.element == "half":
        raw = bytes(torch.tensor(value, dtype=torch.float16, device="cpu").view(torch.uint8).numpy())
    elif parameter.element == "bfloat16":
        raw = bytes(torch.tensor(value, dtype=torch.bfloat16, device="cpu").view(torch.uint8).numpy())
    elif isinstance(value, (int, bool)):
        raw = int(value).to_bytes(parameter.size_bytes or 8, "little", signed=value < 0)
    else:
        raise ArgumentError(
            f"{parameter.name} is {type(value).__name__}; the SIMT machine takes tensors, numbers and bytes."
        )
    return ctypes.create_string_buffer(raw, max(16, len(raw)))
