"""Launchers of what writes into pages: new tokens into their slots, whole pages on copy-on-write.

May import: errors, ops._foundation, ops._paged_checks, ops._paged_triton, torch.
"""

import torch

from ..errors import ShapeError
from . import _paged_triton as triton_launches
from ._foundation.checks import require_language, require_rows
from ._foundation.launch import cuda_launch
from ._foundation.plans import planned
from ._foundation.sizes import ELEMENTS
from ._foundation.typed import typed
from ._foundation.values import require_copies, require_slots
from ._paged_checks import pool, require_new_tokens

_BYTES = {torch.int8: "char", torch.float8_e4m3fn: "unsigned char"}  # pages of one byte a number


def reshape_and_cache(k, v, k_pages, v_pages, slot_mapping, *, layout="NHD", language="cuda", validate=False):
    """Write the keys and values of new tokens into their slots, in place; one launch of 01_reshape_and_cache.

    Parameters
    ----------
    k, v : tensors, (num_tokens, num_kv_heads, head_dim), float16 or bfloat16; rows contiguous, any other strides
    k_pages, v_pages : tensors, layout "NHD": (num_pages, page_size, num_kv_heads, head_dim),
        "HND": (num_pages, num_kv_heads, page_size, head_dim); both with the same strides
    slot_mapping : tensor, (num_tokens,), int64: page * page_size + place in the page; a negative one is not stored,
        and no slot comes twice
    validate : bool; check the values of `slot_mapping`
        on a GPU too, which waits for it; on the CPU they are checked always

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit each other
    UnsupportedError  no such layout or language
    """
    plan_reshape_and_cache(
        k, v, k_pages, v_pages, slot_mapping, layout=layout, language=language, validate=validate
    ).run()


def copy_pages(k_pages, v_pages, copies, *, language="cuda", validate=False):
    """Copy whole pages of both pools in place, one launch of 07_copy_pages: what copy-on-write does before a write.

    Parameters
    ----------
    k_pages, v_pages : tensors, pools of pages, any order of the dimensions after the page; each page contiguous
    copies : tensor, (num_copies, 2), int64: from page, to page; no page is written twice or both read and written
    validate : bool; check the values of `copies`
        on a GPU too, which waits for it; on the CPU they are checked always
    """
    plan_copy_pages(k_pages, v_pages, copies, language=language, validate=validate).run()


@planned
def plan_reshape_and_cache(k, v, k_pages, v_pages, slot_mapping, *, layout="NHD", language="cuda", validate=False):
    """The launch of 01_reshape_and_cache, not yet run."""
    require_language(language)
    strides, page_size, num_kv_heads = pool(k_pages, v_pages, layout)
    head_dim = k_pages.shape[-1]
    require_rows("k", k, k_pages)
    require_new_tokens(k, v, slot_mapping, num_kv_heads, head_dim)
    require_slots(slot_mapping, len(k_pages) * page_size, validate)
    sizes = (num_kv_heads, head_dim, page_size)
    arguments = (k, v, k_pages, v_pages, slot_mapping, *sizes, *k.stride()[:2], *v.stride()[:2], *strides)
    if language == "triton":
        return triton_launches.plan_reshape_and_cache(arguments, (k_pages, v_pages))
    defines, pools = {"ELEMENT": ELEMENTS[k.dtype]}, (k_pages, v_pages)
    return cuda_launch("paged/01_reshape_and_cache", (k.shape[0],), 128, arguments, pools, defines=defines)


@typed
def plan_copy_pages(k_pages, v_pages, copies, *, language="cuda", validate=False):
    """The launch of 07_copy_pages, not yet run."""
    require_language(language)
    if copies.ndim != 2 or copies.shape[1:] != (2,) or copies.dtype != torch.int64 or not len(copies):
        raise ShapeError(f"copies is {copies.dtype} {tuple(copies.shape)}; expected int64 (num_copies, 2), not empty.")
    for name, pages in (("k_pages", k_pages), ("v_pages", v_pages)):
        if pages.ndim < 2 or pages.numel() == 0:
            raise ShapeError(f"{name} has the shape {tuple(pages.shape)}; expected pages of at least one number.")
        page_bytes, stride_bytes = (n * pages.element_size() for n in (pages[0].numel(), pages.stride(0)))
        if not pages[0].is_contiguous() or page_bytes % 16 or stride_bytes % 16 or pages.data_ptr() % 16:
            raise ShapeError(f"{name} has strides {pages.stride()}; pages are contiguous and whole words of 16 bytes.")
    if k_pages.shape != v_pages.shape or k_pages.stride() != v_pages.stride() or k_pages.dtype != v_pages.dtype:
        raise ShapeError("k_pages and v_pages differ in shape, strides or dtype.")
    element = ELEMENTS.get(k_pages.dtype) or _BYTES.get(k_pages.dtype)
    if element is None:
        raise ShapeError(f"k_pages is {k_pages.dtype}; pages hold float16, bfloat16, float8_e4m3fn or int8.")
    require_copies(copies, len(k_pages), validate)
    copies = copies.contiguous()
    if language == "triton":
        return triton_launches.plan_copy_pages(k_pages, v_pages, copies)
    arguments = (k_pages, v_pages, copies, page_bytes // 16, stride_bytes // 16)
    grid, defines = (len(copies), 2), {"ELEMENT": element}
    return cuda_launch("paged/07_copy_pages", grid, 256, arguments, (k_pages, v_pages), defines=defines)
