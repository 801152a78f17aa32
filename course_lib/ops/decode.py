"""Launchers of decode attention over dense keys and values: validate, pick grid and splits, call either twin.

May import: errors, ops._decode_checks, ops._paged_checks, ops.paged (what both families share), ops.softmax and
ops.first_kernels (the launches), cuda, triton_kernels, torch.
"""

import math

import torch

from ..errors import UnsupportedError
from ._decode_checks import LAYOUTS as LAYOUTS
from ._decode_checks import require
from ._paged_checks import ELEMENTS
from .first_kernels import Launches
from .paged import places, scratch
from .softmax import Launch

VARIANTS = ("01_single_pass", "02_split_kv", "03_fused_combine", "04_grouped_heads")
MIN_SPLIT_LEN = 128  # keys below which a block is not worth its merge
MAX_SPLITS = 1024
BLOCKS_PER_SM = 8  # 02 and 03: blocks of a multiprocessor that together keep enough loads under way
GROUPED_BLOCKS_PER_SM = 1  # 04: one block keeps two tiles a warp under way, which is enough
GROUPED = {"TILE_KEYS": 16, "NUM_STAGES": 3, "NUM_WARPS": 4, "BLOCKS_PER_SM": 2}  # 04: the ring of each warp; two fit
_NUM_THREADS = 128
_ENTRIES = {
    "01_single_pass": "single_pass_kernel",
    "02_split_kv": "split_kv_kernel",
    "03_fused_combine": "fused_combine_kernel",
}


def decode_attention(
    q,
    k,
    v,
    seq_lens,
    *,
    layout="bhsd",
    softmax_scale=None,
    variant="04_grouped_heads",
    language="cuda",
    num_splits=None,
    max_seq_len=None,
):
    """Attention of one query a sequence over dense keys and values (decoding).

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, head_dim), float16 or bfloat16, head_dim 64 or 128; rows contiguous
    k, v : tensors, layout "bhsd": (batch_size, num_kv_heads, capacity, head_dim),
        "bshd": (batch_size, capacity, num_kv_heads, head_dim); dtype of `q`, both with the same strides, rows whole
    seq_lens : tensor, (batch_size,), int32: valid tokens of each sequence, 0 to capacity
    softmax_scale : float above 0, dimensionless; default ``head_dim**-0.5``
    variant : one of VARIANTS
    num_splits : int or None, blocks that share the keys of a sequence; default `choose_num_splits`. 01 has no splits
    max_seq_len : int or None, not below any of `seq_lens`; default capacity. A tight one saves idle blocks

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
              (from L2 where it lasts) by 01 to 03; 8 * head_dim bytes a split and head for the parts, of 02 to 04
    Numerics  scores, m, l and sums in float32; 04 rounds the weights to the dtype of `q` before the second product
    Reads     nothing behind seq_lens: other rows may hold anything
    """
    options = {"layout": layout, "softmax_scale": softmax_scale, "variant": variant, "language": language}
    launch = plan(q, k, v, seq_lens, num_splits=num_splits, max_seq_len=max_seq_len, **options)
    launch.run()
    return launch.outputs


def plan(
    q,
    k,
    v,
    seq_lens,
    *,
    layout="bhsd",
    softmax_scale=None,
    variant="04_grouped_heads",
    language="cuda",
    num_splits=None,
    max_seq_len=None,
):
    """The launch or launches that `decode_attention` would make, with fresh outputs (out, lse), not yet run.

    A Triton twin: `_decode_triton.plan(inputs, num_kv_heads, strides, scale, variant, longest, num_splits)` with inputs
    (q, k, v, seq_lens); strides of q (batch, head), then of k and v (batch, token, head); the scale for exp; `longest`
    at least 1; `num_splits` None or the number that was asked for.
    """
    if variant not in VARIANTS:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(VARIANTS)}.")
    if language not in ("cuda", "triton"):
        raise UnsupportedError(f'language={language!r} is unknown; choose "cuda" or "triton".')
    strides, num_kv_heads, capacity = require(q, k, v, seq_lens, layout)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    if not (math.isfinite(scale) and scale > 0.0):
        raise UnsupportedError(f"softmax_scale={softmax_scale}; these kernels take a finite number above 0.")
    if num_splits is not None and not 1 <= num_splits <= MAX_SPLITS:
        raise UnsupportedError(f"num_splits={num_splits}; these kernels take 1 to {MAX_SPLITS}.")
    longest = max(1, capacity if max_seq_len is None else min(capacity, int(max_seq_len)))
    inputs = (q, k, v, seq_lens)
    if language == "triton":
        from . import _decode_triton as triton_launches

        return triton_launches.plan(inputs, num_kv_heads, strides, scale, variant, longest, num_splits)
    if variant == "04_grouped_heads":
        return _plan_grouped(inputs, num_kv_heads, strides, scale, longest, num_splits)
    return _plan_by_head(inputs, num_kv_heads, strides, scale, variant, longest, num_splits)


def _plan_by_head(inputs, num_kv_heads, strides, scale, variant, longest, num_splits):
    """01 to 03: a block a query head, or a split of one."""
    from .. import cuda

    q = inputs[0]
    batch_size, num_heads, head_dim = q.shape
    defines = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype]}
    kernel = cuda.load(f"decode/{variant}.cu", _ENTRIES[variant], defines=defines)
    out, lse = _outputs(q)
    group = num_heads // num_kv_heads
    if variant == "01_single_pass":
        arguments = (*inputs, out, lse, group, *strides, scale)
        return Launch("cuda", kernel, (num_heads, batch_size), _NUM_THREADS, arguments, {}, (out, lse))
    num_splits = num_splits or choose_num_splits(batch_size * num_heads, longest, places(q, BLOCKS_PER_SM))
    split_len, grid = -(-longest // num_splits), (num_heads, num_splits, batch_size)
    *parts, counters = scratch(q, num_heads, num_splits)
    if variant == "03_fused_combine":
        arguments = (*inputs, out, lse, *parts, counters, group, split_len, *strides, scale)
        return Launch("cuda", kernel, grid, _NUM_THREADS, arguments, {}, (out, lse))
    arguments = (*inputs, *parts, group, split_len, *strides, scale)
    first = Launch("cuda", kernel, grid, _NUM_THREADS, arguments, {}, tuple(parts))
    combine = cuda.load(f"decode/{variant}.cu", "combine_kernel", defines=defines)
    arguments = (*parts, out, lse, num_splits)
    last = Launch("cuda", combine, (num_heads, batch_size), head_dim, arguments, {}, (out, lse))
    return Launches((first, last), (out, lse))


def _plan_grouped(inputs, num_kv_heads, strides, scale, longest, num_splits, tuning=None):
    """04; `tuning` replaces macros of the kernel."""
    from .. import cuda

    q = inputs[0]
    batch_size, num_heads, head_dim = q.shape
    shape = GROUPED | (tuning or {})
    if num_splits is None:
        num_splits = choose_num_splits(batch_size * num_kv_heads, longest, places(q, GROUPED_BLOCKS_PER_SM))
    defines = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype], "NUM_Q_PER_KV": num_heads // num_kv_heads} | shape
    kernel = cuda.load("decode/04_grouped_heads.cu", "grouped_heads_kernel", defines=defines)
    out, lse = _outputs(q)
    arguments = (
        *inputs, out, lse, *scratch(q, num_kv_heads, num_splits), num_kv_heads, num_splits, -(-longest // num_splits),
        *strides, scale * math.log2(math.e),
    )  # fmt: skip
    shared_bytes = shape["NUM_WARPS"] * shape["NUM_STAGES"] * 4 * shape["TILE_KEYS"] * head_dim
    grid = (batch_size * num_splits * num_kv_heads,)
    return Launch("cuda", kernel, grid, 32 * shape["NUM_WARPS"], arguments, {}, (out, lse), shared_bytes)


def choose_num_splits(num_pairs, longest, num_places):
    """Blocks that share the keys of a sequence: as many as still start at once, but no block too short.

    Parameters
    ----------
    num_pairs : int, blocks without a split: batch_size * num_kv_heads, of 02 and 03 batch_size * num_heads
    longest : int, tokens of the longest sequence
    num_places : int, blocks that keep the memory of the card busy: multiprocessors times GROUPED_BLOCKS_PER_SM of 04,
        times BLOCKS_PER_SM of 02 and 03

    Returns
    -------
    int, 1 to MAX_SPLITS; a split has ceil(longest / num_splits) keys
    """
    one_wave = num_places // num_pairs  # as many splits as still start at once
    worth_it = -(-longest // MIN_SPLIT_LEN)  # as many as have MIN_SPLIT_LEN keys each
    return max(1, min(one_wave, worth_it, MAX_SPLITS))


def _outputs(q):
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:2], dtype=torch.float32)
