"""Launchers of the matmul family: validate shapes, pick grid and block, call the CUDA kernel or its Triton twin.

May import: errors, device, cuda, triton, triton_kernels, ops._foundation, torch. Grid and block are written here and
nowhere else.
"""

import torch

from .. import device
from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_hopper, require_tensor
from ._foundation.launch import Launch, cuda_launch, ran, triton_launch
from ._foundation.sizes import CHUNK, ELEMENTS, ceil_div
from ._foundation.typed import typed

TILE = 16  # rows and columns of a tile of 03
_TILES = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16}
# the tiles of 08, and those for cards whose blocks have less than 144 KiB of shared memory (8.6, 8.9, 12.0)
PIPELINED = {
    "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "WARP_M": 64, "WARP_N": 64, "NUM_STAGES": 3, "GROUP_M": 8,
}  # fmt: skip
SMALL_PIPELINED = PIPELINED | {"BLOCK_N": 128, "BLOCK_K": 32}
# the tile of 09 is (128, BLOCK_N) with 64 of k at a time; each consumer warpgroup keeps two panels of the result
WGMMA = {"BLOCK_N": 256, "NUM_STAGES": 4, "GROUP_M": 16}
WGMMA_ROWS, WGMMA_DEPTH, PANEL = 128, 64, 64
SIMT_BLOCKS = 2  # of 09 on the SIMT machine, so that each walks over several tiles; on a card one a multiprocessor
_WGMMA_OUT_BYTES = 2 * 2 * PANEL * PANEL * 2
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
# steps for cards of compute capability 9.0 alone, and the SIMT machine; bfloat16 too
HOPPER_VARIANTS = {"09_wgmma": (WGMMA, (WGMMA_ROWS, WGMMA["BLOCK_N"]), 384, torch.float16)}
STEPS = VARIANTS | HOPPER_VARIANTS
HALF_VARIANTS = tuple(variant for variant, (*_, dtype) in VARIANTS.items() if dtype == torch.float16)
CHUNKED_VARIANTS = ("08_pipelined", "09_wgmma")  # rows of whole 16-byte chunks
_ALIGNED = ("05_vectorised", *HALF_VARIANTS, *HOPPER_VARIANTS)


def matmul(a, b, *, variant="08_pipelined", language="cuda"):
    """a times b, one launch; see `plan_matmul`."""
    return ran(plan_matmul(a, b, variant=variant, language=language))


@typed
def plan_matmul(a, b, *, variant="08_pipelined", language="cuda", tiles=None):
    """The launch that multiplies two matrices, not yet run.

    Parameters
    ----------
    a : tensor, (size_m, size_k), contiguous; float32, from 06_wmma on float16, for 09_wgmma bfloat16 too
    b : tensor, (size_k, size_n), like `a`
    variant : str, a key of STEPS; 08_pipelined and 09_wgmma want size_k and size_n to be multiples of 8
    language : "cuda" or "triton" (08_pipelined only; float16 or bfloat16, any sizes)
    tiles : dict or None, other macros than PIPELINED for 08_pipelined or WGMMA for 09_wgmma, other constants than
        TRITON_TILES for the twin of 08_pipelined; keys that are left out stay

    Returns
    -------
    launch : Launch; its output is (size_m, size_n), dtype of `a`

    Raises
    ------
    ShapeError        not two contiguous matrices of the dtype that fit each other, or not 16-byte aligned (from 05 on)
    UnsupportedError  no such variant or language; 09_wgmma on a card that is no Hopper

    Notes
    -----
    Cost      2 * size_m * size_n * size_k FLOP; summed in float32
    """
    if variant not in STEPS:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(STEPS)}.")
    if language not in ("cuda", "triton") or (language == "triton" and variant != "08_pipelined"):
        raise UnsupportedError(f'language={language!r}: "cuda", or for 08_pipelined "triton" as well.')
    _check(a, b, variant, language)
    if language == "triton":
        return _plan_triton(a, b, tiles)
    if variant == "08_pipelined":
        return _plan_pipelined(a, b, _pipelined_tiles() | (tiles or {}))
    if variant == "09_wgmma":
        return _plan_wgmma(a, b, WGMMA | (tiles or {}))
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
    dtype = STEPS[variant][-1]
    if (language == "triton" or variant in HOPPER_VARIANTS) and a.dtype == torch.bfloat16:
        dtype = torch.bfloat16
    for name, matrix in (("a", a), ("b", b)):
        require_tensor(matrix, name, 2, dtype)
        if variant in _ALIGNED and language == "cuda" and matrix.data_ptr() % 16:
            raise ShapeError(f"{name} starts at an address that is no multiple of 16 bytes; pass {name}.clone().")
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"a has {a.shape[1]} columns and b {b.shape[0]} rows; the two must be equal.")
    if variant in CHUNKED_VARIANTS and language == "cuda":
        for name, size in (("size_k, the columns of a", a.shape[1]), ("size_n, the columns of b", b.shape[1])):
            if size % CHUNK:
                raise ShapeError(f"{name}, is {size}; {variant} copies 8 numbers at a time and needs a multiple of 8.")


def _shared_bytes(tiles):
    """Dynamic shared memory of a block of 08."""
    return tiles["NUM_STAGES"] * (tiles["BLOCK_M"] + tiles["BLOCK_N"]) * tiles["BLOCK_K"] * 2


def _pipelined_tiles():
    """The tiles of 08 that fit the card in hand."""
    return PIPELINED if _shared_bytes(PIPELINED) <= device.current().shared_bytes_per_block else SMALL_PIPELINED


def _plan_pipelined(a, b, tiles):
    """The launch of 08: one row of blocks, tiles in dynamic shared memory."""
    (size_m, size_k), size_n = a.shape, b.shape[1]
    block_m, block_n = tiles["BLOCK_M"], tiles["BLOCK_N"]
    block = 32 * block_m * block_n // (tiles["WARP_M"] * tiles["WARP_N"])
    out = a.new_empty(size_m, size_n)
    grid, arguments = ceil_div(size_m, block_m) * ceil_div(size_n, block_n), (a, b, out, size_m, size_n, size_k)
    shared_bytes = _shared_bytes(tiles)
    return cuda_launch("matmul/08_pipelined", grid, block, arguments, (out,), defines=tiles, shared_bytes=shared_bytes)


def _plan_wgmma(a, b, tiles):
    """The launch of 09: a block a multiprocessor, which walks over tiles; the operands are tensor maps."""
    from .. import cuda

    require_hopper(a, "09_wgmma")
    (size_m, size_k), size_n = a.shape, b.shape[1]
    out = a.new_empty(size_m, size_n)
    boxes = ((a, WGMMA_ROWS), (b, WGMMA_DEPTH), (out, PANEL))  # rows; a consumer stores its 64 rows of a panel
    maps = [cuda.tensor_map(matrix, box=(rows, PANEL), swizzle="128B") for matrix, rows in boxes]
    num_tiles = ceil_div(size_m, WGMMA_ROWS) * ceil_div(size_n, tiles["BLOCK_N"])
    shared_bytes = tiles["NUM_STAGES"] * (WGMMA_ROWS + tiles["BLOCK_N"]) * WGMMA_DEPTH * 2 + _WGMMA_OUT_BYTES
    slots = torch.cuda.get_device_properties(a.device).multi_processor_count if a.is_cuda else SIMT_BLOCKS
    grid, block = min(num_tiles, slots), STEPS["09_wgmma"][2]
    defines = tiles | {"ELEMENT": ELEMENTS[a.dtype]}
    arguments = (*maps, size_m, size_n, size_k)
    return cuda_launch("matmul/09_wgmma", grid, block, arguments, (out,), defines=defines, shared_bytes=shared_bytes)


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
