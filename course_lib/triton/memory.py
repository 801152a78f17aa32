"""The memory of a recorded launch: one region per argument, with red zones around it and shadow cells.

Before a recorded launch each argument is copied to a separate buffer, far from the next one. A wrong address then falls
into a red zone, which names the argument, instead of into another argument or into unmapped memory.

May import: far, numpy, torch.
"""

import copy
from dataclasses import dataclass, field

import numpy as np
import torch

from ..far import Far

_ALIGNMENT = 512  # bytes; where a GPU allocation starts, so that sectors are counted as on a GPU
_RED_ZONE = (1 << 16, 1 << 24)  # bytes on either side: as wide as the argument, between these


@dataclass
class Argument:
    """One tensor of the launch, by the name of its parameter."""

    name: str
    tensor: torch.Tensor

    @property
    def shape_text(self):
        return f"shape {tuple(self.tensor.shape)}, {str(self.tensor.dtype).removeprefix('torch.')}"

    def span(self):
        """Return (first, past the last) byte of the tensor, counted from the start of its storage."""
        size = self.tensor.element_size()
        first = self.tensor.storage_offset() * size
        reach = sum((n - 1) * s for n, s in zip(self.tensor.shape, self.tensor.stride(), strict=True))
        return first, first + (reach + 1) * size


@dataclass
class Region:
    """A contiguous stretch of memory: one argument, or several that share storage.

    A shadow cell is as wide as the narrowest element seen. `written`, `read_a` and `read_b` hold stamps (see races.py):
    of the last write, of the last read, and of the last read by another program than that.
    """

    arguments: list
    base: int  # address of the first byte
    nbytes: int
    origin: int  # byte offset of `base` in the original storage
    buffer: torch.Tensor | None = None  # the copy, red zones included; None when the launch uses the original memory
    red_zone: int = 0
    cell_bytes: int = 1
    owner: np.ndarray | None = None  # per cell: False where no argument has an element; None: every cell is one
    initialised: np.ndarray | None = None  # per cell; None: all cells count as initialised
    written: np.ndarray = field(default=None)
    read_a: np.ndarray = field(default=None)
    read_b: np.ndarray = field(default=None)
    dirty: bool = False  # this launch has written it
    was_read: bool = False  # and `read_a` holds a stamp
    reads: list = field(default_factory=list)  # (addresses, size, stamp) that races.record_read has not been told yet
    reads_held: int = 0  # their addresses

    def __post_init__(self):
        self.cell_bytes = min(a.tensor.element_size() for a in self.arguments)
        self.owner = self._owned_cells()
        self.reset_stamps()

    @property
    def num_cells(self):
        return self.nbytes // self.cell_bytes

    def reset_stamps(self):
        """Forget all accesses, at the start of a launch: they happened before it."""
        self.written, self.read_a, self.read_b = (np.zeros(self.num_cells, dtype=np.int32) for _ in range(3))

    def refine(self, size):
        """Make cells at most `size` bytes wide, for an access narrower than the argument's own elements."""
        if size >= self.cell_bytes:
            return
        times, self.cell_bytes = self.cell_bytes // size, size
        for name in ("owner", "initialised", "written", "read_a", "read_b"):
            values = getattr(self, name)
            if values is not None:
                setattr(self, name, np.repeat(values, times))

    def cells(self, addresses):
        """The cell (int64) in which each address (uint64) of the region lies."""
        return ((addresses - np.uint64(self.base)) >> np.uint64(self.cell_bytes.bit_length() - 1)).view(np.int64)

    def wide(self, cells, size):
        """Every cell of accesses of `size` bytes that begin at `cells`."""
        wide = size // self.cell_bytes
        return cells if wide == 1 else (cells[:, None] + np.arange(wide)).ravel()

    def coarse(self, flags):
        """Return flags per cell of the width before `refine`: True where all parts are."""
        return flags.reshape(-1, min(a.tensor.element_size() for a in self.arguments) // self.cell_bytes).all(axis=1)

    @property
    def key(self):
        """Identity of the memory, equal in a later launch."""
        return self.arguments[0].tensor.untyped_storage().data_ptr(), self.origin, self.nbytes

    def locate(self, cell):
        """Return the name of a cell for messages: "x[3, 17]", or the argument's name when no element covers it."""
        byte = int(cell) * self.cell_bytes + self.origin
        for argument in self.arguments:
            index = _index(argument.tensor, byte)
            if index is not None:
                return f"{argument.name}[{', '.join(map(str, index))}]"
        return self.arguments[0].name

    def name_of(self, cell):
        return self.locate(cell).split("[")[0]

    @property
    def names(self):
        return " and ".join(a.name for a in self.arguments)

    def _owned_cells(self):
        if len(self.arguments) == 1 and self.arguments[0].tensor.numel() * self.cell_bytes == self.nbytes:
            return None
        owned = torch.zeros(self.num_cells, dtype=torch.bool, device="cpu")
        for argument in self.arguments:
            tensor, wide = argument.tensor, argument.tensor.element_size() // self.cell_bytes
            start = (argument.span()[0] - self.origin) // self.cell_bytes
            shape, stride = (*tensor.shape, wide), (*(s * wide for s in tensor.stride()), 1)
            owned.as_strided(shape, stride, start).fill_(True)
        return None if bool(owned.all()) else owned.numpy()


def _index(tensor, byte):
    """Return the element index of a byte of the storage, or None when no element of `tensor` covers it."""
    offset, index = byte // tensor.element_size() - tensor.storage_offset(), [0] * tensor.dim()
    for dim in sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d)):
        stride = tensor.stride(dim)
        if stride > 0 and tensor.shape[dim] > 1:
            index[dim], offset = divmod(offset, stride)
    inside = offset == 0 and all(0 <= i < n for i, n in zip(index, tensor.shape, strict=True))
    return tuple(index) if inside else None


def group(arguments):
    """Group the arguments of a launch by storage; empty tensors are left out."""
    by_storage = {}
    for argument in arguments:
        if argument.tensor.numel():
            key = (str(argument.tensor.device), argument.tensor.untyped_storage().data_ptr())
            by_storage.setdefault(key, []).append(argument)
    return list(by_storage.values())


def relocate(arguments):
    """Copy the memory of `arguments` (they share a storage) between red zones. Returns a Region."""
    first, last = _union(arguments)
    nbytes = last - first
    red_zone = min(max(nbytes, _RED_ZONE[0]), _RED_ZONE[1])
    red_zone += -red_zone % _ALIGNMENT
    buffer = torch.empty(nbytes + 2 * red_zone + 2 * _ALIGNMENT, dtype=torch.uint8, device="cpu")
    start = buffer.data_ptr() + red_zone
    base = start + (first - start) % _ALIGNMENT
    region = Region(arguments, base, nbytes, first, buffer, red_zone)
    inside(region).copy_(_bytes(arguments[0].tensor, first, nbytes))
    return region


def in_place(arguments):
    """Return a Region over the original memory, without red zones."""
    first, last = _union(arguments)
    base = arguments[0].tensor.untyped_storage().data_ptr() + first
    return Region(arguments, base, last - first, first)


def view(region, tensor):
    """Return `tensor` in the region's buffer, with the same shape and strides."""
    storage = region.buffer.untyped_storage()
    shift = region.base - storage.data_ptr() - region.origin
    offset = shift // tensor.element_size() + tensor.storage_offset()
    moved = torch.empty(0, dtype=tensor.dtype, device="cpu").set_(storage, offset, tensor.shape, tensor.stride())
    return Far.of(moved, tensor.elements) if isinstance(tensor, Far) else moved


def copy_back(region):
    """Copy what the launch wrote back to the argument."""
    if region.buffer is not None and region.dirty:
        _bytes(region.arguments[0].tensor, region.origin, region.nbytes).copy_(inside(region))


def inside(region):
    """Return the bytes of the region's copy without its red zones."""
    start = region.base - region.buffer.data_ptr()
    return region.buffer[start : start + region.nbytes]


def _union(arguments):
    spans = [argument.span() for argument in arguments]
    return min(s[0] for s in spans), max(s[1] for s in spans)


def _bytes(tensor, first, nbytes):
    storage = tensor.detach().untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, first, (nbytes,), (1,))


def each_tensor(name, value, visit):
    """Call ``visit(name, tensor)`` for every tensor inside an argument: plain, in a tuple, in a descriptor."""
    map_tensors(value, lambda tensor: visit(name, tensor))


def map_tensors(value, change, kind=torch.Tensor):
    """Return the argument with every tensor t (every `kind`) inside it replaced by ``change(t)``."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        items = [map_tensors(item, change, kind) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    base = getattr(value, "base", None)
    if not isinstance(base, kind):
        return value
    changed = copy.copy(value)  # a TensorDescriptor, or triton's wrapper that gives a tensor another dtype
    changed.base = change(base)
    return changed
