"""Launchers of attention over pages: validate, pick grid, splits and shared memory, call either twin.

May import: errors, device, ops._paged_checks, ops.softmax and ops.first_kernels (the launches), cuda, triton_kernels,
torch.
"""

import math

import torch

from .. import device
from ..errors import ShapeError, UnsupportedError
from . import _paged_checks as checks
from ._paged_checks import ELEMENTS, pool, require_decode, require_new_tokens, require_rows
from .first_kernels import Launches
from .softmax import Launch

DECODE_VARIANTS = ("02_paged_v1", "03_paged_v2", "04_paged_grouped")
PARTITION_LEN = 512  # 03: keys of a partition
NUM_WARPS, NUM_STAGES, TILE_KEYS = 6, 2, 16  # 04: the ring of each warp
MIN_SPLIT_LEN = 256  # 04: keys below which a block is not worth its merge
MAX_SPLITS = 1024
BLOCKS_PER_SM = 2
NARROW = {"NUM_WARPS": 3, "BLOCKS_PER_SM": 4}  # 04 and 06 with more pairs than places: 512 are one round on 528
ONE_WARP = {"NUM_WARPS": 1, "BLOCKS_PER_SM": 12}  # with more than those too, and SHORT sequences: 1024 on 1584
SHORT = 2048
WIDE_GROUP = {"NUM_WARPS": 4, "NUM_STAGES": 3}  # of more than 8 query heads: twice the accumulators, so fewer threads
WAVES = 1  # 04: blocks for each place on the card; the fastest of 1, 2, 4, 8 on an H200: a block's start costs 2 us
_BYTES = {torch.int8: "char", torch.float8_e4m3fn: "unsigned char"}  # 06: KV of one byte
_NUM_THREADS = 128


def reshape_and_cache(k, v, k_pages, v_pages, slot_mapping, *, layout="NHD", language="cuda"):
    """Write the keys and values of new tokens into their slots, in place; one launch of 01_reshape_and_cache.

    Parameters
    ----------
    k, v : tensors, (num_tokens, num_kv_heads, head_dim), float16 or bfloat16; rows contiguous, any other strides
    k_pages, v_pages : tensors, layout "NHD": (num_pages, page_size, num_kv_heads, head_dim),
        "HND": (num_pages, num_kv_heads, page_size, head_dim); both with the same strides
    slot_mapping : tensor, (num_tokens,), int64: page * page_size + place in the page; a negative one is not stored,
        and no slot comes twice

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit each other
    UnsupportedError  no such layout or language
    """
    plan_reshape_and_cache(k, v, k_pages, v_pages, slot_mapping, layout=layout, language=language).run()


def copy_pages(k_pages, v_pages, copies, *, language="cuda"):
    """Copy whole pages of both pools in place, one launch of 07_copy_pages: what copy-on-write does before a write.

    Parameters
    ----------
    k_pages, v_pages : tensors, pools of pages, any order of the dimensions behind the page; each page contiguous
    copies : tensor, (num_copies, 2), int64: from page, to page; no page is written twice or both read and written
    """
    plan_copy_pages(k_pages, v_pages, copies, language=language).run()


def paged_attention(
    q,
    k_pages,
    v_pages,
    block_table,
    seq_lens,
    *,
    layout="NHD",
    softmax_scale=None,
    variant="04_paged_grouped",
    language="cuda",
    max_seq_len=None,
):
    """Attention of one query a sequence over its pages (decoding).

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, head_dim), float16 or bfloat16, head_dim 64 or 128; rows contiguous
    k_pages, v_pages : tensors, layout "NHD": (num_pages, page_size, num_kv_heads, head_dim),
        "HND": (num_pages, num_kv_heads, page_size, head_dim); dtype of `q`, both with the same strides, rows contiguous
    block_table : tensor, (batch_size, max_pages), int32: physical page of each ``page_size`` tokens
    seq_lens : tensor, (batch_size,), int32: tokens of each sequence, 0 to max_pages * page_size
    softmax_scale : float above 0, dimensionless; default ``head_dim**-0.5``
    variant : one of DECODE_VARIANTS
    max_seq_len : int or None, not below any of `seq_lens`; default max_pages * page_size. A tight one saves idle blocks

    Returns
    -------
    out : tensor, shape and dtype of `q`, contiguous; zero for a sequence without tokens
    lse : tensor, (batch_size, num_heads), float32, natural log; -inf for a sequence without tokens

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit each other
    UnsupportedError  no such variant, layout or language; a head_dim, group or GPU that the kernels do not take

    Notes
    -----
    Cost      bytes: 2 * sum(seq_lens) * num_kv_heads * head_dim * 2, read once by 04, num_heads / num_kv_heads times
              (from L2 where it lasts) by 02 and 03
    Numerics  scores, m, l and sums in float32; 04 rounds the weights to the dtype of `q` before the second product
    Reads     nothing behind seq_lens: other slots, pages and table entries may hold anything
    """
    options = {"layout": layout, "softmax_scale": softmax_scale, "variant": variant, "language": language}
    launch = plan(q, k_pages, v_pages, block_table, seq_lens, max_seq_len=max_seq_len, **options)
    launch.run()
    return launch.outputs


def plan(
    q,
    k_pages,
    v_pages,
    block_table,
    seq_lens,
    *,
    layout="NHD",
    softmax_scale=None,
    variant="04_paged_grouped",
    language="cuda",
    max_seq_len=None,
    split_len=None,
):
    """The launch or launches that `paged_attention` would make, with fresh outputs (out, lse), not yet run.

    Parameters
    ----------
    split_len : int or None; keys of a partition of 03, of a block of 04
    """
    if variant not in DECODE_VARIANTS:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(DECODE_VARIANTS)}.")
    checks.require_language(language)
    strides, page_size, num_kv_heads = require_decode(q, k_pages, v_pages, block_table, seq_lens, layout)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    if not (math.isfinite(scale) and scale > 0.0):
        raise UnsupportedError(f"softmax_scale={softmax_scale}; these kernels take a finite number above 0.")
    longest = block_table.shape[1] * page_size
    longest = max(1, longest if max_seq_len is None else min(longest, int(max_seq_len)))
    inputs = (q, k_pages, v_pages, block_table, seq_lens)
    sizes = (page_size, block_table.shape[1])
    all_strides = (*q.stride()[:2], *strides)
    if language == "triton":
        from . import _paged_triton as triton_launches

        return triton_launches.plan(inputs, num_kv_heads, sizes, all_strides, scale, variant, longest, split_len)
    if variant == "04_paged_grouped":
        return _plan_grouped(inputs, num_kv_heads, sizes, all_strides, scale, longest, split_len)
    return _plan_by_head(inputs, num_kv_heads, sizes, all_strides, scale, variant, longest, split_len)


def _plan_by_head(inputs, num_kv_heads, sizes, strides, scale, variant, longest, split_len):
    """02 and 03: a block a query head, or a partition of one."""
    from .. import cuda

    q, seq_lens = inputs[0], inputs[4]
    batch_size, num_heads, head_dim = q.shape
    defines = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype]}
    out, lse = _outputs(q)
    group = num_heads // num_kv_heads
    if variant == "02_paged_v1":
        kernel = cuda.load("paged/02_paged_v1.cu", "paged_v1_kernel", defines=defines)
        arguments = (*inputs, out, lse, group, *sizes, *strides, scale)
        return Launch("cuda", kernel, (num_heads, batch_size), _NUM_THREADS, arguments, {}, (out, lse))
    split_len = split_len or PARTITION_LEN
    num_partitions = -(-longest // split_len)
    partial_out = q.new_empty(batch_size, num_heads, num_partitions, head_dim, dtype=torch.float32)
    partial_lse = q.new_empty(batch_size, num_heads, num_partitions, dtype=torch.float32)
    parts = cuda.load("paged/03_paged_v2.cu", "paged_v2_kernel", defines=defines)
    arguments = (*inputs, partial_out, partial_lse, group, *sizes, split_len, *strides, scale)
    grid = (num_heads, num_partitions, batch_size)
    first = Launch("cuda", parts, grid, _NUM_THREADS, arguments, {}, (partial_out, partial_lse))
    reduce = cuda.load("paged/03_paged_v2.cu", "reduce_kernel", defines=defines)
    arguments = (partial_out, partial_lse, seq_lens, out, lse, num_partitions, split_len)
    last = Launch("cuda", reduce, (num_heads, batch_size), head_dim, arguments, {}, (out, lse))
    return Launches((first, last), (out, lse))


def _plan_grouped(inputs, num_kv_heads, sizes, strides, scale, longest, split_len, tuning=None):
    """04; `tuning` replaces macros of the kernel."""
    from .. import cuda

    q = inputs[0]
    batch_size, num_heads, head_dim = q.shape
    group = num_heads // num_kv_heads
    shape = {"TILE_KEYS": TILE_KEYS} | choose_shape(q, num_kv_heads, longest, 4 * TILE_KEYS * head_dim) | (tuning or {})
    if split_len is None:
        split_len = choose_split_len(batch_size * num_kv_heads, longest, places(q, shape["BLOCKS_PER_SM"]))
    num_splits = -(-longest // split_len)
    defines = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype], "NUM_Q_PER_KV": group} | shape
    kernel = cuda.load("paged/04_paged_grouped.cu", "paged_grouped_kernel", defines=defines)
    out, lse = _outputs(q)
    arguments = (
        *inputs, out, lse, *scratch(q, num_kv_heads, num_splits), num_kv_heads, *sizes, num_splits, split_len, *strides,
        scale * math.log2(math.e),
    )  # fmt: skip
    shared_bytes = shape["NUM_WARPS"] * shape["NUM_STAGES"] * 4 * shape["TILE_KEYS"] * head_dim
    grid = (batch_size * num_splits * num_kv_heads,)
    return Launch("cuda", kernel, grid, 32 * shape["NUM_WARPS"], arguments, {}, (out, lse), shared_bytes)


def choose_shape(q, num_kv_heads, longest, tile_bytes):
    """Macros of 04 and 06: warps of a block, tiles in the ring of a warp, blocks of an SM. Tried on an H200.

    The rings of an SM stay the same; what differs is how many pairs of a sequence and a head are read at a time.
    """
    shape = {"NUM_STAGES": NUM_STAGES, "NUM_WARPS": NUM_WARPS, "BLOCKS_PER_SM": BLOCKS_PER_SM}
    num_pairs = len(q) * num_kv_heads
    if q.shape[1] // num_kv_heads > 8:
        shape |= WIDE_GROUP
    elif num_pairs > places(q):
        fits = places(q, NARROW["BLOCKS_PER_SM"]) < num_pairs <= places(q, ONE_WARP["BLOCKS_PER_SM"])
        shape |= ONE_WARP if fits and longest <= SHORT else NARROW
    rings = shape["NUM_WARPS"] * shape["NUM_STAGES"] * tile_bytes
    if q.is_cuda and rings + 1024 > device.current().shared_bytes_per_block:  # a card with 99 KiB
        shape["NUM_WARPS"] = 3
    return shape


def scratch(q, num_kv_heads, num_splits):
    """(partial_out, partial_lse_log2, counters) of a launch that merges its own splits."""
    batch_size, num_heads, head_dim = q.shape
    partial_out = q.new_empty(batch_size, num_heads, num_splits, head_dim, dtype=torch.float32)
    partial_lse = q.new_empty(batch_size, num_heads, num_splits, dtype=torch.float32)
    return partial_out, partial_lse, torch.zeros(batch_size, num_kv_heads, dtype=torch.int32, device=q.device)


def choose_split_len(num_pairs, longest, num_places, waves=WAVES):
    """Keys of a block of 04: `waves` blocks for each place on the card, but no block too short for its merge.

    Parameters
    ----------
    num_pairs : int, batch_size * num_kv_heads
    longest : int, tokens of the longest sequence
    num_places : int, blocks that the card holds at a time
    """
    fewest, most = -(-longest // MAX_SPLITS), -(-longest // MIN_SPLIT_LEN)
    splits = max(1, min(most, num_places * waves // num_pairs))
    return max(fewest, -(-longest // splits), 1)


def plan_reshape_and_cache(k, v, k_pages, v_pages, slot_mapping, *, layout="NHD", language="cuda"):
    """The launch of 01_reshape_and_cache, not yet run."""
    checks.require_language(language)
    strides, page_size, num_kv_heads = pool(k_pages, v_pages, layout)
    head_dim = k_pages.shape[-1]
    require_rows("k", k, k_pages)
    require_new_tokens(k, v, slot_mapping, num_kv_heads, head_dim)
    sizes = (num_kv_heads, head_dim, page_size)
    arguments = (k, v, k_pages, v_pages, slot_mapping, *sizes, *k.stride()[:2], *v.stride()[:2], *strides)
    if language == "triton":
        from . import _paged_triton as triton_launches

        return triton_launches.plan_reshape_and_cache(arguments, (k_pages, v_pages))
    from .. import cuda

    defines = {"ELEMENT": ELEMENTS[k.dtype]}
    kernel = cuda.load("paged/01_reshape_and_cache.cu", "reshape_and_cache_kernel", defines=defines)
    return Launch("cuda", kernel, (k.shape[0],), _NUM_THREADS, arguments, {}, (k_pages, v_pages))


def plan_copy_pages(k_pages, v_pages, copies, *, language="cuda"):
    """The launch of 07_copy_pages, not yet run."""
    checks.require_language(language)
    if copies.ndim != 2 or copies.shape[1:] != (2,) or copies.dtype != torch.int64 or not len(copies):
        raise ShapeError(f"copies is {copies.dtype} {tuple(copies.shape)}; expected int64 (num_copies, 2), not empty.")
    for name, pages in (("k_pages", k_pages), ("v_pages", v_pages)):
        page_bytes, stride_bytes = (n * pages.element_size() for n in (pages[0].numel(), pages.stride(0)))
        if not pages[0].is_contiguous() or page_bytes % 16 or stride_bytes % 16 or pages.data_ptr() % 16:
            raise ShapeError(f"{name} has strides {pages.stride()}; pages are contiguous and whole words of 16 bytes.")
    if k_pages.shape != v_pages.shape or k_pages.stride() != v_pages.stride() or k_pages.dtype != v_pages.dtype:
        raise ShapeError("k_pages and v_pages differ in shape, strides or dtype.")
    element = ELEMENTS.get(k_pages.dtype) or _BYTES.get(k_pages.dtype)
    if element is None:
        raise ShapeError(f"k_pages is {k_pages.dtype}; pages hold float16, bfloat16, float8_e4m3fn or int8.")
    copies = copies.contiguous()
    if language == "triton":
        from . import _paged_triton as triton_launches

        return triton_launches.plan_copy_pages(k_pages, v_pages, copies)
    from .. import cuda

    kernel = cuda.load("paged/07_copy_pages.cu", "copy_pages_kernel", defines={"ELEMENT": element})
    arguments = (k_pages, v_pages, copies, page_bytes // 16, stride_bytes // 16)
    return Launch("cuda", kernel, (len(copies), 2), 256, arguments, {}, (k_pages, v_pages))


def _outputs(q):
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:2], dtype=torch.float32)


def places(tensor, blocks_per_sm=BLOCKS_PER_SM):
    """Blocks that the card of `tensor` holds at a time; on the CPU those of an H200, so that plans look the same."""
    num_sms = torch.cuda.get_device_properties(tensor.device).multi_processor_count if tensor.is_cuda else 132
    return num_sms * blocks_per_sm
