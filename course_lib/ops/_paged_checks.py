"""What the kernels over pages ask of their arguments, as sentences.

May import: errors, ops._foundation, torch.
"""

import torch

from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_capability, require_group, require_rows
from ._foundation.sizes import ELEMENTS, HEAD_DIMS, steps_of

BYTES = {torch.int8: "char", torch.float8_e4m3fn: "__nv_fp8_e4m3"}  # dtype of a pool -> -DKV


def pool(k_pages, v_pages, layout):
    """((stride_page, stride_slot, stride_kv_head), page_size, num_kv_heads) after every check."""
    if layout not in ("NHD", "HND"):
        raise UnsupportedError(f'layout={layout!r} is unknown; choose "NHD" or "HND".')
    for name, pages in (("k_pages", k_pages), ("v_pages", v_pages)):
        if pages.ndim != 4 or pages.numel() == 0:
            raise ShapeError(f"{name} has the shape {tuple(pages.shape)}; expected 4 dimensions, each at least 1.")
        if pages.dtype not in ELEMENTS:
            raise ShapeError(f"{name} is {pages.dtype}; these kernels take float16 and bfloat16.")
        require_rows(name, pages, k_pages)
    if k_pages.shape != v_pages.shape or k_pages.stride() != v_pages.stride():
        raise ShapeError(
            f"k_pages is {tuple(k_pages.shape)} with strides {k_pages.stride()}, v_pages {tuple(v_pages.shape)} with "
            f"{v_pages.stride()}; both pools must have one shape and one layout."
        )
    slot, head = (1, 2) if layout == "NHD" else (2, 1)
    strides = (k_pages.stride(0), k_pages.stride(slot), k_pages.stride(head))
    return strides, k_pages.shape[slot], k_pages.shape[head]


def quantised_pool(k_pages, v_pages, k_scales, v_scales, layout):
    """((stride_page, stride_slot, stride_kv_head), page_size, num_kv_heads): two pools alike, with scales alike."""
    if layout not in ("NHD", "HND"):
        raise UnsupportedError(f'layout={layout!r} is unknown; choose "NHD" or "HND".')
    if k_pages.dtype not in BYTES or v_pages.dtype != k_pages.dtype:
        raise ShapeError(
            f"k_pages is {k_pages.dtype}, v_pages {v_pages.dtype}; expected int8 or float8_e4m3fn for both."
        )
    for name, pages in (("k_pages", k_pages), ("v_pages", v_pages)):
        if pages.ndim != 4 or pages.numel() == 0:
            raise ShapeError(f"{name} has the shape {tuple(pages.shape)}; expected 4 dimensions, each at least 1.")
        if pages.stride(3) != 1 or pages.data_ptr() % 16 or any(step % 16 for step in steps_of(pages)):
            raise ShapeError(f"{name} has strides {pages.stride()}; rows start at multiples of 16 bytes.")
        if pages.shape != k_pages.shape or pages.stride() != k_pages.stride():
            raise ShapeError("k_pages and v_pages differ in shape or strides.")
    slot, head = (1, 2) if layout == "NHD" else (2, 1)
    scales_shape = (k_pages.shape[0], k_pages.shape[slot], k_pages.shape[head])
    for name, scales in (("k_scales", k_scales), ("v_scales", v_scales)):
        if scales.shape != scales_shape or scales.dtype != torch.float32 or scales.stride() != k_scales.stride():
            raise ShapeError(
                f"{name} is {scales.dtype} {tuple(scales.shape)}; expected float32 {scales_shape}, strides alike."
            )
    return (k_pages.stride(0), k_pages.stride(slot), k_pages.stride(head)), *scales_shape[1:]


def require_new_tokens(k, v, slot_mapping, num_kv_heads, head_dim):
    """What the kernels that write into the pages ask of the new tokens."""
    for name, x in (("k", k), ("v", v)):
        if x.ndim != 3 or x.shape[1:] != (num_kv_heads, head_dim) or x.shape != k.shape:
            raise ShapeError(
                f"{name} is {tuple(x.shape)}; the pools want (num_tokens, {num_kv_heads}, {head_dim}), k and v alike."
            )
        require_rows(name, x, k)
    if slot_mapping.shape != k.shape[:1] or slot_mapping.dtype != torch.int64 or not slot_mapping.is_contiguous():
        raise ShapeError(
            f"slot_mapping is {slot_mapping.dtype} {tuple(slot_mapping.shape)}; "
            f"expected int64 ({k.shape[0]},), contiguous."
        )
    if k.shape[0] == 0:
        raise ShapeError("k has no tokens; nothing would be launched.")


def require_decode(q, k_pages, v_pages, block_table, seq_lens, layout):
    """What every decode kernel asks, as sentences; returns what `pool` returns."""
    strides, page_size, num_kv_heads = pool(k_pages, v_pages, layout)
    require_queries(q, num_kv_heads, k_pages.shape[-1], block_table, seq_lens, k_pages)
    return strides, page_size, num_kv_heads


def require_queries(q, num_kv_heads, head_dim_kv, block_table, seq_lens, like):
    """What the decode kernels ask of everything but the pools; `like` has the dtype and device that `q` should have."""
    if q.ndim != 3 or q.numel() == 0:
        raise ShapeError(
            f"q has the shape {tuple(q.shape)}; expected (batch_size, num_heads, head_dim), each at least 1."
        )
    require_rows("q", q, like)
    batch_size, num_heads, head_dim = q.shape
    if head_dim not in HEAD_DIMS or head_dim_kv != head_dim:
        raise UnsupportedError(f"head_dim={head_dim} of q, {head_dim_kv} of the pools; both must be 64 or 128.")
    require_group(num_heads, num_kv_heads)
    if block_table.ndim != 2 or block_table.shape[0] != batch_size or block_table.shape[1] < 1:
        raise ShapeError(f"block_table is {tuple(block_table.shape)}; expected ({batch_size}, max_pages).")
    if seq_lens.shape != (batch_size,):
        raise ShapeError(f"seq_lens is {tuple(seq_lens.shape)}; expected ({batch_size},).")
    for name, x in (("block_table", block_table), ("seq_lens", seq_lens)):
        if x.dtype != torch.int32 or not x.is_contiguous() or x.device != q.device:
            raise ShapeError(f"{name} must be int32, contiguous and on {q.device}; it is {x.dtype} on {x.device}.")
    if batch_size > 65535:
        raise UnsupportedError(f"batch_size={batch_size}; a grid has at most 65535 rows.")
    if q.dtype not in ELEMENTS:
        raise ShapeError(f"q is {q.dtype}; these kernels take float16 and bfloat16.")
    require_capability(q, "the kernels over pages need")
