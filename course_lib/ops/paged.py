"""Launchers of attention over pages: validate, pick grid, splits and shared memory, call either twin.

May import: device, cuda.steps, ops._foundation, ops._paged_checks, ops._paged_triton, ops._paged_writes.
"""

import math

from .. import device
from ..cuda.steps import names
from ..errors import UnsupportedError
from . import _paged_triton as triton_launches
from ._foundation.checks import positive_scale, require_step
from ._foundation.launch import Launches, all_ran, cuda_launch, ring_launch
from ._foundation.sizes import ELEMENTS, attention_outputs, ceil_div
from ._foundation.splits import choose_split_len, partials, scratch, slots
from ._foundation.typed import typed
from ._foundation.values import require_lengths, require_pages
from ._paged_checks import require_decode
from ._paged_writes import copy_pages, plan_copy_pages, plan_reshape_and_cache, reshape_and_cache

__all__ = [
    "DECODE_VARIANTS",
    "copy_pages",
    "paged_attention",
    "plan",
    "plan_copy_pages",
    "plan_reshape_and_cache",
    "reshape_and_cache",
]

DECODE_VARIANTS = names("paged", only="_paged_", without=("prefill",))
PARTITION_LEN = 512  # 03: keys of a partition
NUM_WARPS, NUM_STAGES, TILE_KEYS = 6, 2, 16  # 04: the ring of each warp
MIN_SPLIT_LEN = 256  # 04: keys below which a block is not worth its merge
BLOCKS_PER_SM = 2
NARROW = {"NUM_WARPS": 3, "BLOCKS_PER_SM": 4}  # 04 and 06 with more pairs than slots: 512 are one round on 528
ONE_WARP = {"NUM_WARPS": 1, "BLOCKS_PER_SM": 12}  # with more than those too, and SHORT sequences: 1024 on 1584
SHORT = 2048
FIXED_SPLIT_LEN = 1024  # 04 where bits must not depend on the batch; its shape is NARROW or WIDE_GROUP then
WIDE_GROUP = {"NUM_WARPS": 4, "NUM_STAGES": 3}  # of more than 8 query heads: twice the accumulators, so fewer threads
WAVES = 1  # 04: blocks for each slot of the card; the fastest of 1, 2, 4, 8 on an H200: a block's start costs 2 us
_NUM_THREADS = 128


def paged_attention(
    q, k_pages, v_pages, block_table, seq_lens, *, layout="NHD", softmax_scale=None, variant="04_paged_grouped",
    language="cuda", max_seq_len=None, counters=None, deterministic=False, validate=False,
):  # fmt: skip
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
    counters : tensor, (batch_size, num_kv_heads), int32, contiguous, zeros before and after, for 04; None: a new one
    deterministic : bool; 04 in CUDA alone: a sequence's bits depend neither on the batch nor on max_seq_len
    validate : bool; check the values of both on a GPU too, which waits for it; on the CPU always

    Returns
    -------
    out, lse : tensors, like `q`, contiguous, and (batch_size, num_heads), float32, natural log; without tokens 0, -inf

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit each other; a length or a page that does not exist
    UnsupportedError  no such variant, layout or language; a head_dim, group or GPU that the kernels do not take

    Notes
    -----
    Cost      bytes: 2 * sum(seq_lens) * num_kv_heads * head_dim * 2, read once by 04, a time a head by 02 and 03
    Numerics  scores, m, l and sums in float32; 04 rounds the weights to the dtype of `q` before the second product
    NaN       in what is read comes out where torch gives it, in lse too; what is at or past seq_lens is not read.
              Where an infinity is read, NaN may stand for what torch gives
    """
    options = {"layout": layout, "softmax_scale": softmax_scale, "variant": variant, "language": language}
    options |= {"max_seq_len": max_seq_len, "counters": counters, "deterministic": deterministic, "validate": validate}
    return all_ran(plan(q, k_pages, v_pages, block_table, seq_lens, **options))


@typed
def plan(
    q, k_pages, v_pages, block_table, seq_lens, *, layout="NHD", softmax_scale=None, variant="04_paged_grouped",
    language="cuda", max_seq_len=None, split_len=None, counters=None, deterministic=False, validate=False,
):  # fmt: skip
    """The launch or launches that `paged_attention` would make, with fresh outputs (out, lse), not yet run.

    Parameters
    ----------
    split_len : int or None; keys of a partition of 03, of a block of 04
    """
    require_step("paged", variant, DECODE_VARIANTS, language)
    if deterministic and (variant, language) != ("04_paged_grouped", "cuda"):
        raise UnsupportedError(
            f'deterministic: 04_paged_grouped in "cuda" alone has it, not {variant} in "{language}".'
        )
    strides, page_size, num_kv_heads = require_decode(q, k_pages, v_pages, block_table, seq_lens, layout)
    scale = positive_scale(q, softmax_scale)
    longest = block_table.shape[1] * page_size
    require_lengths(seq_lens, longest, max_seq_len, validate, most_name="max_pages * page_size")
    require_pages(block_table, seq_lens, page_size, len(k_pages), validate)
    longest = max(1, longest if max_seq_len is None else min(longest, int(max_seq_len)))
    inputs = (q, k_pages, v_pages, block_table, seq_lens)
    sizes = (page_size, block_table.shape[1])
    all_strides = (*q.stride()[:2], *strides)
    if language == "triton":
        return triton_launches.plan(inputs, num_kv_heads, sizes, all_strides, scale, variant, longest, split_len)
    if variant == "04_paged_grouped":
        fixed = None
        if deterministic:
            split_len, fixed = FIXED_SPLIT_LEN, WIDE_GROUP if q.shape[1] // num_kv_heads > 8 else NARROW
            fixed = {"NUM_STAGES": NUM_STAGES} | fixed
        return _plan_grouped(inputs, num_kv_heads, sizes, all_strides, scale, longest, split_len, fixed, counters)
    return _plan_by_head(inputs, num_kv_heads, sizes, all_strides, scale, variant, longest, split_len)


def _plan_by_head(inputs, num_kv_heads, sizes, strides, scale, variant, longest, split_len):
    """02 and 03: a block a query head, or a partition of one."""
    q, seq_lens = inputs[0], inputs[4]
    batch_size, num_heads, head_dim = q.shape
    stem, defines = f"paged/{variant}", {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype]}
    out, lse = attention_outputs(q)
    group = num_heads // num_kv_heads
    if variant == "02_paged_v1":
        arguments = (*inputs, out, lse, group, *sizes, *strides, scale)
        return cuda_launch(stem, (num_heads, batch_size), _NUM_THREADS, arguments, (out, lse), defines=defines)
    split_len = split_len or PARTITION_LEN
    num_partitions = ceil_div(longest, split_len)
    parts, grid = partials(q, num_partitions), (num_heads, num_partitions, batch_size)
    partition, reduce = ({"kernel": name, "defines": defines} for name in ("paged_v2_kernel", "reduce_kernel"))
    arguments = (*inputs, *parts, group, *sizes, split_len, *strides, scale)
    first = cuda_launch(stem, grid, _NUM_THREADS, arguments, parts, **partition)
    arguments = (*parts, seq_lens, out, lse, num_partitions, split_len)
    last = cuda_launch(stem, (num_heads, batch_size), head_dim, arguments, (out, lse), **reduce)
    return Launches((first, last), (out, lse))


def _plan_grouped(inputs, num_kv_heads, sizes, strides, scale, longest, split_len, tuning=None, counters=None):
    """04; `tuning` replaces macros of the kernel."""
    q = inputs[0]
    batch_size, num_heads, head_dim = q.shape
    group = num_heads // num_kv_heads
    shape = {"TILE_KEYS": TILE_KEYS} | choose_shape(q, num_kv_heads, longest, 4 * TILE_KEYS * head_dim) | (tuning or {})
    if split_len is None:
        num_slots = slots(q, shape["BLOCKS_PER_SM"])
        split_len = choose_split_len(len(q) * num_kv_heads, longest, num_slots, WAVES, min_split_len=MIN_SPLIT_LEN)
    num_splits = ceil_div(longest, split_len)
    defines = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype], "NUM_Q_PER_KV": group}
    out, lse = attention_outputs(q)
    arguments = (
        *inputs, out, lse, *scratch(q, num_kv_heads, num_splits, counters), num_kv_heads, *sizes, num_splits, split_len,
        *strides, scale * math.log2(math.e),
    )  # fmt: skip
    options = {"shape": shape, "defines": defines, "tile_bytes": 4 * shape["TILE_KEYS"] * head_dim}
    return ring_launch(
        "paged/04_paged_grouped", batch_size * num_splits * num_kv_heads, arguments, (out, lse), **options
    )


def choose_shape(q, num_kv_heads, longest, tile_bytes):
    """Macros of 04 and 06: warps of a block, tiles in the ring of a warp, blocks of an SM. Tried on an H200.

    The rings of an SM stay the same; what differs is how many pairs of a sequence and a head are read at a time.
    """
    shape = {"NUM_STAGES": NUM_STAGES, "NUM_WARPS": NUM_WARPS, "BLOCKS_PER_SM": BLOCKS_PER_SM}
    num_pairs = len(q) * num_kv_heads
    if q.shape[1] // num_kv_heads > 8:
        shape |= WIDE_GROUP
    elif num_pairs > slots(q, BLOCKS_PER_SM):
        fits = slots(q, NARROW["BLOCKS_PER_SM"]) < num_pairs <= slots(q, ONE_WARP["BLOCKS_PER_SM"])
        shape |= ONE_WARP if fits and longest <= SHORT else NARROW
    rings = shape["NUM_WARPS"] * shape["NUM_STAGES"] * tile_bytes
    if q.is_cuda and rings + 1024 > device.current().shared_bytes_per_block:  # a card with 99 KiB
        shape["NUM_WARPS"] = 3
    return shape
