"""Launchers of the attention family: validate shapes, pick grid and block, call the CUDA kernels or their Triton twins.

May import: errors, cuda.steps, ops._foundation, torch. Grid and block are written here and nowhere else.
"""

import torch

from ..cuda.steps import names
from ..errors import UnsupportedError
from ._foundation.checks import positive_scale, require_attention, require_step, require_tensor
from ._foundation.launch import Launches, all_ran, cuda_launch, triton_launch
from ._foundation.sizes import ceil_div, power_of_two, row_bytes
from ._foundation.typed import typed

BLOCK = 128  # threads of a block
BLOCK_N = 64  # keys of a tile of the Triton twins that walk over keys
WARP = 32  # threads of a block of 04
VARIANTS = names("attention", without=("flash_attention_1",))
_WITH_LSE = ("04_fused_softmax_warp", "05_grouped_query")


def attention(q, k, v, *, softmax_scale=None, causal=False, variant="01_naive", language="cuda"):
    """Exact attention forward in float32.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, seq_len_q, head_dim), float32, contiguous
    k, v : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim), float32, contiguous; num_kv_heads divides num_heads
    softmax_scale : float, dimensionless; default ``head_dim**-0.5``
    causal : bool; bottom-right aligned. seq_len_q = 2, seq_len_kv = 5 keeps
        1 1 1 1 0
        1 1 1 1 1
    variant : "01_naive" (an operation a launch), "02_fused_softmax" and "04_fused_softmax_warp" (three launches),
        "03_row_in_block" (one launch, weights through global memory) or "05_grouped_query" (one launch, no such matrix)
    language : "cuda" or "triton"; 03_row_in_block has no Triton twin

    Returns
    -------
    out : tensor, shape of `q`, float32; zero for a fully masked row

    Raises
    ------
    ShapeError        a shape, dtype or layout that the family does not take
    UnsupportedError  no such variant or language; a mask or grouped heads in 03_row_in_block
    """
    launch = plan(q, k, v, softmax_scale=softmax_scale, causal=causal, variant=variant, language=language)
    launch.run()
    return launch.outputs[0]


def attention_lse(q, k, v, *, softmax_scale=None, causal=False, variant="05_grouped_query", language="cuda"):
    """`attention` and the log-sum-exp of its scaled scores; 04_fused_softmax_warp and 05_grouped_query only.

    Returns
    -------
    out : tensor, shape of `q`, float32; zero for a fully masked row
    lse : tensor, (batch_size, num_heads, seq_len_q), float32, natural log; -inf for a fully masked row
    """
    if variant not in _WITH_LSE:
        raise UnsupportedError(f"variant={variant!r} writes no lse; choose one of {', '.join(_WITH_LSE)}.")
    return all_ran(plan(q, k, v, softmax_scale=softmax_scale, causal=causal, variant=variant, language=language))


@typed
def plan(q, k, v, *, softmax_scale=None, causal=False, variant="01_naive", language="cuda"):
    """The launches that `attention` would make, with fresh outputs and intermediates, not yet run.

    Returns
    -------
    launches : Launches; ``launches.traffic()`` counts their bytes, ``launches.run()`` executes them
    """
    require_step("attention", variant, VARIANTS, language)
    sizes = _sizes(q, k, v)
    scale = positive_scale(q, softmax_scale)
    if variant == "03_row_in_block":
        return _row_in_block(q, k, v, sizes, scale, causal)
    if variant == "05_grouped_query":
        return _grouped_query(q, k, v, sizes, scale, causal, language)
    return _step_by_step(q, k, v, sizes, scale, causal, variant, language)


def _sizes(q, k, v):
    """(batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim) after every check."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        require_tensor(tensor, name, 4, torch.float32)
    require_attention(q, k, v)
    return q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3]


def _step_by_step(q, k, v, sizes, scale, causal, variant, language):
    """scores; scale, mask and softmax in one launch or in several; weighted sum."""
    batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim = sizes
    matrix, out = (batch_size, num_heads, seq_len_q, seq_len_kv), torch.empty_like(q)
    scores, probs = q.new_empty(matrix), q.new_empty(matrix)
    heads, grid_z = (num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim), batch_size * num_heads
    block_d = {"BLOCK_D": power_of_two(head_dim)}
    keys = BLOCK if language == "cuda" else BLOCK_N
    first = _launch(
        "01_naive", "scores", language, (seq_len_q, ceil_div(seq_len_kv, keys), grid_z), (q, k, scores, *heads),
        (scores,), constants={"BLOCK_N": BLOCK_N} | block_d,
    )  # fmt: skip
    last = _launch(
        "01_naive", "weighted_sum", language, (seq_len_q, 1, grid_z), (probs, v, out, *heads), (out,),
        constants={"BLOCK_N": BLOCK_N} | block_d,
    )  # fmt: skip
    middle, outputs = _middle(variant, language, scores, probs, scale, causal)
    return Launches((first, *middle, last), (out, *outputs))


def _middle(variant, language, scores, probs, scale, causal):
    """([launches from raw scores to weights], (lse,) or ())."""
    seq_len_q, seq_len_kv = scores.shape[2:]
    num_rows = scores.numel() // seq_len_kv
    row = {"constants": {"BLOCK_N": power_of_two(seq_len_kv)}, "shared_bytes": row_bytes(seq_len_kv)}
    if variant == "04_fused_softmax_warp":
        lse = scores.new_empty(scores.shape[:3])
        arguments = (scores, probs, lse, seq_len_q, seq_len_kv, scale, int(causal))
        grid = (seq_len_q, num_rows // seq_len_q)
        written = (probs, lse)
        return [_launch(variant, None, language, grid, arguments, written, constants={"BLOCK_N": BLOCK_N})], (lse,)
    if variant == "02_fused_softmax":
        arguments = (scores, probs, seq_len_q, seq_len_kv, scale, int(causal))
        return [_launch(variant, None, language, (num_rows,), arguments, (probs,), **row)], ()
    grid, count = (ceil_div(scores.numel(), BLOCK),), scores.numel()
    flat = {"constants": {"BLOCK": BLOCK}}
    launches = [_launch(variant, "scale", language, grid, (scores, count, scale), (), **flat)]
    if causal:
        arguments = (scores, count, seq_len_q, seq_len_kv)
        launches.append(_launch(variant, "mask", language, grid, arguments, (), **flat))
    launches.append(_launch(variant, "softmax", language, (num_rows,), (scores, probs, seq_len_kv), (probs,), **row))
    return launches, ()


def _row_in_block(q, k, v, sizes, scale, causal):
    batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim = sizes
    if causal or num_heads != num_kv_heads:
        raise UnsupportedError("03_row_in_block has neither a mask nor grouped heads; take 05_grouped_query.")
    out, probs = torch.empty_like(q), q.new_empty(batch_size, num_heads, seq_len_q, seq_len_kv)
    arguments = (q, k, v, probs, out, num_heads, seq_len_q, seq_len_kv, head_dim, scale)
    grid = (seq_len_q, num_heads, batch_size)
    return Launches((_launch("03_row_in_block", None, "cuda", grid, arguments, (probs, out)),), (out,))


def _grouped_query(q, k, v, sizes, scale, causal, language):
    batch_size, num_heads, _, seq_len_q, seq_len_kv, head_dim = sizes
    out, lse = torch.empty_like(q), q.new_empty(q.shape[:3])
    arguments = (q, k, v, out, lse, *sizes[1:], scale, int(causal))
    constants = {"BLOCK_N": power_of_two(seq_len_kv), "BLOCK_D": power_of_two(head_dim)}
    grid = (seq_len_q, num_heads, batch_size)
    launch = _launch(
        "05_grouped_query", None, language, grid, arguments, (out, lse), constants=constants,
        shared_bytes=row_bytes(seq_len_kv),
    )  # fmt: skip
    return Launches((launch,), (out, lse))


def _launch(variant, step, language, grid, arguments, outputs, *, constants=None, shared_bytes=0):
    """One launch of `variant`, of its `step` when it has several."""
    kernel, stem = f"{step}_kernel" if step else None, f"attention/{variant}"
    if language == "triton":
        return triton_launch(stem, grid, arguments, constants, outputs, kernel=kernel)
    block = WARP if variant == "04_fused_softmax_warp" else BLOCK
    return cuda_launch(
        stem, grid, block, arguments, outputs, kernel=kernel, defines={"BLOCK": BLOCK}, shared_bytes=shared_bytes
    )
