"""Launchers of decode attention over dense keys and values: validate, pick grid and splits, call either twin.

May import: errors, cuda.steps, ops._foundation, ops._decode_checks, ops._decode_triton.
"""

import math

from ..cuda.steps import names
from ..errors import UnsupportedError
from . import _decode_triton as triton_launches
from ._decode_checks import LAYOUTS as LAYOUTS
from ._decode_checks import require
from ._foundation.checks import positive_scale, require_step
from ._foundation.launch import Launches, all_ran, cuda_launch, ring_launch
from ._foundation.sizes import ELEMENTS, attention_outputs, ceil_div
from ._foundation.splits import MAX_SPLITS, choose_num_splits, scratch, slots
from ._foundation.typed import typed
from ._foundation.values import require_lengths

VARIANTS = names("decode")
BLOCKS_PER_SM = 8  # 02 and 03: blocks of a multiprocessor that together keep enough loads under way
GROUPED_BLOCKS_PER_SM = 1  # 04: one block keeps two tiles a warp under way, which is enough
GROUPED = {"TILE_KEYS": 16, "NUM_STAGES": 3, "NUM_WARPS": 4, "BLOCKS_PER_SM": 2}  # 04: the ring of each warp; two fit
DEPENDENT = {64: {"NUM_WARPS": 8}}  # 04 as a dependent, by head_dim: few blocks, which wait for each other's results
DEPENDENT_SPLITS = 8  # of a sequence at most, then: the merge of more takes longer than they save, up to 4,056 keys
_NUM_THREADS = 128


def decode_attention(
    q, k, v, seq_lens, *, layout="bhsd", softmax_scale=None, variant="04_grouped_heads", language="cuda",
    num_splits=None, max_seq_len=None, counters=None, dependent=False, validate=False,
):  # fmt: skip
    """Attention of one query a sequence over dense keys and values (decoding).

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, head_dim), float16 or bfloat16, head_dim 64 or 128; rows contiguous
    k, v : tensors like `q`, "bhsd": (batch_size, num_kv_heads, capacity, head_dim), or "bshd"; same strides, rows whole
    seq_lens : tensor, (batch_size,), int32: valid tokens of each sequence, 0 to capacity
    softmax_scale : float above 0, dimensionless; default ``head_dim**-0.5``
    variant : one of VARIANTS
    num_splits : int or None, blocks a sequence; default `choose_num_splits`, of a dependent at most 8. 01 has no splits
    max_seq_len : int or None, not below any of `seq_lens`; default capacity. A tight one saves idle blocks
    counters : tensor, (batch_size, num_kv_heads), int32, contiguous, zeros before and after, for 04 in CUDA; launches
        that share it run one after the other. None: a new one, filled by a launch of its own
    dependent : bool; 04 in CUDA reads `seq_lens` and copies keys and values, but the last 8 of each sequence, while the
        kernel in front still runs (compute capability 9.0); none that is in flight then may write those
    validate : bool; check `seq_lens` on a GPU too, which waits for it; on the CPU they are checked always

    Returns
    -------
    out, lse : tensors, like `q`, contiguous, and (batch_size, num_heads), float32, natural log; without tokens 0, -inf

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit each other; a length outside 0 .. capacity
    UnsupportedError  no such variant, layout or language; a head_dim, group or GPU that the kernels do not take

    Notes
    -----
    Cost      bytes: 2 * sum(seq_lens) * num_kv_heads * head_dim * 2, read once by 04, num_heads / num_kv_heads times by
              01 to 03; 8 * head_dim bytes a split and head for the parts, of 02 to 04
    Numerics  scores, m, l and sums in float32; 04 rounds the weights to the dtype of `q` before the second product
    NaN       in what is read comes out where torch gives it, in lse too; rows at or past seq_lens are not read.
              Where an infinity is read, NaN may stand for what torch gives
    """
    options = {"layout": layout, "softmax_scale": softmax_scale, "variant": variant, "language": language}
    options |= {"num_splits": num_splits, "max_seq_len": max_seq_len, "counters": counters}
    options |= {"dependent": dependent, "validate": validate}
    return all_ran(plan(q, k, v, seq_lens, **options))


@typed
def plan(
    q, k, v, seq_lens, *, layout="bhsd", softmax_scale=None, variant="04_grouped_heads", language="cuda",
    num_splits=None, max_seq_len=None, counters=None, dependent=False, validate=False,
):  # fmt: skip
    """The launch or launches that `decode_attention` would make, with fresh outputs (out, lse), not yet run.

    A Triton twin: `_decode_triton.plan(inputs, num_kv_heads, strides, scale, variant, longest, num_splits)` with inputs
    (q, k, v, seq_lens); strides of q (batch, head), then of k and v (batch, token, head); the scale for exp; `longest`
    at least 1; `num_splits` None or the number that was asked for.
    """
    require_step("decode", variant, VARIANTS, language)
    strides, num_kv_heads, capacity = require(q, k, v, seq_lens, layout)
    require_lengths(seq_lens, capacity, max_seq_len, validate)
    scale = positive_scale(q, softmax_scale)
    if num_splits is not None and not 1 <= num_splits <= MAX_SPLITS:
        raise UnsupportedError(f"num_splits={num_splits}; these kernels take 1 to {MAX_SPLITS}.")
    longest = max(1, capacity if max_seq_len is None else min(capacity, int(max_seq_len)))
    inputs = (q, k, v, seq_lens)
    if language == "triton":
        return triton_launches.plan(inputs, num_kv_heads, strides, scale, variant, longest, num_splits)
    if variant == "04_grouped_heads":
        return _plan_grouped(inputs, num_kv_heads, strides, scale, longest, num_splits, counters, dependent)
    return _plan_by_head(inputs, num_kv_heads, strides, scale, variant, longest, num_splits)


def _plan_by_head(inputs, num_kv_heads, strides, scale, variant, longest, num_splits):
    """01 to 03: a block a query head, or a split of one."""
    q = inputs[0]
    batch_size, num_heads, head_dim = q.shape
    stem, defines = f"decode/{variant}", {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype]}
    out, lse = attention_outputs(q)
    group = num_heads // num_kv_heads
    if variant == "01_single_pass":
        arguments = (*inputs, out, lse, group, *strides, scale)
        return cuda_launch(stem, (num_heads, batch_size), _NUM_THREADS, arguments, (out, lse), defines=defines)
    num_splits = num_splits or choose_num_splits(batch_size * num_heads, longest, slots(q, BLOCKS_PER_SM))
    split_len, grid = ceil_div(longest, num_splits), (num_heads, num_splits, batch_size)
    *parts, counters = scratch(q, num_heads, num_splits)
    if variant == "03_fused_combine":
        arguments = (*inputs, out, lse, *parts, counters, group, split_len, *strides, scale)
        return cuda_launch(stem, grid, _NUM_THREADS, arguments, (out, lse), defines=defines)
    split, combine = ({"kernel": name, "defines": defines} for name in ("split_kv_kernel", "combine_kernel"))
    arguments = (*inputs, *parts, group, split_len, *strides, scale)
    first = cuda_launch(stem, grid, _NUM_THREADS, arguments, tuple(parts), **split)
    arguments = (*parts, out, lse, num_splits)
    last = cuda_launch(stem, (num_heads, batch_size), head_dim, arguments, (out, lse), **combine)
    return Launches((first, last), (out, lse))


def _plan_grouped(inputs, num_kv_heads, strides, scale, longest, num_splits, counters, dependent):
    """04."""
    q = inputs[0]
    batch_size, num_heads, head_dim = q.shape
    shape = GROUPED | ({"DEPENDENT": 1} | DEPENDENT.get(head_dim, {}) if dependent else {})
    if num_splits is None:
        num_splits = choose_num_splits(batch_size * num_kv_heads, longest, slots(q, GROUPED_BLOCKS_PER_SM))
        num_splits = min(num_splits, DEPENDENT_SPLITS) if dependent else num_splits
    defines = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype], "NUM_Q_PER_KV": num_heads // num_kv_heads}
    out, lse = attention_outputs(q)
    arguments = (
        *inputs, out, lse, *scratch(q, num_kv_heads, num_splits, counters), num_kv_heads, num_splits,
        ceil_div(longest, num_splits), *strides, scale * math.log2(math.e),
    )  # fmt: skip
    options = {"shape": shape, "defines": defines, "tile_bytes": 4 * shape["TILE_KEYS"] * head_dim}
    return ring_launch(
        "decode/04_grouped_heads", batch_size * num_splits * num_kv_heads, arguments, (out, lse), **options
    )
