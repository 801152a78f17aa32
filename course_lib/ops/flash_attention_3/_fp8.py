"""Launchers of FlashAttention-3 in e4m3: the quantisation of q, k and v, and 08_fp8 over what it gives.

May import: errors, cuda, ops._foundation, ops.flash_attention_3._ladder, torch.
"""

import math
from functools import cache
from typing import NamedTuple

import torch

from ...errors import ShapeError, UnsupportedError
from .._foundation.checks import positive_scale, require_attention, require_half, require_hopper
from .._foundation.launch import Launches, all_ran, cuda_launch
from .._foundation.sizes import ELEMENTS, HEAD_DIMS, ceil_div
from . import _ladder

FAMILY_QUANTISE = "flash_attention_3_quantise"
STEM_FP8 = "flash_attention_3/08_fp8"
Q_BLOCK = 64  # rows of Q that share a scale: those of one consumer
KV_BLOCK = {64: 96, 128: 128}  # head_dim -> keys that share a scale: those of a tile


class Quantised(NamedTuple):
    """q, k and v in e4m3 as 08_fp8 takes them; a number is its byte times the scale of its block.

    Attributes
    ----------
    q, k : tensors, (batch_size, num_heads, seq_len_q, head_dim) and the same for keys, float8_e4m3fn, rotated
    v_t : tensor, (batch_size, num_kv_heads, head_dim, stride), float8_e4m3fn, keys in `reference.fp8.key_order`
    q_scales, k_scales, v_scales : tensors, (batch_size, heads, blocks), float32
    """

    q: torch.Tensor
    q_scales: torch.Tensor
    k: torch.Tensor
    k_scales: torch.Tensor
    v_t: torch.Tensor
    v_scales: torch.Tensor


def flash_attention_3_fp8(q, k, v, *, causal=False, softmax_scale=None, rotation=True):
    """Attention forward on e4m3 products: three launches that quantise, one of 08_fp8.

    Parameters
    ----------
    q, k, v, causal, softmax_scale : as in `flash_attention_3`, contiguous and finite
    rotation : bool; False leaves rows of Q and K as they are: an outlier then costs its whole block its precision

    Returns
    -------
    out, lse : as in `flash_attention_3`

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit each other
    UnsupportedError  a head_dim or scale that the kernels do not take; a GPU that is not a Hopper

    Notes
    -----
    Numerics  q, k, v and the weights have 4 significant bits; scores, m, l and acc in float32, though the tensor cores
              add the weighted values of PROMOTE_TILES tiles with about 14 bits

    Source: J. Shah et al., "FlashAttention-3", 2024, section 3.3, arXiv:2407.08608
    """
    quantising = plan_quantise(q, k, v, rotation=rotation)
    quantising.run()
    return all_ran(plan_fp8(quantising.outputs, k.shape[2], q.dtype, causal=causal, softmax_scale=softmax_scale))


def plan_quantise(q, k, v, *, rotation=True):
    """The three launches that give a Quantised, ``Quantised(*launches.outputs)``, not yet run."""
    require_attention(q, k, v)
    _require_quantisable(q, k, v)
    bits = _sign_bits(q.shape[3], q.device)
    kv_block = KV_BLOCK[q.shape[3]]
    launches = [_plan_rows(q, Q_BLOCK, bits, rotation), _plan_rows(k, kv_block, bits, rotation), _plan_values(v)]
    return Launches(tuple(launches), Quantised(*(output for launch in launches for output in launch.outputs)))


def plan_fp8(
    quantised, seq_len_kv, dtype, *, causal=False, softmax_scale=None, heads_together=None, num_blocks=None,
    promote_tiles=None,
):  # fmt: skip
    """The launch of 08_fp8, with fresh outputs (out, lse), not yet run.

    Parameters
    ----------
    quantised : Quantised
    seq_len_kv : int; the stride of v_t may be larger
    dtype : torch.float16 or torch.bfloat16, of out
    promote_tiles : int or None; tiles that the tensor cores add before float32 does, 0: all of them; None: the kernel's
    heads_together, num_blocks : as in `plan`
    """
    q, q_scales, k, k_scales, v_t, v_scales = quantised = Quantised(*quantised)
    _require_quantised(quantised, seq_len_kv, dtype)
    head_dim = q.shape[3]
    block_m, block_n = _ladder._block_m("08_fp8", head_dim), KV_BLOCK[head_dim]
    out, lse = torch.empty(q.shape, dtype=dtype, device=q.device), q.new_empty(q.shape[:3], dtype=torch.float32)
    counters, num_batch_heads = _ladder._counters(q), q.shape[0] * q.shape[1]
    together = min(heads_together or _ladder._heads_together(q, k, causal), num_batch_heads)
    arguments = (
        *_tensor_maps(q, k, v_t, out, block_m, block_n), q_scales, k_scales, v_scales, lse, counters, num_batch_heads,
        q.shape[1], q.shape[1] // k.shape[1], q.shape[2], seq_len_kv, together,
        positive_scale(q, softmax_scale) * math.log2(math.e), int(causal),
    )  # fmt: skip
    tiles = ceil_div(q.shape[2], block_m) * num_batch_heads
    defines = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[dtype]}
    if promote_tiles is not None:
        defines["PROMOTE_TILES"] = promote_tiles
    stages = _ladder.NUM_STAGES
    shared_bytes = ((_ladder.Q_STAGES + 2) * block_m + 2 * stages * block_n) * head_dim
    threads = 128 * (block_m // Q_BLOCK + 1)
    grid = (min(tiles, num_blocks or _ladder._num_slots(q)),)
    return cuda_launch(STEM_FP8, grid, threads, arguments, (out, lse), defines=defines, shared_bytes=shared_bytes)


def _plan_rows(x, rows, bits, rotation):
    """01_rotate_rows over q or k; outputs: the bytes, the scales of `rows` rows."""
    small = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    scales = x.new_empty(*x.shape[:2], ceil_div(x.shape[2], rows), dtype=torch.float32)
    defines = {"HEAD_DIM": x.shape[3], "ELEMENT": ELEMENTS[x.dtype], "ROWS": rows, "HADAMARD": int(rotation)}
    arguments = (x, bits, small, scales, x.shape[2])
    stem, grid = f"{FAMILY_QUANTISE}/01_rotate_rows", (scales.numel(),)
    return cuda_launch(stem, grid, 4 * rows, arguments, (small, scales), defines=defines)


def _plan_values(v):
    """02_transpose_values; outputs: the bytes, the scales of the blocks of keys."""
    batch_size, num_kv_heads, seq_len_kv, head_dim = v.shape
    keys, stride = KV_BLOCK[head_dim], 16 * ceil_div(seq_len_kv, 16)
    small = v.new_empty(batch_size, num_kv_heads, head_dim, stride, dtype=torch.float8_e4m3fn)
    scales = v.new_empty(batch_size, num_kv_heads, ceil_div(seq_len_kv, keys), dtype=torch.float32)
    defines = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[v.dtype], "KEYS": keys}
    grid, arguments = (scales.numel(),), (v, small, scales, seq_len_kv, stride)
    stem = f"{FAMILY_QUANTISE}/02_transpose_values"
    return cuda_launch(stem, grid, keys * head_dim // 32, arguments, (small, scales), defines=defines)


def _tensor_maps(q, k, v_t, out, block_m, block_n):
    """Maps of q and k by whole rows, of v_t by panels of keys, of out by a consumer's rows and 64 columns."""
    from ...cuda import tensor_map

    head_dim = q.shape[3]
    width = next(width for width in (128, 64, 32) if block_n % width == 0)  # V_WIDTH of the kernel
    return (
        tensor_map(q, box=(1, 1, block_m, head_dim), swizzle=f"{head_dim}B"),
        tensor_map(k, box=(1, 1, block_n, head_dim), swizzle=f"{head_dim}B"),
        tensor_map(v_t, box=(1, 1, head_dim, width), swizzle=f"{width}B"),
        tensor_map(out, box=(1, 1, Q_BLOCK, _ladder.PANEL_COLS), swizzle="128B"),
    )


@cache
def _sign_bits(head_dim, on_device):
    """Signs of the rotation, the same for every launch: (head_dim / 32,), int32."""
    words = torch.randint(-(2**31), 2**31, (head_dim // 32,), generator=torch.Generator().manual_seed(0), device="cpu")
    return words.to(torch.int32).to(on_device)


def _require_quantisable(q, k, v):
    """What the quantising kernels ask of dtype, head_dim and layout."""
    require_half(q, "these kernels", "round")
    require_hopper(q, "flash_attention_2 runs on cards of 8.0 and newer; flash_attention_3")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not tensor.is_contiguous() or tensor.data_ptr() % 16:
            raise ShapeError(f"{name} has the strides {tensor.stride()}; pass {name}.contiguous().")


def _require_quantised(quantised, seq_len_kv, dtype):
    """Shapes, dtypes and layouts that belong together."""
    q, k = quantised.q, quantised.k
    if dtype not in ELEMENTS:
        raise UnsupportedError(f"dtype={dtype}; 08_fp8 gives float16 and bfloat16.")
    if q.ndim != 4 or k.ndim != 4 or q.shape[3] not in HEAD_DIMS or q.shape[1] % k.shape[1]:
        raise ShapeError(
            f"q is {tuple(q.shape)} and k {tuple(k.shape)}; 08_fp8 takes 4 dimensions, head_dim 64 or 128."
        )
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    kv_shape, blocks = (batch_size, k.shape[1]), ceil_div(seq_len_kv, KV_BLOCK[head_dim])
    shapes = {
        "q": q.shape, "q_scales": (batch_size, num_heads, ceil_div(seq_len_q, Q_BLOCK)),
        "k": (*kv_shape, seq_len_kv, head_dim), "k_scales": (*kv_shape, blocks),
        "v_t": (*kv_shape, head_dim, 16 * ceil_div(seq_len_kv, 16)), "v_scales": (*kv_shape, blocks),
    }  # fmt: skip
    for name, shape in shapes.items():
        tensor, wanted = getattr(quantised, name), torch.float32 if name.endswith("scales") else torch.float8_e4m3fn
        if tensor.shape != shape or tensor.dtype != wanted or not tensor.is_contiguous():
            raise ShapeError(
                f"{name} is {tensor.dtype} {tuple(tensor.shape)}; expected {wanted} {tuple(shape)}, contiguous, "
                "as plan_quantise gives them."
            )
    if math.prod(q.shape[:3]) >= 2**31:
        raise UnsupportedError(f"q has {math.prod(q.shape[:3])} rows in all; 08_fp8 numbers them with 31 bits.")
