"""Launchers of kernels_cu/paged_exercises, the kernels that the learner of chapter 10 writes.

May import: errors, cuda, torch, the Launch of the softmax family. Grid and block are written here and nowhere else.
"""

import torch

from ..errors import ShapeError
from ._foundation.checks import require_tensor as _require
from ._foundation.launch import Launch

HEAD_DIM = 32  # of 03_warp_walk and 07_quantise: a lane a column
_WARP = 32
VARIANTS = ("02_slot_mapping", "03_warp_walk", "07_quantise")


def plan_slot_mapping(k, v, k_pages, v_pages, slot_mapping):
    """The launch of 02_slot_mapping, which writes into the pools, not yet run.

    Parameters
    ----------
    k, v : tensors, (num_tokens, num_kv_heads, head_dim), int32; heads side by side, any stride of tokens
    k_pages, v_pages : tensors, (num_pages, page_size, num_kv_heads, head_dim), int32, alike; rows contiguous, else any
        strides
    slot_mapping : tensor, (num_tokens,), int64

    Raises
    ------
    ShapeError  shapes, dtypes or strides that do not fit each other
    """
    from .. import cuda

    num_tokens, num_kv_heads, head_dim = k.shape
    for name, x in (("k", k), ("v", v)):
        if x.shape != k.shape or x.dtype != torch.int32 or x.stride()[1:] != (head_dim, 1):
            raise ShapeError(
                f"{name} is {x.dtype} {tuple(x.shape)}, strides {x.stride()}; expected int32 {tuple(k.shape)}, heads "
                "side by side."
            )
    if k_pages.stride() != v_pages.stride() or k_pages.shape != v_pages.shape or k_pages.stride(3) != 1:
        raise ShapeError(f"k_pages {k_pages.stride()} and v_pages {v_pages.stride()}: alike, with contiguous rows.")
    if k_pages.dtype != torch.int32 or k_pages.shape[2:] != (num_kv_heads, head_dim):
        raise ShapeError(
            f"k_pages is {k_pages.dtype} {tuple(k_pages.shape)}; expected int32 (…, {num_kv_heads}, {head_dim})."
        )
    _require(slot_mapping, "slot_mapping", 1, torch.int64)
    kernel = cuda.load("paged_exercises/02_slot_mapping.cu")
    sizes = (head_dim, k_pages.shape[1], k.stride(0), v.stride(0), *k_pages.stride()[:3])
    arguments = (k, v, k_pages, v_pages, slot_mapping, *sizes)
    return Launch("cuda", kernel, (num_kv_heads, num_tokens), _WARP, arguments, {}, (k_pages, v_pages))


def plan_warp_walk(q, k_pages, v_pages, block_table, seq_lens):
    """The launch of 03_warp_walk, with fresh outputs (out, lse), not yet run.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, 32), float32, contiguous
    k_pages, v_pages : tensors, (num_pages, page_size, num_kv_heads, 32), float32, contiguous
    block_table : tensor, (batch_size, max_pages), int32
    seq_lens : tensor, (batch_size,), int32

    Raises
    ------
    ShapeError  shapes or dtypes that do not fit each other
    """
    from .. import cuda

    for name, x, dims, dtype in (
        ("q", q, 3, torch.float32), ("k_pages", k_pages, 4, torch.float32), ("v_pages", v_pages, 4, torch.float32),
        ("block_table", block_table, 2, torch.int32), ("seq_lens", seq_lens, 1, torch.int32),
    ):  # fmt: skip
        _require(x, name, dims, dtype)
    batch_size, num_heads, head_dim = q.shape
    page_size, num_kv_heads = k_pages.shape[1:3]
    if (
        head_dim != HEAD_DIM
        or k_pages.shape[3] != HEAD_DIM
        or num_heads % num_kv_heads
        or k_pages.shape != v_pages.shape
    ):
        raise ShapeError(
            f"q is {tuple(q.shape)} and k_pages {tuple(k_pages.shape)}: 32 columns, whole groups of heads."
        )
    out, lse = torch.empty_like(q), q.new_empty(batch_size, num_heads)
    kernel = cuda.load("paged_exercises/03_warp_walk.cu")
    sizes = (num_heads // num_kv_heads, page_size, block_table.shape[1], *k_pages.stride()[:3], HEAD_DIM**-0.5)
    arguments = (q, k_pages, v_pages, block_table, seq_lens, out, lse, *sizes)
    return Launch("cuda", kernel, (num_heads, batch_size), _WARP, arguments, {}, (out, lse))


def plan_quantise(x, pages, scales, slot_mapping):
    """The launch of 07_quantise, which writes into `pages` and `scales`, not yet run.

    Parameters
    ----------
    x : tensor, (num_tokens, num_kv_heads, 32), float32, contiguous
    pages : tensor, (num_pages, page_size, num_kv_heads, 32), int8, contiguous
    scales : tensor, (num_pages, page_size, num_kv_heads), float32, contiguous
    slot_mapping : tensor, (num_tokens,), int64

    Raises
    ------
    ShapeError  shapes or dtypes that do not fit each other
    """
    from .. import cuda

    for name, tensor, dims, dtype in (
        ("x", x, 3, torch.float32), ("pages", pages, 4, torch.int8), ("scales", scales, 3, torch.float32),
        ("slot_mapping", slot_mapping, 1, torch.int64),
    ):  # fmt: skip
        _require(tensor, name, dims, dtype)
    if pages.shape[2:] != x.shape[1:] or scales.shape != pages.shape[:3] or x.shape[2] != HEAD_DIM:
        raise ShapeError(
            f"x is {tuple(x.shape)}, pages {tuple(pages.shape)}, scales {tuple(scales.shape)}; they must fit."
        )
    kernel = cuda.load("paged_exercises/07_quantise.cu")
    grid = (x.shape[1], x.shape[0])
    return Launch("cuda", kernel, grid, _WARP, (x, pages, scales, slot_mapping), {}, (pages, scales))
