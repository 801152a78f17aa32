"""Launchers of products of activations with weights of four bits, for few rows and for many, and their packing.

May import: errors, ops._foundation, torch.
"""

import torch

from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_capability, require_hopper, require_tensor
from ._foundation.launch import cuda_launch, is_hopper, ran
from ._foundation.plans import planned
from ._foundation.sizes import CHUNK, ELEMENTS, ceil_div
from ._foundation.splits import choose_num_splits, slots
from ._foundation.typed import typed
from ._foundation.values import looked_at

GROUPS = (32, 64, 128)
MAX_TOKENS, ROWS, STRETCH = 8, 16, 128
WARPS = range(12, 17)  # of a block of 01_gemv, where size_k has so many stretches
NUM_STAGES = 3  # items of a warp's ring
# tiles of 02_gemm: tokens, row tiles of a warp, warps that share the rows, warps that share k, stages
TILES = {
    16: {"BLOCK_M": 16, "ROW_TILES": 1, "WARPS_N": 2, "WARPS_K": 4, "NUM_STAGES": 4},  # few blocks: a deep stage
    32: {"BLOCK_M": 32, "ROW_TILES": 1, "WARPS_N": 2, "WARPS_K": 2, "NUM_STAGES": 4},
    64: {"BLOCK_M": 64, "ROW_TILES": 2, "WARPS_N": 4, "WARPS_K": 1, "NUM_STAGES": 3},
}
# tiles of 03_wgmma: tokens, and 64 rows of a warpgroup each; stages
WGMMA_TILES = {
    16: {"BLOCK_M": 16, "ROW_TILES": 1, "NUM_STAGES": 8},
    32: {"BLOCK_M": 32, "ROW_TILES": 1, "NUM_STAGES": 6},
    64: {"BLOCK_M": 64, "ROW_TILES": 1, "NUM_STAGES": 4},
    128: {"BLOCK_M": 128, "ROW_TILES": 2, "NUM_STAGES": 4},
}
MIN_STRETCHES = 8  # of a block that shares size_k: with fewer, filling its ring and its part of the sum cost more
ENOUGH = 0.75  # blocks a multiprocessor, at least, with which the largest tiles are the fastest


@typed
def pack(q):
    """The words that `linear` reads, of weights q (size_n, size_k) uint8, 0 to 15; made once, with torch.

    Returns
    -------
    packed : tensor, (size_n, 16 * ceil(size_k / 128)), int32: eight weights a word. A row is cut into stretches of 128,
        the last filled up with 0. Word 4 t + i of a stretch holds its weights 32 i + 8 t to 32 i + 8 t + 7, in the
        order 0 2 4 6 1 3 5 7 from the lowest four bits on.
    """
    if q.ndim != 2 or q.dtype != torch.uint8 or q.numel() == 0:
        raise ShapeError(f"q is {q.dtype} {tuple(q.shape)}; expected torch.uint8 (size_n, size_k), numbers 0 to 15.")
    if int(q.max()) > 15:
        raise ShapeError(f"q holds {int(q.max())}; four bits hold 0 to 15.")
    size_n, size_k = q.shape
    full = torch.nn.functional.pad(q, (0, -size_k % STRETCH)).view(size_n, -1, 4, 4, 4, 2)  # (…, i, t, pair, of a pair)
    halves = full.permute(0, 1, 3, 2, 5, 4).flatten(-2).to(torch.int32)  # (…, t, i, place in the word)
    bytes_of_words = (halves[..., ::2] | halves[..., 1::2] << 4).to(torch.uint8).contiguous()
    return bytes_of_words.view(torch.int32).view(size_n, -1)


@typed
def linear(x, packed, scales, zeros, *, out=None):
    """x w^T for any number of rows of x: `gemv` up to eight, from nine on `gemm_wgmma` where it runs, else `gemm`.

    Parameters and errors as there.
    """
    planner = plan
    if x.ndim == 2 and len(x) > MAX_TOKENS:
        planner = plan_wgmma if runs_wgmma(x, packed, scales, zeros) else plan_gemm
    return ran(planner(x, packed, scales, zeros, out=out))


def gemv(x, packed, scales, zeros, *, out=None):
    """x w^T for one to eight rows of x, one launch of w4a16/01_gemv; w = (q - zeros) * scales of its group.

    Parameters
    ----------
    x : tensor, (num_tokens, size_k), float16 or bfloat16; at most 8 rows, which start at multiples of 16 bytes
    packed : tensor, (size_n, 16 * ceil(size_k / 128)), int32, contiguous: of `pack`
    scales : tensor, (num_groups, size_n), dtype of `x`, contiguous, finite; size_k / num_groups is 32, 64 or
        128
    zeros : tensor like `scales`, uint8, 0 to 15 (checked on a CPU, as scales are; on a GPU a check would wait for it)
    out : tensor, (num_tokens, size_n), dtype of `x`, contiguous, or None for a new one

    Returns
    -------
    out : tensor, (num_tokens, size_n)

    Raises
    ------
    ShapeError        shapes, dtypes or strides that do not fit
    UnsupportedError  more than 8 rows, another group, or a card before compute capability 8.0

    Notes
    -----
    Cost      size_n * size_k / 2 bytes of weights, 3 bytes a group and row of them, and x, which stays in cache
    Numerics  q - zeros is exact in 16 bits; products and sums in float32, in an order that size_k decides; rounded once
    Launch    begins to read packed, scales and zeros before the kernel in front of it has ended: that one must not
              write them, unless it is one that says nothing of its dependents, as torch's are
    """
    return ran(plan(x, packed, scales, zeros, out=out))


def gemm(x, packed, scales, zeros, *, out=None):
    """x w^T for any number of rows of x, one launch of w4a16/02_gemm; the rest as in `gemv`.

    Notes
    -----
    Cost      2 * num_tokens * size_n * size_k operations; weights are read once for each BLOCK_M tokens, x once for
              each BLOCK_N rows of weights, both from cache after the first
    Numerics  as `gemv`, in another order of sums, which depends on the tiles
    """
    return ran(plan_gemm(x, packed, scales, zeros, out=out))


def gemm_wgmma(x, packed, scales, zeros, *, out=None):
    """x w^T for any number of rows of x, one launch of w4a16/03_wgmma; size_n a multiple of 16, the rest as in `gemv`.

    Raises
    ------
    UnsupportedError  a card other than of compute capability 9.0; packed, scales or zeros not at a multiple of 16 bytes

    Notes
    -----
    Cost      as `gemm`; blocks that share size_k write and read num_splits * num_tokens * size_n floats besides
    Numerics  w = (q - zeros) * scales is rounded to the dtype of x first, as a dense matrix has it; products and sums
              in float32, in an order that depends on the tiles and on num_splits
    """
    return ran(plan_wgmma(x, packed, scales, zeros, out=out))


@planned
def plan(x, packed, scales, zeros, *, out=None):
    """The launch of 01_gemv, not yet run."""
    if x.ndim == 2 and len(x) > MAX_TOKENS:
        raise UnsupportedError(
            f"x has {len(x)} rows; 01_gemv takes at most {MAX_TOKENS}, the columns of an mma: use linear."
        )
    arguments, out = _arguments(x, packed, scales, zeros, out)
    size_n, size_k = arguments[-3:-1]
    num_warps = choose_num_warps(ceil_div(size_k, STRETCH))
    defines = _defines(x, scales) | {"NUM_WARPS": num_warps, "NUM_STAGES": NUM_STAGES}
    item = 64 * ROWS + 3 * ROWS * (STRETCH // defines["GROUP"])
    shared_bytes = num_warps * (NUM_STAGES * item + 2 * 4 * ROWS * len(x))
    grid = min(ceil_div(size_n, ROWS), slots(x, 1))
    return cuda_launch(
        "w4a16/01_gemv", (grid,), 32 * num_warps, arguments, (out,), defines=defines, shared_bytes=shared_bytes
    )  # fmt: skip


@typed
def plan_gemm(x, packed, scales, zeros, *, out=None, tiles=None):
    """The launch of 02_gemm, not yet run; `tiles` are macros as in TILES, None chooses them."""
    arguments, out = _arguments(x, packed, scales, zeros, out)
    num_tokens, size_n = arguments[-4:-2]
    tiles = tiles or choose_tiles(num_tokens, size_n, slots(x, 1))
    block_m, block_n = tiles["BLOCK_M"], ROWS * tiles["ROW_TILES"] * tiles["WARPS_N"]
    stages = tiles["NUM_STAGES"] * tiles["WARPS_K"] * (block_n * 64 + block_m * 256)
    shared_bytes = max(stages, tiles["WARPS_K"] * block_m * (block_n + 4) * 4)
    grid, block = (ceil_div(num_tokens, block_m), ceil_div(size_n, block_n)), 32 * tiles["WARPS_N"] * tiles["WARPS_K"]
    defines = _defines(x, scales) | tiles
    return cuda_launch("w4a16/02_gemm", grid, block, arguments, (out,), defines=defines, shared_bytes=shared_bytes)


@typed
def plan_wgmma(x, packed, scales, zeros, *, out=None, tiles=None, num_splits=None):
    """The launch of 03_wgmma, not yet run; `tiles` are macros as in WGMMA_TILES, None chooses them and num_splits."""
    from .. import cuda

    require_hopper(x, "03_wgmma")
    (*_, out, num_tokens, size_n, size_k, stride), out = _arguments(x, packed, scales, zeros, out)
    if not _in_16_bytes(packed, scales, zeros):
        raise UnsupportedError(
            f"03_wgmma copies 16 bytes at once: size_n={size_n} is no multiple of 16, or packed, scales or zeros do "
            "not begin at one of 16 bytes: use gemm."
        )
    tiles = tiles or choose_wgmma_tiles(num_tokens, size_n, slots(x, 1))
    defines = _defines(x, scales) | tiles
    block_m, block_n, groups = tiles["BLOCK_M"], 128 * tiles["ROW_TILES"], STRETCH // defines["GROUP"]
    grid = ceil_div(num_tokens, block_m), ceil_div(size_n, block_n)
    num_slots = slots(x, 2 if tiles["ROW_TILES"] == 1 else 1)  # the smaller leave room for a second block
    num_splits = num_splits or choose_num_splits(
        grid[0] * grid[1], ceil_div(size_k, STRETCH), num_slots, min_split_len=MIN_STRETCHES
    )  # fmt: skip
    stage = ceil_div(256 * block_m + block_n * (64 + 3 * groups), 1024) * 1024
    shared_bytes = max(tiles["NUM_STAGES"] * stage, 4 * block_m * (block_n + 4))
    partial = counters = None
    if num_splits > 1:
        partial = x.new_empty(num_splits, num_tokens, size_n, dtype=torch.float32)
        counters = x.new_zeros(grid[::-1], dtype=torch.int32)
    boxes = ((packed, (block_n, 16)), (scales, (groups, block_n)), (zeros, (groups, block_n)))
    maps = [cuda.tensor_map(tensor, box=box) for tensor, box in boxes]
    arguments = (x, *maps, out, partial, counters, num_tokens, size_n, size_k, stride)
    return cuda_launch(
        "w4a16/03_wgmma", (*grid, num_splits), 384, arguments, (out,), defines=defines, shared_bytes=shared_bytes
    )  # fmt: skip


def runs_wgmma(x, packed, scales, zeros):
    """Whether 03_wgmma runs where x is, with these weights: `linear` then takes it for more than eight tokens."""
    return is_hopper(x) and _in_16_bytes(packed, scales, zeros)


def choose_wgmma_tiles(num_tokens, size_n, num_sms):
    """Tiles that hold the tokens, from WGMMA_TILES; the largest only where its blocks are enough for the card."""
    large = ceil_div(num_tokens, 128) * ceil_div(size_n, 256) >= ENOUGH * num_sms
    block_m = next((tokens for tokens in WGMMA_TILES if num_tokens <= tokens), 128)
    return WGMMA_TILES[min(block_m, 128 if large else 64)]


def choose_num_warps(num_stretches):
    """Warps that share the stretches of a row: of 12 to 16 those of which fewest wait for the last, else the most."""
    if num_stretches <= WARPS[-1]:
        return num_stretches
    return min(WARPS, key=lambda warps: (ceil_div(num_stretches, warps) * warps, -warps))


def choose_tiles(num_tokens, size_n, num_slots):
    """Tiles that hold the tokens, from TILES; the largest only where its blocks fill the card's multiprocessors."""
    large = TILES[64]
    block_n = ROWS * large["ROW_TILES"] * large["WARPS_N"]
    if num_tokens > 32 and ceil_div(num_tokens, 64) * ceil_div(size_n, block_n) >= num_slots:
        return large
    return TILES[16] if num_tokens <= 16 else TILES[32]


def _in_16_bytes(packed, scales, zeros):
    """Whether boxes of these tensors can be copied: they and the rows of zeros begin at multiples of 16 bytes."""
    return not any(each % 16 for each in (packed.data_ptr(), scales.data_ptr(), zeros.data_ptr(), len(packed)))


def _defines(x, scales):
    return {"ELEMENT": ELEMENTS[x.dtype], "GROUP": x.shape[1] // len(scales)}


def _arguments(x, packed, scales, zeros, out):
    """(arguments of either kernel, out), after the checks."""
    _require(x, packed, scales, zeros)
    (num_tokens, size_k), size_n = x.shape, len(packed)
    out = x.new_empty(num_tokens, size_n) if out is None else out
    require_tensor(out, "out", 2, x.dtype)
    if out.shape != (num_tokens, size_n):
        raise ShapeError(f"out has the shape {tuple(out.shape)}; expected {(num_tokens, size_n)}.")
    stride = x.stride(0) if num_tokens > 1 else 0
    return (x, packed, scales, zeros, out, num_tokens, size_n, size_k, stride), out


def _require(x, packed, scales, zeros):
    """Shapes, dtypes and alignment, in words."""
    if x.ndim != 2 or x.numel() == 0 or x.dtype not in ELEMENTS:
        raise ShapeError(f"x is {x.dtype} {tuple(x.shape)}; expected float16 or bfloat16 (num_tokens, size_k).")
    require_capability(x, "mma.m16n8k16 needs")
    num_tokens, size_k = x.shape
    if (size_k > 1 and x.stride(1) != 1) or (num_tokens > 1 and x.stride(0) % CHUNK) or x.data_ptr() % 16:
        raise ShapeError(f"x has strides {x.stride()}; its rows must be contiguous and start at multiples of 16 bytes.")
    require_tensor(packed, "packed", 2, torch.int32)
    require_tensor(scales, "scales", 2, x.dtype)
    require_tensor(zeros, "zeros", 2, torch.uint8)
    size_n = len(packed)
    wanted = (size_n, 16 * ceil_div(size_k, STRETCH))
    if packed.shape != wanted:
        raise ShapeError(f"packed has the shape {tuple(packed.shape)}; size_k={size_k} asks for {wanted}.")
    if scales.shape != zeros.shape or scales.shape[1] != size_n:
        raise ShapeError(
            f"scales are {tuple(scales.shape)} and zeros {tuple(zeros.shape)}; expected (num_groups, {size_n})."
        )
    if size_k % len(scales) or size_k // len(scales) not in GROUPS:
        raise UnsupportedError(f"size_k={size_k} in {len(scales)} groups; a group is 32, 64 or 128 weights.")
    if looked_at(zeros, validate=False) and int(zeros.max()) > 15:
        raise ShapeError(f"zeros holds {int(zeros.max())}; four bits hold 0 to 15.")
    if looked_at(scales, validate=False) and not bool(torch.isfinite(scales).all()):
        raise ShapeError("scales hold NaN or an infinity; expected finite numbers.")
