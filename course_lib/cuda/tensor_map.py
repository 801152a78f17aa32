"""Tensor maps: a tensor and a box of it, as the copies of kernels_cu/common/tma.cuh take them on both engines.

A kernel takes one as ``const __grid_constant__ TensorMap``, 128 bytes by value. On a GPU the driver writes them
(cuTensorMapEncodeTiled); on the SIMT machine they are the SimtTensorMap of simt/include/simt/tensor_map.h. The rules
are the hardware's and are checked here first, so that both engines refuse the same maps with the same sentences.

Source of the rules: CUDA driver API, "Tensor Map Object Management", cuTensorMapEncodeTiled.

May import: errors, device.
"""

import functools
import struct

import torch

from .. import device
from ..errors import ArgumentError, ShapeError, ToolchainError, UnsupportedError

MAP_BYTES, MAP_ALIGNMENT = 128, 64
MAX_RANK, MAX_BOX, ALIGNMENT = 5, 256, 16
MAX_SIZE, MAX_STRIDE_BYTES = 2**32, 2**40  # both exclusive
# name -> (bytes of a row that the swizzle covers, number in the wgmma descriptor and in SimtTensorMap)
SWIZZLES = {None: (None, 0), "128B": (128, 1), "64B": (64, 2), "32B": (32, 3)}
_MAGIC = 0x5A  # of SimtTensorMap
_LAYOUT = "<Q4Q5I5HBBBB"  # the fields of SimtTensorMap in order: no padding between them
# torch dtype -> the driver's name; types that the driver does not know travel as bytes
_DTYPES = {
    torch.float16: "FLOAT16",
    torch.bfloat16: "BFLOAT16",
    torch.float32: "FLOAT32",
    torch.float64: "FLOAT64",
    torch.float8_e4m3fn: "UINT8",
    torch.float8_e5m2: "UINT8",
    torch.uint8: "UINT8",
    torch.int8: "UINT8",
    torch.int16: "UINT16",
    torch.uint16: "UINT16",
    torch.int32: "INT32",
    torch.uint32: "UINT32",
    torch.int64: "INT64",
    torch.uint64: "UINT64",
}


class TensorMap:
    """A checked description of a tensor and a box of it, made by `tensor_map`; the argument of a kernel.

    It keeps its tensor alive. The kernel may read and write the tensor through it.

    Attributes
    ----------
    tensor : torch.Tensor
    box : tuple of int, elements of the box by dimension of the tensor, outermost first
    swizzle : None, "32B", "64B" or "128B"
    box_bytes : int, what one load brings into shared memory, elements outside the tensor included
    """

    def __init__(self, tensor, box, swizzle):
        self.tensor, self.box, self.swizzle = tensor, box, swizzle

    def __repr__(self):
        return f"<TensorMap of {_described(self.tensor)}, box {self.box}, swizzle {self.swizzle}>"

    @property
    def box_bytes(self):
        """Bytes of the box in shared memory."""
        return functools.reduce(int.__mul__, self.box, self.tensor.element_size())

    @property
    def key(self):
        """What tells two maps apart besides the address: hashable."""
        return tuple(self.tensor.shape), self.tensor.stride(), self.tensor.dtype, self.box, self.swizzle

    def of(self, tensor):
        """Return the same map of a copy of the tensor, with the same shape and strides."""
        return TensorMap(tensor, self.box, self.swizzle)

    def driver_bytes(self):
        """Return the 128 bytes for a GPU.

        Raises
        ------
        ToolchainError   no cuda-bindings, or a driver that is too old
        """
        return self.encoder()(self.tensor.data_ptr())

    def encoder(self):
        """Return the function (address) -> the 128 bytes for a GPU of such a tensor there; it keeps no tensor alive."""
        sizes, strides = _innermost_first(self.tensor)
        name, box, swizzle = _DTYPES[self.tensor.dtype], self.box[::-1], self.swizzle
        return lambda address: _encode(address, name, sizes, strides, box, swizzle)

    def simt_bytes(self):
        """Return the 128 bytes for the SIMT machine, with the tensor's own address; the launch rebases it."""
        sizes, strides = _innermost_first(self.tensor)
        rank = len(sizes)
        fields = (
            self.tensor.data_ptr(),
            *strides, *(0,) * (4 - len(strides)),
            *sizes, *(1,) * (MAX_RANK - rank),
            *self.box[::-1], *(1,) * (MAX_RANK - rank),
            rank, self.tensor.element_size(), SWIZZLES[self.swizzle][1], _MAGIC,
        )  # fmt: skip
        return struct.pack(_LAYOUT, *fields).ljust(MAP_BYTES, b"\0")


def tensor_map(tensor, box, swizzle=None):
    """Describe a tensor and a box of it for tma_load_… and tma_store_….

    Parameters
    ----------
    tensor : torch.Tensor, 1 to 5 dimensions, where the kernel runs; innermost stride 1, the other strides and the first
        element's address multiples of 16 bytes. Views are welcome: a (B, S, H, D) tensor permuted to (B, H, S, D) too
    box : tuple of int, elements that one copy moves, by dimension of the tensor, outermost first: (1, 1, 128, 64).
        Coordinates in the kernel have the other order, innermost first
    swizzle : None, "32B", "64B" or "128B"; the innermost box side has so many bytes. The hardware takes narrower ones
        too, but how their rows lie in shared memory is not specified

    Returns
    -------
    map : TensorMap, for a parameter declared ``const __grid_constant__ TensorMap``

    Raises
    ------
    ArgumentError      not a tensor, or an unknown swizzle
    ShapeError         a rule of the hardware is broken; the message names it
    UnsupportedError   this GPU has no TMA
    ToolchainError     the driver or cuda-bindings is missing or too old
    """
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentError(f"tensor_map wants a torch tensor, got a {type(tensor).__name__}.")
    if swizzle not in SWIZZLES:
        names = ", ".join(f'"{name}"' for name in SWIZZLES if name)
        raise ArgumentError(f"tensor_map: swizzle is {swizzle!r}; it must be None or one of {names}.")
    _check_tensor(tensor)
    box = _checked_box(tensor, box, swizzle)
    made = TensorMap(tensor, box, swizzle)
    if tensor.is_cuda and device.engine() == "gpu":
        gpu = device.current()
        if gpu.capability < (9, 0):
            raise UnsupportedError(
                f"tensor_map: TMA needs compute capability 9.0, and this GPU ({gpu.name}) has "
                f"{gpu.capability[0]}.{gpu.capability[1]}. Without it, kernel.profile(…) runs on the SIMT machine."
            )
        made.driver_bytes()
    return made


def _check_tensor(tensor):
    """Check dtype, rank, sizes, strides and address."""
    if tensor.dtype not in _DTYPES:
        raise ShapeError(
            f"tensor_map: {_described(tensor)}: TMA knows no {_name(tensor)}; pass tensor.view(torch.uint8)."
        )
    if not 1 <= tensor.dim() <= MAX_RANK:
        raise ShapeError(f"tensor_map: {_described(tensor)} has {tensor.dim()} dimensions; a map has 1 to {MAX_RANK}.")
    for index, size in enumerate(tensor.shape):
        if not 1 <= size < MAX_SIZE:
            raise ShapeError(
                f"tensor_map: dimension {index} of {_described(tensor)} has {size} elements; "
                f"it must be 1 to {MAX_SIZE - 1}."
            )
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise ShapeError(
            f"tensor_map: the innermost stride of {_described(tensor)} is {tensor.stride(-1)} elements; it must be 1. "
            "Move the contiguous dimension last (permute), or pass tensor.contiguous()."
        )
    for index in range(tensor.dim() - 1):
        if tensor.shape[index] > 1:
            _check_stride(tensor, index)
    # the SIMT machine places each storage at a multiple of 256 bytes
    offset = tensor.data_ptr() - (0 if tensor.is_cuda else tensor.untyped_storage().data_ptr())
    if offset % ALIGNMENT:
        raise ShapeError(
            f"tensor_map: the first element of {_described(tensor)} is {offset % ALIGNMENT} bytes past a multiple of "
            f"{ALIGNMENT}; its address must be one. Map the whole tensor and give the offset as a coordinate."
        )


def _check_stride(tensor, index):
    """Check the stride of one of the outer dimensions."""
    num_bytes = tensor.stride(index) * tensor.element_size()
    where = f"tensor_map: the stride of dimension {index} of {_described(tensor)} is {num_bytes} bytes"
    if num_bytes == 0:
        raise ShapeError(f"{where}: an expanded dimension. Map the tensor before expand, with coordinate 0 there.")
    if num_bytes % ALIGNMENT:
        raise ShapeError(
            f"{where}; it must be a multiple of {ALIGNMENT}. Pad the rows to a multiple of {ALIGNMENT} bytes."
        )
    if num_bytes >= MAX_STRIDE_BYTES:
        raise ShapeError(f"{where}; it must be less than 2^40. Map a part of the tensor.")


def _checked_box(tensor, box, swizzle):
    """Return the box as a tuple of int."""
    if not isinstance(box, (tuple, list)) or not all(type(side) is int for side in box):
        raise ShapeError(
            f"tensor_map: box is {box!r}; give one whole number for each dimension, as in (1, 1, 128, 64)."
        )
    if len(box) != tensor.dim():
        raise ShapeError(
            f"tensor_map: box {tuple(box)} has {len(box)} sides and {_described(tensor)} has {tensor.dim()} "
            "dimensions; give one side for each dimension, 1 where a copy takes one index."
        )
    for index, side in enumerate(box):
        if not 1 <= side <= MAX_BOX:
            raise ShapeError(
                f"tensor_map: side {index} of box {tuple(box)} is {side}; a side has 1 to {MAX_BOX} elements. "
                "Take several copies for more."
            )
    inner = box[-1] * tensor.element_size()
    row = f"tensor_map: the innermost side of box {tuple(box)} is {box[-1]} elements of {_name(tensor)}, {inner} bytes"
    if inner % ALIGNMENT:
        raise ShapeError(f"{row}; it must be a multiple of {ALIGNMENT} bytes.")
    limit = SWIZZLES[swizzle][0]
    if limit and inner != limit:
        advice = "and several copies side by side" if inner > limit else "or a narrower swizzle"
        raise ShapeError(
            f'{row}; with swizzle "{swizzle}" it has {limit}. Take {limit // tensor.element_size()} elements, {advice}.'
        )
    return tuple(box)


def _innermost_first(tensor):
    """Return (sizes, strides in bytes without the first) innermost first; a size of 1 gets a stride that is valid."""
    sizes, strides = tuple(reversed(tensor.shape)), []
    for size, stride in list(zip(sizes, reversed(tensor.stride()), strict=True))[1:]:
        strides.append(stride * tensor.element_size() if size > 1 else ALIGNMENT)
    return sizes, tuple(strides)


@functools.lru_cache(maxsize=4096)
def _encode(address, dtype, sizes, strides, box, swizzle):
    """Return the driver's 128 bytes; the same description is encoded once."""
    driver = _driver()
    u32, u64 = driver.cuuint32_t, driver.cuuint64_t
    try:
        status, made = driver.cuTensorMapEncodeTiled(
            getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{dtype}"),
            len(sizes),
            address,
            [u64(size) for size in sizes],
            [u64(stride) for stride in strides],
            [u32(side) for side in box],
            [u32(1)] * len(sizes),
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle or 'NONE'}"),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    except RuntimeError as error:  # the library or the function in it is not there
        raise ToolchainError(
            f"tensor_map: this NVIDIA driver offers no cuTensorMapEncodeTiled ({error}). Install a driver for "
            "CUDA 12.0 or newer."
        ) from error
    if int(status):
        raise ShapeError(
            f"tensor_map: the driver refuses the map ({status.name}): address {address:#x}, {dtype}, innermost first "
            f"sizes {sizes}, strides {strides} bytes, box {box}, swizzle {swizzle}."
        )
    return b"".join(int(word).to_bytes(8, "little") for word in made.opaque)


def _driver():
    """cuda.bindings.driver, or a sentence."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise ToolchainError(
            "Tensor maps on a GPU need cuda-bindings: pip install 'cuda-core[cu13]' (Linux)."
        ) from error
    return driver


def _name(tensor):
    """The dtype's name without "torch."."""
    return str(tensor.dtype).removeprefix("torch.")


def _described(tensor):
    """A tensor in a few words: "float16 (2, 4, 128, 64)"."""
    return f"{_name(tensor)} {tuple(tensor.shape)}"
