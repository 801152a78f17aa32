"""Launchers of FlashAttention-3 forward, step by step: validate, make tensor maps, pick grid, tiles and shared memory.

May import: errors, cuda, cuda.steps, device, ops._foundation, torch.
"""

import math
from functools import cache

import torch

from ... import device
from ...cuda.steps import names
from ...errors import CourseError, ShapeError, UnsupportedError
from .._foundation.checks import positive_scale, require_attention, require_half, require_hopper, require_step
from .._foundation.launch import all_ran, cuda_launch, is_hopper
from .._foundation.plans import lasting, planned
from .._foundation.sizes import CHUNK, ELEMENTS, attention_outputs, ceil_div, heads_in_turns, steps_of
from .._foundation.typed import typed

FAMILY = "flash_attention_3"
VARIANTS = names(FAMILY, without=("fp8",))
FASTEST, FASTEST_SHORT = "07_persistent", "02_tma_ring"
SHORT_ROWS = 1024  # query rows up to which, at head_dim 64 under a causal mask, the tiles of 07 are mostly masked
BLOCK_N = {"01_wgmma": 64, "02_tma_ring": 64}  # keys of a tile; 128 in the other steps
NUM_STAGES, Q_STAGES = 2, 2
STAGES_PERSISTENT = {64: 4, 128: 2}  # head_dim -> stages of K and of V in 07
WARPGROUP_ROWS, PANEL_COLS = 64, 64  # rows of a wgmma; columns of 16 bits in the 128 bytes of the swizzle
L2_BYTES = 50 << 20  # of an H100, where the device in hand does not say


@typed
def flash_attention_3(q, k, v, *, causal=False, softmax_scale=None, variant=None, language="cuda"):
    """Exact attention forward on Hopper's own instructions, one launch.

    The products are asynchronous wgmmas of whole warpgroups; from 02 on TMA brings the tiles, from 03 on a producer
    warpgroup runs it, from 04 on the softmax of one tile runs under the products of two.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, seq_len_q, head_dim), half or bfloat16, head_dim 64 or 128; any strides of
        batch, head and row that are multiples of 16 bytes; rows contiguous
    k, v : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim), dtype of `q`; num_kv_heads divides num_heads
    causal : bool; bottom-right aligned. seq_len_q=2, seq_len_kv=5 keeps
        1 1 1 1 0
        1 1 1 1 1
    softmax_scale : float above 0, dimensionless; default ``head_dim**-0.5``
    variant : one of VARIANTS; None: `fastest` of them for these shapes
    language : "cuda"; no step has a Triton twin

    Returns
    -------
    out : tensor, shape and dtype of `q`, contiguous; zero for a fully masked row
    lse : tensor, (batch_size, num_heads, seq_len_q), float32, natural log; -inf for a fully masked row

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit the step or each other
    UnsupportedError  no such variant; a head_dim or scale that the step does not take; a GPU that is not a Hopper

    Notes
    -----
    Cost      4 * B * H * Nq * Nkv * D FLOP in the two products, half of it when causal and Nq == Nkv
    Numerics  scores, m, l and acc in float32; the weights rounded to the dtype of `q` before the second product

    Source: J. Shah et al., "FlashAttention-3", 2024, algorithms 1 and 2, arXiv:2407.08608
    """
    return all_ran(plan(q, k, v, causal=causal, softmax_scale=softmax_scale, variant=variant, language=language))


@planned
def plan(
    q, k, v, *, causal=False, softmax_scale=None, variant=None, language="cuda", block_n=None, heads_together=None,
    num_blocks=None,
):  # fmt: skip
    """The launch that `flash_attention_3` would make, with fresh outputs (out, lse), not yet run.

    Parameters
    ----------
    block_n : int or None; keys of a tile, a multiple of 16
    heads_together : int or None; heads whose tiles are taken side by side, from 06 on
    num_blocks : int or None; blocks of 07; None: one a multiprocessor, two on the SIMT machine

    Returns
    -------
    launch : Launch; ``launch.traffic()`` counts its bytes, ``launch.run()`` executes it
    """
    require_attention(q, k, v)
    variant = fastest(q, causal) if variant is None else variant
    require_step(FAMILY, variant, VARIANTS, language)
    _require_hopper_rows(q, k, v)
    scale_log2 = positive_scale(q, softmax_scale) * math.log2(math.e)
    step, block_m = VARIANTS.index(variant) + 1, _block_m(variant, q.shape[3])
    block_n = block_n or BLOCK_N.get(variant, 128)
    out, lse = attention_outputs(q)
    sizes = (q.shape[1], q.shape[1] // k.shape[1], q.shape[2], k.shape[2])
    if step == 1:
        sizes += tuple(stride for x in (q, k, v) for stride in steps_of(x))
    if step >= 6:
        sizes += (heads_together or _heads_together(q, k, causal),)
    num_tiles = ceil_div(q.shape[2], block_m) * q.shape[0] * q.shape[1]
    blocks = min(num_tiles, num_blocks or _num_slots(q)) if step >= 7 else num_tiles
    tensors = _tensors(step, q, k, v, out, lse, block_m, block_n)
    return cuda_launch(
        f"{FAMILY}/{variant}", (blocks,), _num_threads(step, block_m), (*tensors, *sizes, scale_log2, int(causal)),
        (out, lse), defines={"HEAD_DIM": q.shape[3], "ELEMENT": ELEMENTS[q.dtype], "BLOCK_N": block_n},
        shared_bytes=_shared_bytes(step, q, block_m, block_n),
    )  # fmt: skip


def fastest(q, causal):
    """The step that was measured as the fastest for such a q: 07, but 02 for few rows of 64 under a causal mask.

    Of 1,024 by 1,024 scores, tiles of 192 by 128 compute 1.50 times the visible ones, tiles of 64 by 64 1.06 times.
    """
    short = causal and q.shape[3] == 64 and q.shape[2] <= SHORT_ROWS
    return FASTEST_SHORT if short else FASTEST


def _tensors(step, q, k, v, out, lse, block_m, block_n):
    """A step's arguments before the sizes: pointers, then tensor maps, then counters as well."""
    if step == 1:
        return q, k, v, out, lse
    if step < 6:
        return *_tensor_maps(q, k, v, None, block_m, block_n), out, lse
    maps = _tensor_maps(q, k, v, out, block_m, block_n)
    return (*maps, lse) if step < 7 else (*maps, lse, _counters(q), q.shape[0] * q.shape[1])


def runs_on(q, k, v):
    """Whether the fastest step takes these tensors where they are: on a Hopper GPU, with rows that TMA takes."""
    if not is_hopper(q):
        return False
    try:
        _require_hopper_rows(q, k, v)
    except CourseError:
        return False
    return True


def _block_m(variant, head_dim):
    """Query rows of a block: one warpgroup's in 01 and 02, then two consumers' or, at head_dim 64, three."""
    if variant in BLOCK_N:
        return WARPGROUP_ROWS
    return 192 if head_dim == 64 else 128


def _num_threads(step, block_m):
    """Threads of a block: a warpgroup for 64 rows, from 03 on one more that loads."""
    return 128 * (block_m // WARPGROUP_ROWS + (step >= 3))


def _shared_bytes(step, q, block_m, block_n):
    """Dynamic shared memory: Q and the stages of K and V; in 07 stages of Q too, and a tile of out."""
    row_bytes = q.shape[3] * q.element_size()
    stages = 1 if step == 1 else NUM_STAGES
    if step >= 7:
        stages = STAGES_PERSISTENT[q.shape[3]]
    return (block_m * (Q_STAGES + 1 if step >= 7 else 1) + 2 * stages * block_n) * row_bytes


def _tensor_maps(q, k, v, out, block_m, block_n):
    """Maps with boxes of 64 columns, the swizzle's 128 bytes; out, where it is given, by 64 rows."""
    from ...cuda import tensor_map

    boxes = [(q, block_m), (k, block_n), (v, block_n)] + ([(out, WARPGROUP_ROWS)] if out is not None else [])
    return tuple(tensor_map(tensor, box=(1, 1, rows, PANEL_COLS), swizzle="128B") for tensor, rows in boxes)


def _counters(q):
    """Two zeros for the persistent kernel, which leaves zeros: a pair a stream, whose launches follow each other."""
    if not q.is_cuda:
        return torch.zeros(2, dtype=torch.int32)
    return _stream_counters(q.device, torch.cuda.current_stream(q.device).cuda_stream)


@cache
def _stream_counters(on_device, _stream):
    return lasting(torch.zeros(2, dtype=torch.int32, device=on_device))


def _num_slots(q):
    """Blocks of the persistent grid: one a multiprocessor; on the SIMT machine two, so that each takes tiles."""
    return torch.cuda.get_device_properties(q.device).multi_processor_count if q.is_cuda else 2


def _heads_together(q, k, causal):
    """Heads whose tiles are taken side by side: under a causal mask as many as L2 holds half of their K and V, in turns
    of equal size; without a mask one, whose tiles share K and V best. As in FlashAttention-2's last step."""
    if not causal:
        return 1
    return heads_in_turns(q, k, (device.current().l2_bytes or L2_BYTES) // 2)


def _require_hopper_rows(q, k, v):
    """What every step asks of device, dtype, head_dim and layout."""
    require_half(q, "these kernels")
    require_hopper(q, "flash_attention_2 runs on cards of 8.0 and newer; flash_attention_3")
    if math.prod(q.shape[:3]) >= 2**31:
        raise UnsupportedError(f"q has {math.prod(q.shape[:3])} rows in all; these kernels number them with 31 bits.")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.stride(3) != 1 or not _aligned(tensor):
            raise ShapeError(
                f"{name} has the strides {tensor.stride()} and starts {tensor.data_ptr() % 16} bytes past a multiple "
                f"of 16; TMA takes contiguous rows that start at such multiples: strides of {CHUNK} elements, none 0."
            )


def _aligned(tensor):
    """Whether every row starts at a multiple of 16 bytes of its own: TMA takes no expanded dimension."""
    strides = steps_of(tensor, single=CHUNK)
    return tensor.data_ptr() % 16 == 0 and all(stride > 0 and stride % CHUNK == 0 for stride in strides)
