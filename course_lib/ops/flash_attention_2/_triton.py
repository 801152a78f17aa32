"""Launches of FlashAttention-2's Triton kernels: tiles for each card and size, strides, descriptors.

May import: errors, ops._foundation, torch.
"""

from typing import NamedTuple

import torch

from ...errors import UnsupportedError
from .._foundation.checks import require_capability
from .._foundation.launch import Launches, interprets, is_hopper, triton_launch
from .._foundation.sizes import HEAD_DIMS, attention_outputs, ceil_div, power_of_two, steps_of

HALF = (torch.float16, torch.bfloat16)
PADDING = 128  # queries: the rows that row_dot prepares come in whole tiles of any size used below
_ROW_DOT_ROWS = 64
_BACKWARD = "flash_attention_2_backward/01_two_walks"
_LONGEST_STRIDE = 2**23  # elements between two rows: offsets inside a tile fit 32 bits below it


class Tiles(NamedTuple):
    """Shape of a tile, and how a program works on it."""

    block_m: int  # query rows
    block_n: int  # keys
    num_warps: int
    num_stages: int  # tiles of the walk that are in flight
    heads_per_turn: int = 8  # heads whose programs run beside each other: their K and V share the L2 cache


# (kernel, head_dim) -> Tiles. Compute capability 9.0 with descriptors: the fastest of 12 to 32 shapes on an H200
# (torch 2.11, triton 3.6), bfloat16, 16384 tokens, heads * head_dim = 2048, lengths 1024 to 16384.
HOPPER = {
    ("forward", 64): Tiles(64, 128, 4, 2),
    ("forward", 128): Tiles(64, 64, 4, 3),
    ("dk_dv", 64): Tiles(64, 64, 4, 3),
    ("dk_dv", 128): Tiles(64, 64, 4, 2),
    ("dq", 64): Tiles(64, 64, 4, 3),
    ("dq", 128): Tiles(128, 64, 8, 3),
}
# Other cards, and tensors that a descriptor cannot describe. Chosen by compiling, never timed: what keeps its numbers
# in registers and needs less than 99 KiB of shared memory.
GENERAL = {
    ("forward", 64): Tiles(128, 64, 8, 2),
    ("forward", 128): Tiles(128, 64, 8, 2),
    ("dk_dv", 64): Tiles(32, 32, 4, 2),
    ("dk_dv", 128): Tiles(32, 32, 4, 2),
    ("dq", 64): Tiles(64, 64, 4, 2),
    ("dq", 128): Tiles(64, 64, 8, 2),
}
FLOAT32 = Tiles(32, 32, 8, 1)  # for checks; no tensor core multiplies float32 exactly
INTERPRETED = Tiles(64, 64, 4, 1)  # an operation costs the interpreter a millisecond, however large the tile
# 01_loop_order, measured like HOPPER; it takes head_dim as it comes
TEACHING = {64: Tiles(128, 64, 8, 3), 128: Tiles(64, 64, 4, 3)}
TEACHING_GENERAL = Tiles(32, 32, 4, 2)


def plan_teaching(q, k, v, *, causal, softmax_scale, block_m=None, block_n=None):
    """The launch of 01_loop_order for contiguous tensors, with these tiles if given; outputs (out, lse)."""
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    tiles = TEACHING.get(head_dim, TEACHING_GENERAL) if is_hopper(q) and q.dtype in HALF else TEACHING_GENERAL
    tiles = tiles._replace(block_m=block_m or tiles.block_m, block_n=block_n or tiles.block_n)
    out, lse = attention_outputs(q)
    constants = {"HEAD_DIM": head_dim, "BLOCK_D": power_of_two(head_dim)} | _constants(tiles)
    grid = (batch_size * num_heads * ceil_div(seq_len_q, tiles.block_m),)
    sizes = (num_heads // k.shape[1], seq_len_q, k.shape[2], softmax_scale, int(causal))
    return triton_launch("flash_attention_2/01_loop_order", grid, (q, k, v, out, lse, *sizes), constants, (out, lse))


def plan_forward(q, k, v, *, causal, softmax_scale, tiles=None, descriptors=None):
    """The launch of 10_heavy_first; outputs (out, lse).

    Parameters
    ----------
    q, k, v : tensors as `flash_attention` checks them; float16, bfloat16 or float32, head_dim in HEAD_DIMS
    softmax_scale : float, above 0
    tiles : Tiles or None, what the tables say
    descriptors : bool or None, True on a card of compute capability 9.0 whose tensors allow it
    """
    require_kernel(q)
    q, k, v = (_with_rows(x) for x in (q, k, v))
    tiles, descriptors = _choice("forward", (q, k, v), tiles, descriptors)
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    out, lse = _with_rows(torch.empty_like(q)), q.new_empty(q.shape[:3], dtype=torch.float32)
    arguments = (
        *_inputs((q, k, v), tiles, descriptors), out, lse, batch_size, num_heads, num_heads // k.shape[1], seq_len_q,
        k.shape[2], *_strides(q, k, v, out), softmax_scale, causal, tiles.heads_per_turn,
    )  # fmt: skip
    constants = {
        "EVEN_KV": k.shape[2] % tiles.block_n == 0, "HEAD_DIM": head_dim, "DESCRIPTORS": descriptors,
    } | _constants(tiles)  # fmt: skip
    grid = (batch_size * num_heads * ceil_div(seq_len_q, tiles.block_m),)
    return triton_launch("flash_attention_2/10_heavy_first", grid, arguments, constants, (out, lse))


def plan_backward(q, k, v, out, lse, d_out, *, causal, softmax_scale, tiles=None, descriptors=None):
    """The launches of row_dot, dk_dv and dq; outputs (dq, dk, dv), contiguous.

    Parameters
    ----------
    out, lse : tensors, what the forward pass returned
    d_out : tensor, like `out`: the gradient that arrives
    tiles : dict or None, {"dk_dv": Tiles, "dq": Tiles}; the rest as in `plan_forward`
    """
    require_kernel(q)
    q, k, v, out, d_out = (_with_rows(x) for x in (q, k, v, out, d_out))
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    padded_len = ceil_div(seq_len_q, PADDING) * PADDING
    row_dot, lse_log2 = (lse.new_empty(batch_size, num_heads, padded_len) for _ in range(2))
    dq, dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    prepare = triton_launch(
        _BACKWARD,
        (batch_size * num_heads * padded_len // _ROW_DOT_ROWS,),
        (out, d_out, lse, row_dot, lse_log2, num_heads, seq_len_q, padded_len, *_strides(out, d_out)),
        {"HEAD_DIM": head_dim, "BLOCK_M": _ROW_DOT_ROWS},
        (row_dot, lse_log2),
        kernel="row_dot_kernel",
    )
    inputs, options = (q, k, v, d_out, lse_log2, row_dot), (causal, softmax_scale)

    def walk(kernel, *outputs):
        choice = _choice(kernel, inputs[:4], (tiles or {}).get(kernel), descriptors)
        return _plan_walk(kernel, inputs, outputs, options, *choice)

    return Launches((prepare, walk("dk_dv", dk, dv), walk("dq", dq)), (dq, dk, dv))


def _plan_walk(kernel, inputs, outputs, options, tiles, descriptors):
    """The launch of dk_dv, a tile of keys a program, or of dq, a tile of queries."""
    *tensors, lse_log2, row_dot = inputs
    q, k, (causal, softmax_scale) = *tensors[:2], options
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    num_kv_heads, seq_len_kv = k.shape[1:3]
    if kernel == "dk_dv":
        heads, num_tiles = num_kv_heads, ceil_div(seq_len_kv, tiles.block_n)
        even = {"EVEN_Q": seq_len_q % tiles.block_m == 0}
    else:
        heads, num_tiles = num_heads, ceil_div(seq_len_q, tiles.block_m)
        even = {"EVEN_KV": seq_len_kv % tiles.block_n == 0}
    arguments = (
        *_inputs(tensors, tiles, descriptors), lse_log2, row_dot, *outputs, batch_size, heads,
        num_heads // num_kv_heads, seq_len_q, seq_len_kv, row_dot.shape[2], *_strides(*tensors), softmax_scale, causal,
        tiles.heads_per_turn,
    )  # fmt: skip
    constants = {"HEAD_DIM": head_dim, "DESCRIPTORS": descriptors} | _constants(tiles) | even
    grid = (batch_size * heads * num_tiles,)
    return triton_launch(_BACKWARD, grid, arguments, constants, outputs, kernel=f"{kernel}_kernel")


def require_kernel(q):
    """What the tuned kernels take, as sentences."""
    if q.shape[-1] not in HEAD_DIMS:
        raise UnsupportedError(
            f'head_dim={q.shape[-1]}: the Triton kernels take 64 and 128; flash_attention(backend="torch") takes any.'
        )
    if q.dtype not in (*HALF, torch.float32):
        raise UnsupportedError(f"q is {q.dtype}; the Triton kernels take float16, bfloat16 and float32.")
    require_capability(q, "the Triton kernels need")


def _choice(kernel, tensors, tiles, descriptors):
    """(tiles, descriptors) for one kernel on these tensors, unless the caller knows better."""
    if descriptors is None:
        descriptors = is_hopper(tensors[0]) and tensors[0].dtype in HALF and all(map(_describable, tensors))
    if tiles is not None:
        return tiles, descriptors
    if interprets(tensors[0]):
        return INTERPRETED, descriptors
    if tensors[0].dtype == torch.float32:
        return FLOAT32, descriptors
    return (HOPPER if descriptors else GENERAL)[kernel, tensors[0].shape[-1]], descriptors


def _with_rows(x):
    """`x`, or a copy where its rows are not contiguous or lie too far apart for 32-bit offsets."""
    return x if x.stride(-1) == 1 and x.stride(-2) < _LONGEST_STRIDE else x.contiguous()


def _describable(x):
    """Whether a tensor descriptor can describe `x`: it, and every step in it, begins on 16 bytes."""
    return x.data_ptr() % 16 == 0 and all(step > 0 and step * x.element_size() % 16 == 0 for step in _steps(x))


def _inputs(tensors, tiles, descriptors):
    """q, k, v and perhaps d_out as the kernel takes them: tensors, or descriptors of their tiles."""
    if not descriptors:
        return tensors
    from triton.tools.tensor_descriptor import TensorDescriptor

    def described(x, rows):
        return TensorDescriptor(x, list(x.shape), [*_steps(x), 1], [1, 1, rows, x.shape[-1]])

    q, k, v, *d_out = tensors
    along = [described(x, tiles.block_m) for x in (q, *d_out)]
    return along[0], described(k, tiles.block_n), described(v, tiles.block_n), *along[1:]


def _steps(x):
    """Strides of batch, head and row; a harmless one where there is a single one, whatever the tensor's view says."""
    return steps_of(x, single=x.shape[-1])


def _strides(*tensors):
    return tuple(step for x in tensors for step in _steps(x))


def _constants(tiles):
    return {
        "BLOCK_M": tiles.block_m,
        "BLOCK_N": tiles.block_n,
        "num_warps": tiles.num_warps,
        "num_stages": tiles.num_stages,
    }
