"""Launchers of the matmul family: validate shapes, pick grid and block, call the CUDA kernel or its Triton twin.

May import: errors, device, cuda.steps, triton, triton_kernels, ops._foundation, torch. Grid and block are written here
and nowhere else.
"""

import torch

from .. import device
from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_tensor
from ._foundation.launch import Launch, cuda_launch, ran, triton_launch
from ._foundation.sizes import ceil_div

TILE = 16  # rows and columns of a tile of 03
_TILES = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16}
# the tiles of 08, and those for cards whose blocks have less than 144 KiB of shared memory (8.6, 8.9, 12.0)
PIPELINED = {
    "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "WARP_M": 64, "WARP_N": 64, "NUM_STAGES": 3, "GROUP_M": 8,
}  # fmt: skip
SMALL_PIPELINED = PIPELINED | {"BLOCK_N": 128, "BLOCK_K": 32}
TRITON_TILES = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}  # where autotune has nothing to time
# variant -> (macros, rows and columns of the result of one block, threads of a block, dtype)
VARIANTS = {
    "01_naive": ({}, (32, 8), (32, 8), torch.float32),
    "02_coalesced": ({}, (8, 32), (32, 8), torch.float32),
    "03_shared_tile": ({"TILE": TILE}, (TILE, TILE), (TILE, TILE), torch.float32),
    "04_register_tile": ({**_TILES, "THREAD_M": 4, "THREAD_N": 4}, (64, 64), 256, torch.float32),
    "05_vectorised": (_TILES, (64, 64), 256, torch.float32),
    "06_wmma": ({}, (64, 64), 128, torch.float16),
    "07_mma": ({}, (64, 64), 128, torch.float16),
    "08_pipelined": (PIPELINED, (128, 256), 256, torch.float16),
}
HALF_VARIANTS = tuple(variant for variant, (*_, dtype) in VARIANTS.items() if dtype == torch.float16)
_ALIGNED = ("05_vectorised", *HALF_VARIANTS)


def matmul(a, b, *, variant="08_pipelined", language="cuda"):
    """a times b, one launch; see `plan_matmul`."""
    return ran(plan_matmul(a, b, variant=variant, language=language))


def plan_matmul(a, b, *, variant="08_pipelined", language="cuda", tiles=None):
    """The launch that multiplies two matrices, not yet run.

    Parameters
    ----------
    a : tensor, (size_m, size_k), contiguous; float32, from 06_wmma on float16
    b : tensor, (size_k, size_n), like `a`
    variant : str, a key of VARIANTS; 08_pipelined wants size_k and size_n to be multiples of 8
    language : "cuda" or "triton" (08_pipelined only; float16 or bfloat16, any sizes)
    tiles : dict or None, other macros than PIPELINED for 08_pipelined, other constants than TRITON_TILES for its twin;
        keys that are left out stay

    Returns
    -------
    launch : Launch; its output is (size_m, size_n), dtype of `a`

    Raises
    ------
    ShapeError        not two contiguous matrices of the dtype that fit each other, or not 16-byte aligned (from 05 on)
    UnsupportedError  no such variant or language

    Notes
    -----
    Cost      2 * size_m * size_n * size_k FLOP; summed in float32
    """
    if variant not in VARIANTS:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(VARIANTS)}.")
    if language not in ("cuda", "triton") or (language == "triton" and variant != "08_pipelined"):
        raise UnsupportedError(f'language={language!r}: "cuda", or for 08_pipelined "triton" as well.')
    _check(a, b, variant, language)
    if language == "triton":
        return _plan_triton(a, b, tiles)
    if variant == "08_pipelined":
        return _plan_pipelined(a, b, _pipelined_tiles() | (tiles or {}))
    return _plan_by_tiles(a, b, variant)


def _plan_by_tiles(a, b, variant):
    """01 to 07: a block a tile of out, with the tile and the macros of VARIANTS."""
    defines, (rows, cols), block, _ = VARIANTS[variant]
    (size_m, size_k), size_n = a.shape, b.shape[1]
    across, down = ceil_div(size_n, cols), ceil_div(size_m, rows)
    grid = (down, across) if variant == "01_naive" else (across, down)
    out = a.new_empty(size_m, size_n)
    arguments = (a, b, out, size_m, size_n, size_k)
    return cuda_launch(f"matmul/{variant}", grid, block, arguments, (out,), defines=defines)


def _check(a, b, variant, language):
    """The contract of the operands, as sentences."""
    dtype = VARIANTS[variant][-1]
    if language == "triton" and a.dtype == torch.bfloat16:
        dtype = torch.bfloat16
    for name, matrix in (("a", a), ("b", b)):
        require_tensor(matrix, name, 2, dtype)
        if variant in _ALIGNED and language == "cuda" and matrix.data_ptr() % 16:
            raise ShapeError(f"{name} starts at an address that is no multiple of 16 bytes; pass {name}.clone().")
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"a has {a.shape[1]} columns and b {b.shape[0]} rows; the two must be equal.")


def _shared_bytes(tiles):
    """Dynamic shared memory of a block of 08."""
    return tiles["NUM_STAGES"] * (tiles["BLOCK_M"] + tiles["BLOCK_N"]) * tiles["BLOCK_K"] * 2


def _pipelined_tiles():
    """The tiles of 08 that fit the card in hand."""
    return PIPELINED if _shared_bytes(PIPELINED) <= device.current().shared_bytes_per_block else SMALL_PIPELINED


def _plan_pipelined(a, b, tiles):
    """The launch of 08: one row of blocks, tiles in dynamic shared memory."""
    (size_m, size_k), size_n = a.shape, b.shape[1]
    for name, size in (("size_k, the columns of a", size_k), ("size_n, the columns of b", size_n)):
        if size % 8:
            raise ShapeError(f"{name}, is {size}; 08_pipelined copies 8 halves at a time and needs a multiple of 8.")
    block_m, block_n = tiles["BLOCK_M"], tiles["BLOCK_N"]
    block = 32 * block_m * block_n // (tiles["WARP_M"] * tiles["WARP_N"])
    out = a.new_empty(size_m, size_n)
    grid, arguments = ceil_div(size_m, block_m) * ceil_div(size_n, block_n), (a, b, out, size_m, size_n, size_k)
    shared_bytes = _shared_bytes(tiles)
    return cuda_launch("matmul/08_pipelined", grid, block, arguments, (out,), defines=tiles, shared_bytes=shared_bytes)


def _plan_triton(a, b, tiles):
    """The launch of the Triton twin; autotune chooses the tiles where there is a GPU and none are given."""
    from ..triton.mode import is_interpreted
    from ..triton_kernels.matmul import tuned_matmul_kernel

    out = a.new_empty(a.shape[0], b.shape[1])
    arguments = (a, b, out, a.shape[0], b.shape[1], a.shape[1])
    if tiles is None and not is_interpreted():
        return Launch("triton", tuned_matmul_kernel, _triton_grid, 0, arguments, {}, (out,))
    constants = TRITON_TILES | (tiles or {})
    grid = _triton_grid(constants | {"size_m": a.shape[0], "size_n": b.shape[1]})
    return triton_launch("matmul/08_pipelined", grid, arguments, constants, (out,))


def _triton_grid(chosen):
    """The grid for the tiles that were chosen; Triton calls this with every argument of the launch by name."""
    return (ceil_div(chosen["size_m"], chosen["BLOCK_M"]) * ceil_div(chosen["size_n"], chosen["BLOCK_N"]),)
