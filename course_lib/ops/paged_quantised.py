"""Launchers over pages of one byte a number: decode attention (06_quantised_kv), the write (08_quantised_write).

May import: errors, ops._foundation, ops._paged_checks, ops._paged_triton, ops.paged (choose_shape), torch.
"""

import math

import torch

from ..errors import ShapeError, UnsupportedError
from . import _paged_checks as checks
from . import _paged_triton as triton_launches
from . import paged
from ._foundation.checks import positive_scale, require_capability, require_language
from ._foundation.launch import all_ran, cuda_launch, ring_launch
from ._foundation.sizes import ELEMENTS, HEAD_DIMS, attention_outputs, ceil_div
from ._foundation.splits import choose_split_len, scratch, slots
from ._foundation.typed import typed
from ._foundation.values import require_lengths, require_pages, require_slots

TILE_KEYS = 32


def paged_attention_quantised(
    q,
    k_pages,
    v_pages,
    k_scales,
    v_scales,
    block_table,
    seq_lens,
    *,
    layout="NHD",
    softmax_scale=None,
    language="cuda",
    max_seq_len=None,
    validate=False,
):
    """`ops.paged.paged_attention` over pools of int8 or float8 e4m3.

    Parameters
    ----------
    q, block_table, seq_lens, layout, softmax_scale, language, max_seq_len, validate : as in `paged_attention`;
        |q| below 65504
    k_pages, v_pages : tensors, int8 or float8_e4m3fn, one dtype, shape and strides; rows start at multiples of 16 bytes
    k_scales, v_scales : tensors, (num_pages, page_size, num_kv_heads), float32, the same strides; a number of a pool
        denotes itself times its scale. `expand` one scale a head: strides of 0 are welcome

    Returns
    -------
    out, lse : as in `paged_attention`

    Notes
    -----
    Numerics  exact conversion to float16, products in float16 with float32 sums; the weights carry the scale of V
    """
    arguments = (q, k_pages, v_pages, k_scales, v_scales, block_table, seq_lens)
    options = {"layout": layout, "softmax_scale": softmax_scale, "language": language}
    return all_ran(plan(*arguments, max_seq_len=max_seq_len, validate=validate, **options))


@typed
def plan(
    q,
    k_pages,
    v_pages,
    k_scales,
    v_scales,
    block_table,
    seq_lens,
    *,
    layout="NHD",
    softmax_scale=None,
    language="cuda",
    max_seq_len=None,
    validate=False,
    split_len=None,
    tuning=None,
):
    """The launch that `paged_attention_quantised` would make, with fresh outputs (out, lse), not yet run."""
    require_language(language)
    pool_strides, page_size, num_kv_heads = checks.quantised_pool(k_pages, v_pages, k_scales, v_scales, layout)
    checks.require_queries(q, num_kv_heads, k_pages.shape[-1], block_table, seq_lens, q)
    scale = positive_scale(q, softmax_scale)
    longest = block_table.shape[1] * page_size
    require_lengths(seq_lens, longest, max_seq_len, validate, most_name="max_pages * page_size")
    require_pages(block_table, seq_lens, page_size, len(k_pages), validate)
    longest = max(1, longest if max_seq_len is None else min(longest, int(max_seq_len)))
    inputs = (q, k_pages, v_pages, k_scales, v_scales, block_table, seq_lens)
    sizes = (page_size, block_table.shape[1])
    strides = (*q.stride()[:2], *pool_strides, *k_scales.stride())
    if language == "triton":
        _require_fp8_in_triton(k_pages)
        return triton_launches.plan_quantised(inputs, num_kv_heads, sizes, strides, scale, longest, split_len, tuning)
    return _plan_cuda(inputs, num_kv_heads, sizes, strides, scale, longest, split_len, tuning)


def _plan_cuda(inputs, num_kv_heads, sizes, strides, scale, longest, split_len, tuning):
    """06; `tuning` replaces macros of the kernel."""
    q, k_pages = inputs[:2]
    batch_size, num_heads, head_dim = q.shape
    group = num_heads // num_kv_heads
    stage_bytes = 2 * TILE_KEYS * head_dim + 8 * TILE_KEYS  # K, V and their scales
    shape = paged.choose_shape(q, num_kv_heads, longest, stage_bytes) | (tuning or {})
    if split_len is None:
        num_slots, waves = slots(q, shape["BLOCKS_PER_SM"]), paged.WAVES
        split_len = choose_split_len(
            batch_size * num_kv_heads, longest, num_slots, waves, min_split_len=paged.MIN_SPLIT_LEN
        )
    num_splits = ceil_div(longest, split_len)
    defines = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype], "NUM_Q_PER_KV": group}
    defines["KV"] = checks.BYTES[k_pages.dtype]
    out, lse = attention_outputs(q)
    arguments = (
        *inputs, out, lse, *scratch(q, num_kv_heads, num_splits), num_kv_heads, *sizes, num_splits, split_len,
        *strides, scale * math.log2(math.e),
    )  # fmt: skip
    options = {"shape": shape, "defines": defines, "tile_bytes": stage_bytes}
    return ring_launch(
        "paged/06_quantised_kv", batch_size * num_splits * num_kv_heads, arguments, (out, lse), **options
    )


def reshape_and_cache_quantised(
    k,
    v,
    k_pages,
    v_pages,
    k_scales,
    v_scales,
    slot_mapping,
    *,
    layout="NHD",
    per="token",
    language="cuda",
    validate=False,
):
    """Round the keys and values of new tokens to one byte a number, into their slots, in place; one launch of 08.

    Parameters
    ----------
    k, v : tensors, (num_tokens, num_kv_heads, head_dim), float16 or bfloat16, finite; rows contiguous
    k_pages, v_pages, k_scales, v_scales, layout : as in `paged_attention_quantised`
    slot_mapping : tensor, (num_tokens,), int64: page * page_size + place in the page; a negative one is not stored,
        and no slot comes twice
    per : "token" finds a scale for each row, its largest number over 127 (int8) or 448 (e4m3), and writes it;
        "head" reads the scale of the slot; what is too large for it saturates

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit each other
    UnsupportedError  no such layout, language or `per`
    """
    arguments = (k, v, k_pages, v_pages, k_scales, v_scales, slot_mapping)
    plan_write(*arguments, layout=layout, per=per, language=language, validate=validate).run()


@typed
def plan_write(
    k, v, k_pages, v_pages, k_scales, v_scales, slot_mapping, *, layout="NHD", per="token", language="cuda",
    validate=False,
):  # fmt: skip
    """The launch of 08_quantised_write, not yet run."""
    require_language(language)
    if per not in ("token", "head"):
        raise UnsupportedError(f'per={per!r} is unknown; choose "token" or "head".')
    strides, page_size, num_kv_heads = checks.quantised_pool(k_pages, v_pages, k_scales, v_scales, layout)
    checks.require_new_tokens(k, v, slot_mapping, num_kv_heads, k_pages.shape[-1])
    require_slots(slot_mapping, len(k_pages) * page_size, validate)
    if k.dtype not in ELEMENTS or k_pages.shape[-1] not in HEAD_DIMS:
        raise UnsupportedError(
            f"k is {k.dtype}, head_dim={k_pages.shape[-1]}; 08 rounds float16 and bfloat16, 64 or 128."
        )
    steps = zip(k_scales.stride(), k_scales.shape, strict=True)
    if per == "token" and any(step == 0 and size > 1 for step, size in steps):
        raise ShapeError(f"k_scales has strides {k_scales.stride()}; a scale for each token needs a place of its own.")
    arguments = (
        k, v, k_pages, v_pages, k_scales, v_scales, slot_mapping, num_kv_heads, page_size, *k.stride()[:2],
        *v.stride()[:2], *strides, *k_scales.stride(),
    )  # fmt: skip
    outputs = (k_pages, v_pages, k_scales, v_scales)
    if language == "triton":
        _require_fp8_in_triton(k_pages)
        return triton_launches.plan_write(arguments, outputs, per)
    defines = {"HEAD_DIM": k.shape[-1], "ELEMENT": ELEMENTS[k.dtype], "KV": checks.BYTES[k_pages.dtype]}
    defines["PER_TOKEN"] = int(per == "token")
    return cuda_launch("paged/08_quantised_write", (k.shape[0],), 128, arguments, outputs, defines=defines)


def _require_fp8_in_triton(pages):
    if pages.dtype == torch.float8_e4m3fn:
        require_capability(pages, "for float8_e4m3fn Triton needs", (8, 9))
