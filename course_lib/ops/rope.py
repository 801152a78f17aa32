"""Launcher of rotary positions, and the table of cosines and sines that it reads.

May import: errors, ops._foundation, torch.
"""

import math

import torch

from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_language
from ._foundation.launch import cuda_launch, triton_launch
from ._foundation.plans import planned
from ._foundation.rows import ROW_ELEMENTS
from ._foundation.sizes import ceil_div, power_of_two
from ._foundation.splits import slots
from ._foundation.typed import typed
from ._foundation.values import require_positions

MAX_THREADS, BLOCK_THREADS = 256, 128
HEADS = 2  # of a thread at once
POSITIONS = {torch.int32: "int", torch.int64: "long"}


@typed
def cos_sin_cache(max_positions, rotary_dim, *, base=10000.0, device="cpu"):
    """The table that `rope` reads: cos and sin of position * base^(-2 i / rotary_dim).

    Parameters
    ----------
    max_positions, rotary_dim : int; rotary_dim even
    base : float, above 0

    Returns
    -------
    tensor, (max_positions, rotary_dim), float32: rotary_dim / 2 cosines, then as many sines; angles made in float64,
        since float32 leaves an angle of 100,000 with an error of 0.004
    """
    if rotary_dim % 2:
        raise ShapeError(f"rotary_dim={rotary_dim}; expected an even number, two for each pair.")
    if base <= 0:
        raise UnsupportedError(f"base={base}; expected a number above 0, of which powers are taken.")
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim
    angles = torch.arange(max_positions, dtype=torch.float64)[:, None] * base**-exponents
    return torch.cat((angles.cos(), angles.sin()), dim=1).float().to(device)


def rope(q, k, positions, cos_sin, *, interleaved=False, inverse=False, out=None, language="cuda"):
    """Turn q and k by their positions, in place, one launch of 01_rope.

    Parameters
    ----------
    q : tensor, (num_tokens, num_heads, head_dim), float32, float16 or bfloat16; rows contiguous, any other strides
    k : tensor, (num_tokens, num_kv_heads, head_dim), dtype of `q`, or None
    positions : tensor, (num_tokens,), int32 or int64, in any order, contiguous; each a row of `cos_sin`
        (checked on a CPU; on a GPU a check would wait for it)
    cos_sin : tensor, (max_positions, rotary_dim), float32, contiguous, of `cos_sin_cache`; rotary_dim <= head_dim:
        what a head has beyond it stays
    interleaved : bool; pairs are (2 i, 2 i + 1), as in GPT-J; else (i, i + rotary_dim / 2), as in Llama and GPT-NeoX
    inverse : bool; turn back: the gradients of q and k from those of the results
    out : (q_out, k_out), tensors like q and k; None: q and k themselves
    language : "cuda" or "triton"

    Returns
    -------
    (q_out, k_out) : tensors; k_out is None where k is

    Raises
    ------
    ShapeError        shapes, dtypes or strides that do not fit; on a CPU a position outside the table
    UnsupportedError  no such language

    Notes
    -----
    Cost      2 * numel * itemsize bytes of q and k, and 4 * rotary_dim bytes a token of the table
    """
    launch = plan(q, k, positions, cos_sin, interleaved=interleaved, inverse=inverse, out=out, language=language)
    launch.run()
    return launch.outputs if k is not None else (launch.outputs[0], None)


@planned
def plan(q, k, positions, cos_sin, *, interleaved=False, inverse=False, out=None, language="cuda"):
    """The launch of 01_rope, not yet run."""
    require_language(language)
    q_out, k_out = (q, k) if out is None else out
    heads = {"q": q, "q_out": q_out} | ({} if k is None else {"k": k, "k_out": k_out})
    _require_heads(heads, q)
    _require_table(q, positions, cos_sin)
    rotary_dim, head_dim, num_kv_heads = cos_sin.shape[1], q.shape[2], 0 if k is None else k.shape[1]
    sources = (q, q) if k is None else (q, k)
    if out is None:
        sources = tuple(x.view(x.shape) for x in sources)  # what an in-place launch reads counts as written before
    tensors = (*sources, q_out, q_out if k is None else k_out)
    strides = [stride for tensor in tensors for stride in _strides(tensor)]
    sizes = (q.shape[1], num_kv_heads, head_dim, rotary_dim, *strides, -1.0 if inverse else 1.0)
    arguments = (*tensors[:2], positions, cos_sin, *tensors[2:], *sizes)
    outputs = (q_out,) if k is None else (q_out, k_out)
    if language == "triton":
        return _plan_triton(arguments, outputs, interleaved, in_place=out is None)
    return _plan_cuda(arguments, outputs, interleaved, _width(tensors, rotary_dim, head_dim, interleaved))


def _plan_cuda(arguments, outputs, interleaved, width):
    """Threads for some heads at once, each with its pairs; heads are split among blocks where there are few tokens."""
    q, positions, (num_heads, num_kv_heads, _, rotary_dim) = arguments[0], arguments[2], arguments[6:10]
    pairs = max(1, width // 2) if interleaved else width
    units, total = rotary_dim // 2 // pairs, num_heads + num_kv_heads
    if units > MAX_THREADS:
        raise ShapeError(
            f"rotary_dim={rotary_dim} in accesses of {width} needs {units} threads a head; 256 is the most."
        )
    # all heads at once where they are few; else as many turns as leave no thread without a head, HEADS heads in a turn
    turns = 1 if total * units <= BLOCK_THREADS else HEADS * ceil_div(total, HEADS * (MAX_THREADS // units))
    at_once = ceil_div(total, turns)
    wanted = ceil_div(2 * slots(q, 1), len(positions))  # blocks a token, for two a multiprocessor
    splits = max(1, min(wanted, turns))
    turns = ceil_div(turns, splits)
    defines = {
        "ELEMENT": ROW_ELEMENTS[q.dtype], "VEC": width, "INTERLEAVED": int(interleaved), "HEADS": min(HEADS, turns),
        "POSITION": POSITIONS[positions.dtype],
    }  # fmt: skip
    grid, block = (len(positions), splits), units * at_once
    return cuda_launch("rope/01_rope", grid, block, arguments, outputs, defines=defines)


def _plan_triton(arguments, outputs, interleaved, in_place):
    positions, (num_heads, num_kv_heads, head_dim, rotary_dim) = arguments[2], arguments[6:10]
    block_pairs = power_of_two(rotary_dim // 2, least=1)
    most = max(num_heads, num_kv_heads)
    block_h = min(power_of_two(most, least=1), max(1, 2048 // block_pairs))
    constants = {
        "INTERLEAVED": bool(interleaved), "IN_PLACE": in_place or head_dim == rotary_dim, "BLOCK_H": block_h,
        "BLOCK_PAIRS": block_pairs, "BLOCK_REST": power_of_two(max(1, head_dim - rotary_dim), least=1),
        "num_warps": max(1, min(8, block_h * block_pairs // 256)),
    }  # fmt: skip
    return triton_launch("rope/01_rope", (len(positions), ceil_div(most, block_h)), arguments, constants, outputs)


def _strides(x):
    """Elements between tokens and between heads; 0 where there is one only."""
    return [stride if size > 1 else 0 for size, stride in zip(x.shape[:2], x.stride()[:2], strict=True)]


def _width(tensors, rotary_dim, head_dim, interleaved):
    """Elements of an access: at most 16 bytes, a divisor of the parts of a head and of every row's start."""
    width = 16 // tensors[0].element_size()
    numbers = [rotary_dim if interleaved else rotary_dim // 2, head_dim]
    numbers += [number for x in tensors for number in (x.data_ptr() // x.element_size(), *_strides(x))]
    return math.gcd(width, *numbers)


def _require_heads(named, q):
    """Tensors (num_tokens, heads, head_dim) like `q`, each pair of equal shapes."""
    for name, x in named.items():
        if x is None or x.ndim != 3 or x.numel() == 0:
            got = "None" if x is None else tuple(x.shape)
            raise ShapeError(f"{name} is {got}; expected (num_tokens, num_heads, head_dim), each at least 1.")
        if x.dtype not in ROW_ELEMENTS or x.dtype != q.dtype or x.device != q.device:
            raise ShapeError(
                f"{name} is {x.dtype} on {x.device}; expected float32, float16 or bfloat16, as q: {q.dtype}."
            )
        if (x.shape[0], x.shape[2]) != (q.shape[0], q.shape[2]) or x.shape != named[name[0]].shape:
            raise ShapeError(f"{name} is {tuple(x.shape)} and q {tuple(q.shape)}; tokens and head_dim must agree.")
        if x.shape[2] > 1 and x.stride(2) != 1:
            raise ShapeError(f"{name} has strides {x.stride()}; its rows must be contiguous: pass {name}.contiguous().")


def _require_table(q, positions, cos_sin):
    """One position a token, and a table that has them and is no wider than a head."""
    if positions.shape != q.shape[:1] or positions.dtype not in POSITIONS or not positions.is_contiguous():
        raise ShapeError(
            f"positions is {positions.dtype} {tuple(positions.shape)}; "
            f"expected contiguous int32 or int64 ({q.shape[0]},)."
        )
    if cos_sin.ndim != 2 or cos_sin.dtype != torch.float32 or not cos_sin.is_contiguous() or cos_sin.data_ptr() % 16:
        raise ShapeError(f"cos_sin is {cos_sin.dtype} {tuple(cos_sin.shape)}; expected what cos_sin_cache returns.")
    if cos_sin.shape[1] % 2 or not 2 <= cos_sin.shape[1] <= q.shape[2]:
        raise ShapeError(
            f"cos_sin has rotary_dim={cos_sin.shape[1]}; expected an even one, at most head_dim={q.shape[2]}."
        )
    if positions.device != q.device or cos_sin.device != q.device:
        raise ShapeError(f"positions is on {positions.device}, cos_sin on {cos_sin.device} and q on {q.device}.")
    require_positions(positions, len(cos_sin))
