"""Launchers of a mixture of experts: router, counting sort of the tokens, grouped product, weighted sum.

May import: errors, ops._foundation, ops.activation, torch.
"""

from typing import NamedTuple

import torch

from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_capability, require_language, require_tensor
from ._foundation.launch import all_ran, cuda_launch, is_hopper, ran, triton_launch
from ._foundation.plans import planned
from ._foundation.rows import ROW_ELEMENTS, access_width
from ._foundation.sizes import CHUNK, ELEMENTS, ceil_div
from ._foundation.typed import typed
from ._foundation.values import looked_at
from .activation import swiglu

BLOCK_M = 64  # rows of a tile of the grouped product; the only ones of its CUDA kernel
BLOCKS_M = (16, 64, 128)  # of its Triton twin
TRITON_HOPPER = {  # rows of a tile -> the rest of its shape; the fastest of 36 on an H200
    16: {"BLOCK_N": 64, "BLOCK_K": 128, "num_warps": 4, "num_stages": 4},
    64: {"BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 4},
    128: {"BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 4},
}
TRITON_GENERAL = {  # other cards, never timed: larger ones spill on sm_80
    16: {"BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3},
    64: {"BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3},
    128: {"BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 8, "num_stages": 3},
}
MAX_TOP_K, MAX_EXPERTS = 32, 512


class Sorted(NamedTuple):
    """What `sort` gives: int32 tensors.

    Attributes
    ----------
    offsets : (num_experts + 1,); the pairs of expert e are at places offsets[e] to offsets[e + 1] - 1
    order : (num_pairs,), the pair at a place; pair token * top_k + choice
    places : (num_tokens, top_k), the place of a pair
    tiles : (max_tiles, 2), expert and first place of every tile of rows; expert -1 after the last
    block_m : int, rows of a tile
    """

    offsets: torch.Tensor
    order: torch.Tensor
    places: torch.Tensor
    tiles: torch.Tensor
    block_m: int = BLOCK_M


@typed
def moe(x, router_logits, w_up, w_down, *, top_k, renormalise=True, language="cuda"):
    """A mixture of SwiGLU experts: route, sort, product, SwiGLU, product, combine; six launches, no wait of the host.

    Parameters
    ----------
    x : tensor, (num_tokens, hidden), float16 or bfloat16, contiguous
    router_logits : tensor, (num_tokens, num_experts), float32, float16 or bfloat16, contiguous
    w_up : tensor, (num_experts, 2 * width, hidden), dtype of `x`: gates, then ups
    w_down : tensor, (num_experts, hidden, width), dtype of `x`
    top_k : int, experts of a token
    renormalise : bool; the weights of the chosen experts sum to 1
    language : "cuda" or "triton", of the products and SwiGLU

    Returns
    -------
    out : tensor like `x`; sum of weight * w_down (silu(gate x) * (up x)) over the experts of a token; each product in
        the dtype of `x`: in float16 one beyond 65504 is an infinity
    """
    require_tensor(w_down, "w_down", 3, x.dtype)
    experts, weights = route(router_logits, top_k, renormalise=renormalise)
    num_experts = router_logits.shape[1]
    pairs = sort(experts, num_experts, block_m=tile_rows(experts.numel(), num_experts, language))
    both = grouped(x, w_up, pairs, gather=True, language=language)
    width = w_down.shape[2]
    rows = swiglu(both[:, :width], both[:, width:], language=language)
    return combine(grouped(rows, w_down, pairs, language=language), pairs.places, weights)


def route(logits, top_k, *, renormalise=True):
    """The experts of every token and their weights, one launch of 01_route.

    Parameters
    ----------
    logits : tensor, (num_tokens, num_experts), float32, float16 or bfloat16, contiguous, finite; at most 512 experts
    top_k : int, 1 to 32
    renormalise : bool; weights sum to 1 over the chosen experts; else they are probabilities over all

    Returns
    -------
    (experts int32, weights float32) : (num_tokens, top_k), the largest first, the lower number first among equals
    """
    return all_ran(plan_route(logits, top_k, renormalise=renormalise))


def tile_rows(num_pairs, num_experts, language):
    """Rows of a tile that suit so many pairs: what an expert has on average decides, since a tile has one expert."""
    if language == "cuda":
        return BLOCK_M
    return next((rows for rows in BLOCKS_M if num_pairs <= rows * num_experts), BLOCKS_M[-1])


def sort(experts, num_experts, *, block_m=BLOCK_M):
    """The pairs of token and expert in the order of the experts, stable, one launch of 02_sort.

    Parameters
    ----------
    experts : tensor, (num_tokens, top_k), int32, 0 to num_experts - 1, contiguous
    block_m : int, rows of a tile of the grouped product; see `tile_rows`

    Returns
    -------
    Sorted
    """
    launch = plan_sort(experts, num_experts, block_m=block_m)
    launch.run()
    return Sorted(*launch.outputs, block_m)


def grouped(x, w, pairs, *, gather=False, out=None, language="cuda"):
    """Every row times the weights of its expert, one launch of 03_grouped.

    Parameters
    ----------
    x : tensor, (num_pairs, size_k), float16 or bfloat16, contiguous; with `gather` (num_tokens, size_k), a row a token
    w : tensor, (num_experts, size_n, size_k), dtype of `x`, contiguous; 8 divides size_k and 2 size_n
    pairs : Sorted
    language : "cuda" or "triton"

    Returns
    -------
    out : tensor, (num_pairs, size_n), in the order of the experts
    """
    return ran(plan_grouped(x, w, pairs, gather=gather, out=out, language=language))


def combine(y, places, weights):
    """The weighted sum of each token's rows, one launch of 04_combine.

    Parameters
    ----------
    y : tensor, (num_pairs, num_cols), float32, float16 or bfloat16, contiguous
    places : tensor, (num_tokens, top_k), int32, rows of `y` (checked on a CPU; on a GPU a check would wait for it)
    weights : the same, float32

    Returns
    -------
    out : tensor, (num_tokens, num_cols), dtype of `y`; summed in float32, in the order of the choices
    """
    return ran(plan_combine(y, places, weights))


@planned
def plan_route(logits, top_k, *, renormalise=True):
    """The launch of 01_route, not yet run."""
    if logits.dtype not in ROW_ELEMENTS:
        raise ShapeError(f"logits is {logits.dtype}; this kernel takes float32, float16 or bfloat16.")
    require_tensor(logits, "logits", 2, logits.dtype)
    num_tokens, num_experts = logits.shape
    if not 1 <= top_k <= min(num_experts, MAX_TOP_K) or num_experts > MAX_EXPERTS:
        raise UnsupportedError(
            f"top_k={top_k} of {num_experts} experts; expected 1 to {MAX_TOP_K} of at most {MAX_EXPERTS}."
        )
    if looked_at(logits, validate=False) and not bool(torch.isfinite(logits).all()):
        raise ShapeError("logits hold NaN or an infinity; experts are chosen by finite logits.")
    experts = logits.new_empty(num_tokens, top_k, dtype=torch.int32)
    weights = logits.new_empty(num_tokens, top_k, dtype=torch.float32)
    defines = {"ELEMENT": ROW_ELEMENTS[logits.dtype], "NUM_EXPERTS": num_experts, "TOP_K": top_k}
    arguments = (logits, experts, weights, num_tokens, int(renormalise))
    return cuda_launch("moe/01_route", (ceil_div(num_tokens, 4),), 128, arguments, (experts, weights), defines=defines)


@planned
def plan_sort(experts, num_experts, *, block_m=BLOCK_M):
    """The launch of 02_sort, not yet run; its outputs are the tensors of `Sorted`."""
    require_tensor(experts, "experts", 2, torch.int32)
    _require_block_m(block_m, "triton")
    if not 1 <= num_experts <= MAX_EXPERTS:
        raise UnsupportedError(f"num_experts={num_experts}; expected 1 to {MAX_EXPERTS}.")
    if looked_at(experts, validate=False) and bool(((experts < 0) | (experts >= num_experts)).any()):
        raise ShapeError(f"experts holds {experts.min()} to {experts.max()}; there are 0 to {num_experts - 1}.")
    num_pairs = experts.numel()
    max_tiles = min(num_pairs, ceil_div(num_pairs, block_m) + num_experts)
    shapes = ((num_experts + 1,), (num_pairs,), experts.shape, (max_tiles, 2))
    outputs = tuple(experts.new_empty(shape) for shape in shapes)
    defines = {"NUM_EXPERTS": num_experts, "BLOCK_M": block_m}
    return cuda_launch("moe/02_sort", (1,), 512, (experts, *outputs, num_pairs, max_tiles), outputs, defines=defines)


@typed
def plan_grouped(x, w, pairs, *, gather=False, out=None, language="cuda"):
    """The launch of 03_grouped, not yet run."""
    require_language(language)
    if x.dtype not in ELEMENTS:
        raise ShapeError(f"x is {x.dtype}; this kernel takes float16 or bfloat16.")
    require_tensor(x, "x", 2, x.dtype)
    require_tensor(w, "w", 3, x.dtype)
    require_capability(x, "03_grouped needs")
    _require_block_m(pairs.block_m, language)
    num_pairs, top_k = len(pairs.order), pairs.places.shape[1] if gather else 0
    rows, (num_experts, size_n, size_k) = num_pairs // max(1, top_k), w.shape
    if x.shape != (rows, size_k) or num_experts != len(pairs.offsets) - 1:
        raise ShapeError(
            f"x is {tuple(x.shape)} and w {tuple(w.shape)}; "
            f"expected x ({rows}, {size_k}) and {len(pairs.offsets) - 1} experts."
        )
    if size_k % CHUNK or size_n % 2 or x.data_ptr() % 16 or w.data_ptr() % 16:
        raise ShapeError(f"w is {tuple(w.shape)}; 8 must divide size_k and 2 size_n, and x and w start at 16 bytes.")
    out = x.new_empty(num_pairs, size_n) if out is None else out
    arguments = (x, w, pairs.order, pairs.offsets, pairs.tiles, out, size_n, size_k, top_k)
    if language == "triton":
        shapes = TRITON_HOPPER if is_hopper(x) else TRITON_GENERAL
        constants = {"BLOCK_M": pairs.block_m, **shapes[pairs.block_m]}
        grid = (len(pairs.tiles), ceil_div(size_n, constants["BLOCK_N"]))
        return triton_launch("moe/03_grouped", grid, arguments, constants, (out,))
    defines = {"ELEMENT": ELEMENTS[x.dtype], "BLOCK_M": BLOCK_M}
    grid = (len(pairs.tiles), ceil_div(size_n, 64))
    return cuda_launch("moe/03_grouped", grid, 128, arguments, (out,), defines=defines)


def _require_block_m(block_m, language):
    allowed = (BLOCK_M,) if language == "cuda" else BLOCKS_M
    if block_m not in allowed:
        rows = " or ".join(map(str, allowed))
        raise UnsupportedError(
            f"block_m={block_m}: tiles of the grouped product in {language} have {rows} rows; sort the pairs with that."
        )


@planned
def plan_combine(y, places, weights):
    """The launch of 04_combine, not yet run."""
    if y.dtype not in ROW_ELEMENTS:
        raise ShapeError(f"y is {y.dtype}; this kernel takes float32, float16 or bfloat16.")
    require_tensor(y, "y", 2, y.dtype)
    require_tensor(places, "places", 2, torch.int32)
    require_tensor(weights, "weights", 2, torch.float32)
    (num_tokens, top_k), num_cols = places.shape, y.shape[1]
    if weights.shape != places.shape or len(y) != num_tokens * top_k:
        raise ShapeError(
            f"y has {len(y)} rows, places {tuple(places.shape)} and weights {tuple(weights.shape)}; "
            "expected a row for each place."
        )
    if looked_at(places, validate=False) and bool(((places < 0) | (places >= len(y))).any()):
        raise ShapeError(f"places holds {places.min()} to {places.max()}; y has the rows 0 to {len(y) - 1}.")
    out = y.new_empty(num_tokens, num_cols)
    width = access_width(num_cols, y, out)
    grid = (ceil_div(num_cols, width * 128), num_tokens)
    defines = {"ELEMENT": ROW_ELEMENTS[y.dtype], "VEC": width}
    return cuda_launch("moe/04_combine", grid, 128, (y, places, weights, out, num_cols, top_k), (out,), defines=defines)
