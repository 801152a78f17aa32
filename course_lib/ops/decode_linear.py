"""Launchers of a layer's products for one to eight tokens, with what precedes and follows them in the same launch.

May import: errors, device, ops._foundation, torch.
"""

import torch

from .. import device
from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_capability, require_contiguous, require_tensor
from ._foundation.launch import cuda_launch, ran
from ._foundation.sizes import CHUNK, ELEMENTS, ceil_div
from ._foundation.splits import slots as slots_of
from ._foundation.typed import typed
from ._foundation.values import require_positions, require_slots

MAX_TOKENS = 8  # columns of an mma
NUM_WARPS = 12  # of a block whose weights stream
NUM_STAGES = (8, 7)  # items of a warp's ring: as many as leave room for a block of the next kernel, or the last
WHOLE_WARPS = 8  # of a block whose weights are all under way at once
MAX_WHOLE = 12, 4  # such a block's most items a warp, and most tiles: their sums are in registers
PIECE, PAIRS = 64, 4  # of an item: columns, and pairs of rows
OTHER_BYTES = 2304  # of a multiprocessor's shared memory: what CUDA keeps of two blocks, and what a norm declares
MAX_TILES = 32  # of a block: the sums of eight tokens take 3 KiB each
NORMS = {"rms": 1, "layer": 2}
ACTIVATIONS = {None: 0, "gelu": 1, "swiglu": 2}


def linear(x, weight, *, bias=None, residual=None, out=None):
    """x weight^T + bias + residual for one to eight rows of x, one launch of 01_linear.

    Parameters
    ----------
    x : tensor, (num_tokens, size_k), float16 or bfloat16, contiguous; size_k a multiple of 8
    weight : tensor, (size_n, size_k), dtype of `x`, contiguous
    bias : tensor, (size_n,), dtype of `x`, or None
    residual : tensor, (num_tokens, size_n), dtype of `x`, contiguous, or None
    out : tensor like `residual`, which it may be, or None for a new one

    Returns
    -------
    out : tensor, (num_tokens, size_n)

    Raises
    ------
    ShapeError        shapes, dtypes or strides that do not fit
    UnsupportedError  more than eight rows, or rows that do not fit into shared memory; a card before 8.0

    Notes
    -----
    Cost      size_n * size_k * 2 bytes of weights, read once; each block reads x, from cache after the first
    Numerics  products and sums in float32, in an order that depends on the number of multiprocessors; rounded once
    """
    return ran(plan(x, weight, bias=bias, residual=residual, out=out))


def norm_linear(
    x, norm_weight, weight, *, norm_bias=None, bias=None, eps=1e-5, activation=None, norm="rms", out=None
):  # fmt: skip
    """activation(norm(x) weight^T + bias) for one to eight rows of x, one launch of 02_norm_linear.

    Parameters
    ----------
    x, weight, bias : as in `linear`
    norm_weight, norm_bias : tensors, (size_k,), dtype of `x`; norm_bias of LayerNorm alone, or None
    eps : float
    activation : None; "gelu", by tanh; or "swiglu": silu of the first half of the columns times the second
    norm : "rms" or "layer"
    out : tensor, (num_tokens, size_n), half as wide for "swiglu", or None for a new one

    Returns, raises, notes as `linear`; the normalised rows are rounded to the dtype of `x` before the product.
    """
    options = {"norm_bias": norm_bias, "bias": bias, "eps": eps, "activation": activation, "norm": norm, "out": out}
    return ran(plan_norm(x, norm_weight, weight, **options))


def norm_qkv(
    x, norm_weight, weight, k_cache, v_cache, slots, *, num_heads, norm_bias=None, bias=None, eps=1e-5, norm="rms",
    positions=None, cos_sin=None, out=None,
):  # fmt: skip
    """Queries of one to eight tokens, their keys and values put into the cache, one launch of 03_norm_qkv.

    Parameters
    ----------
    x, norm_weight, norm_bias, bias, eps, norm : as in `norm_linear`
    weight : tensor, ((num_heads + 2 * num_kv_heads) * head_dim, size_k): rows of q, then of k, then of v
    k_cache, v_cache : tensors, (num_slots, num_kv_heads, head_dim), dtype of `x`, contiguous; head_dim even
    slots : tensor, (num_tokens,), int64: where the token's keys and values go; a negative one is left out
        and no slot comes twice (checked on a CPU, as positions are; on a GPU a check would wait for it)
    num_heads : int
    positions, cos_sin : tensors as in `ops.rope.rope`, positions int32: q and k are turned, pairs
        (i, i + head_dim / 2). None for both: nothing is turned
    out : tensor, (num_tokens, num_heads, head_dim), or None for a new one

    Returns
    -------
    out : tensor, the queries; raises and notes as `linear`
    """
    options = {"norm_bias": norm_bias, "bias": bias, "eps": eps, "norm": norm, "positions": positions}
    options |= {"cos_sin": cos_sin, "num_heads": num_heads, "out": out}
    return ran(plan_qkv(x, norm_weight, weight, k_cache, v_cache, slots, **options))


@typed
def plan(x, weight, *, bias=None, residual=None, out=None):
    """The launch of 01_linear, not yet run."""
    out = require_linear(x, weight, bias, residual, out)
    arguments = (x, weight, bias, residual, out, *out.shape, x.shape[1])
    return stream_launch("01_linear", x, len(weight), arguments, out, {})


@typed
def plan_norm(
    x, norm_weight, weight, *, norm_bias=None, bias=None, eps=1e-5, activation=None, norm="rms", out=None
):  # fmt: skip
    """The launch of 02_norm_linear, not yet run."""
    if activation not in ACTIVATIONS:
        raise UnsupportedError(f"activation={activation!r}; these kernels have None, 'gelu' and 'swiglu'.")
    num_tokens, size_n = _sizes(x, weight)
    if activation == "swiglu" and size_n % 2:
        raise ShapeError(f"weight has {size_n} rows; swiglu takes a gate and another factor, an even number.")
    out = _output(x, (num_tokens, size_n // 2 if activation == "swiglu" else size_n), out)
    _require(x, weight, bias)
    defines = _norm(x, norm_weight, norm_bias, norm) | {"ACTIVATION": ACTIVATIONS[activation]}
    arguments = (x, norm_weight, norm_bias, weight, bias, out, num_tokens, size_n, x.shape[1], float(eps))
    return stream_launch("02_norm_linear", x, size_n, arguments, out, defines)


@typed
def plan_qkv(
    x, norm_weight, weight, k_cache, v_cache, slots, *, num_heads, norm_bias=None, bias=None, eps=1e-5, norm="rms",
    positions=None, cos_sin=None, out=None,
):  # fmt: skip
    """The launch of 03_norm_qkv, not yet run."""
    num_tokens, size_n = _sizes(x, weight)
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        require_tensor(cache, name, 3, x.dtype)
        _require_shape(cache, name, k_cache.shape, x.dtype)
    num_kv_heads, head_dim = k_cache.shape[1:]
    rows = (num_heads + 2 * num_kv_heads) * head_dim
    if size_n != rows or head_dim % 2:
        raise ShapeError(
            f"weight has {size_n} rows; {num_heads} query and 2 * {num_kv_heads} other heads of {head_dim}, an "
            f"even number, are {rows}."
        )
    out = _output(x, (num_tokens, num_heads, head_dim), out)
    _require(x, weight, bias)
    _require_shape(slots, "slots", x.shape[:1], torch.int64)
    require_slots(slots, len(k_cache), name="slots")
    if (positions is None) != (cos_sin is None):
        raise ShapeError("positions and cos_sin belong together; one of them is None.")
    if cos_sin is not None:
        _require_shape(positions, "positions", x.shape[:1], torch.int32)
        require_tensor(cos_sin, "cos_sin", 2, torch.float32)
        _require_shape(cos_sin, "cos_sin", (len(cos_sin), head_dim), torch.float32)
        require_positions(positions, len(cos_sin))
    defines = _norm(x, norm_weight, norm_bias, norm) | {"HEAD_DIM": head_dim}
    arguments = (
        x, norm_weight, norm_bias, weight, bias, cos_sin, positions, slots, out, k_cache, v_cache, len(x), num_heads,
        num_kv_heads, x.shape[1], float(eps),
    )  # fmt: skip
    return stream_launch("03_norm_qkv", x, rows, arguments, out, defines)


def fits(num_tokens, weight, norm=None):
    """Whether so many tokens have a launch with a weight (size_n, size_k): few, and with all sums in shared memory.

    norm : None, "rms" or "layer", with which the launch begins
    """
    if num_tokens > MAX_TOKENS or weight.shape[1] % CHUNK or weight.dtype not in ELEMENTS:
        return False
    (size_n, size_k), kind = weight.shape, NORMS.get(norm, 0)
    grid = _grid(weight, size_n)
    shape = _choices(size_n, size_k, grid, kind)[-1]
    return _shared_bytes(shape, num_tokens, size_k, _num_tiles(size_n, grid), kind) <= _most_shared_bytes(kind)


def require_linear(x, weight, bias, residual, out):
    """`out` of `linear`, or a new one, after the checks of its arguments."""
    shape = _sizes(x, weight)
    out = _output(x, shape, out)
    _require(x, weight, bias)
    if residual is not None:
        _require_shape(residual, "residual", shape, x.dtype)
    return out


def stream_launch(variant, x, size_n, arguments, out, defines, *, grid=None, num_ranks=1):
    """The launch of a kernel of common/weight_stream.cuh; grid: its blocks, those of 01_linear if None."""
    (num_tokens, size_k), grid = x.shape, grid or _grid(x, size_n)
    shape, shared_bytes = _shape(num_tokens, size_n, size_k, grid, defines.get("NORM", 0))
    defines = {"ELEMENT": ELEMENTS[x.dtype]} | shape | defines
    blocks, block = grid if num_ranks == 1 else (grid, num_ranks), 32 * shape["NUM_WARPS"]
    return cuda_launch(
        f"decode_linear/{variant}", blocks, block, arguments, (out,), defines=defines, shared_bytes=shared_bytes
    )  # fmt: skip


def _shape(num_tokens, size_n, size_k, grid, norm):
    """(NUM_WARPS, NUM_STAGES and TILES by name, bytes of shared memory) of a block.

    The launches of a layer take turns, without a norm and with one, attention aside. A block without a norm takes half
    of a multiprocessor's memory and one with a norm a little less, so that no multiprocessor holds two of them, nor two
    of the next: such a one would be the last to finish, long after the others.
    """
    room, most = device.current().shared_bytes_per_sm // 2 - (OTHER_BYTES if norm else 0), _most_shared_bytes(norm)
    tiles = _num_tiles(size_n, grid)
    for shape in _choices(size_n, size_k, grid, norm):
        needed = _shared_bytes(shape, num_tokens, size_k, tiles, norm)
        if needed <= room:
            break
    if needed > most:
        raise UnsupportedError(
            f"{num_tokens} rows of {size_k} numbers and the sums of {size_n} columns need {needed} bytes of shared "
            f"memory a block; there are {most}. Pass fewer rows."
        )
    return shape, max(needed, min(room, most))


def _choices(size_n, size_k, grid, norm):
    """Shapes of a block, the best first: all of its weights under way at once, where they fit beside eight tokens.

    That does not depend on the number of tokens, and so neither do the bits.
    """
    tiles, (most_items, most_tiles) = _num_tiles(size_n, grid), MAX_WHOLE
    items = tiles * ceil_div(ceil_div(size_k, PIECE), WHOLE_WARPS)
    whole = {"NUM_WARPS": WHOLE_WARPS, "NUM_STAGES": items, "TILES": tiles}
    if items <= most_items and tiles <= most_tiles:
        if _shared_bytes(whole, MAX_TOKENS, size_k, tiles, norm) <= _most_shared_bytes(norm):
            return [whole]
    return [{"NUM_WARPS": NUM_WARPS, "NUM_STAGES": stages, "TILES": 0} for stages in NUM_STAGES]


def _grid(tensor, size_n):
    """A block for each multiprocessor, or several where one had too many rows; the same for any number of tokens."""
    pairs, slots = ceil_div(size_n, 2), slots_of(tensor, 1)
    return min(pairs, slots * ceil_div(pairs, slots * MAX_TILES * PAIRS))


def _num_tiles(size_n, grid):
    """The most tiles of a block."""
    return ceil_div(ceil_div(ceil_div(size_n, 2), grid), PAIRS)


def _shared_bytes(shape, num_tokens, size_k, tiles, norm):
    """Rings, tokens, sums, and the weights and bias of the norm."""
    warps, stages = shape["NUM_WARPS"], shape["NUM_STAGES"]
    rings, token = warps * stages * 4 * PAIRS * PIECE, 2 * PIECE * ceil_div(size_k, PIECE)
    return rings + num_tokens * (token + 32 * warps * tiles) + 2 * norm * size_k


def _most_shared_bytes(norm):
    """Of a block, less what the kernels with a norm declare themselves."""
    return device.current().shared_bytes_per_block - (8 * max(NUM_WARPS, WHOLE_WARPS) if norm else 0)


def _sizes(x, weight):
    """(num_tokens, size_n) of two matrices."""
    for name, tensor in (("x", x), ("weight", weight)):
        if tensor.ndim != 2:
            raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}; expected 2 dimensions.")
    return len(x), len(weight)


def _output(x, shape, out):
    """`out`, or a new one, after the checks of x."""
    if x.ndim != 2 or x.numel() == 0 or x.dtype not in ELEMENTS or not x.is_contiguous():
        raise ShapeError(
            f"x is {x.dtype} {tuple(x.shape)}, strides {x.stride()}; expected float16 or bfloat16 (num_tokens, "
            "size_k), contiguous."
        )
    require_capability(x, "mma.m16n8k16 needs")
    if len(x) > MAX_TOKENS or x.shape[1] % CHUNK:
        raise UnsupportedError(
            f"x is {tuple(x.shape)}; these kernels take at most {MAX_TOKENS} rows, of a multiple of {CHUNK} numbers."
        )
    if out is None:
        return x.new_empty(shape)
    _require_shape(out, "out", shape, x.dtype)
    return out


def _require(x, weight, bias):
    require_tensor(weight, "weight", 2, x.dtype)
    if weight.shape[1] != x.shape[1] or weight.data_ptr() % 16 or x.data_ptr() % 16:
        raise ShapeError(
            f"weight is {tuple(weight.shape)} and x {tuple(x.shape)}; expected (size_n, {x.shape[1]}), and both to "
            "begin at multiples of 16 bytes."
        )
    if bias is not None:
        _require_shape(bias, "bias", (len(weight),), x.dtype)


def _norm(x, norm_weight, norm_bias, norm):
    """{"NORM"}, after the checks."""
    if norm not in NORMS:
        raise UnsupportedError(f"norm={norm!r}; these kernels have 'rms' and 'layer'.")
    if (norm == "layer") != (norm_bias is not None):
        raise ShapeError(f"norm={norm!r} with norm_bias {'None' if norm_bias is None else 'given'}; LayerNorm has one.")
    for name, tensor in (("norm_weight", norm_weight), ("norm_bias", norm_bias)):
        if tensor is not None:
            _require_shape(tensor, name, x.shape[1:], x.dtype)
    return {"NORM": NORMS[norm]}


def _require_shape(tensor, name, shape, dtype):
    if tensor.shape != torch.Size(shape):
        raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}; expected {tuple(shape)}.")
    require_contiguous({name: tensor}, (dtype,))
