"""Launchers of kernels_cu/decode_exercises, the kernels that the learner of chapter 09 writes.

May import: errors, cuda, torch, the Launch of the softmax family. Grid and block are written here and nowhere else.
"""

import torch

from ..errors import ShapeError
from ._foundation.launch import Launch

WARP = 32
COMBINE_THREADS = 64
HEAD_DIMS = {"01_split": 64, "02_combine": 128}
VARIANTS = tuple(HEAD_DIMS)


def plan_split(q, k, v, *, seq_len_kv, split_len, softmax_scale=None):
    """The launch of 01_split, not yet run.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, 64), float16, contiguous
    k, v : tensor, (batch_size, num_kv_heads, capacity, 64), float16, contiguous
    seq_len_kv : int, valid keys of every sequence, 1 to capacity
    split_len : int, keys of a split, at least 1
    softmax_scale : float, dimensionless; default ``head_dim**-0.5``

    Returns
    -------
    launch : Launch; its outputs are partial_out (num_splits, batch_size, num_heads, 64) and partial_lse (num_splits,
        batch_size, num_heads), float32, natural log

    Raises
    ------
    ShapeError  shapes that do not fit, or a length that is out of range
    """
    head_dim = HEAD_DIMS["01_split"]
    _require_fit(q, k, v, seq_len_kv, split_len)
    batch_size, num_heads, _ = q.shape
    num_kv_heads, capacity = k.shape[1:3]
    num_splits = -(-seq_len_kv // split_len)
    rows = (num_splits, batch_size, num_heads)
    outputs = (q.new_empty(*rows, head_dim, dtype=torch.float32), q.new_empty(rows, dtype=torch.float32))
    scale = head_dim**-0.5 if softmax_scale is None else softmax_scale
    arguments = (q, k, v, *outputs, num_heads // num_kv_heads, seq_len_kv, capacity, split_len, scale)
    return Launch("cuda", _kernel("01_split"), (num_splits, num_heads, batch_size), WARP, arguments, {}, outputs)


def _require_fit(q, k, v, seq_len_kv, split_len):
    """ShapeError unless 01_split takes these."""
    head_dim = HEAD_DIMS["01_split"]
    for name, tensor, dims in (("q", q, 3), ("k", k, 4), ("v", v, 4)):
        if tensor.dim() != dims or tensor.shape[-1] != head_dim or tensor.dtype != torch.float16:
            raise ShapeError(f"{name} is {tuple(tensor.shape)} {tensor.dtype}; expected {dims} dimensions, the last "
                             f"one {head_dim}, torch.float16.")  # fmt: skip
        if not tensor.is_contiguous():
            raise ShapeError(f"{name} must be contiguous.")
    batch_size, num_heads, _ = q.shape
    num_kv_heads, capacity = k.shape[1:3]
    if k.shape != v.shape or k.shape[0] != batch_size or num_kv_heads == 0 or num_heads % num_kv_heads:
        raise ShapeError(f"q is {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}; expected one batch_size, k "
                         "and v alike, and num_heads a multiple of num_kv_heads.")  # fmt: skip
    if not (1 <= seq_len_kv <= capacity and split_len >= 1):
        raise ShapeError(
            f"seq_len_kv is {seq_len_kv} and split_len {split_len}; expected 1 to {capacity}, and 1 or more."
        )


def plan_combine(partial_out, partial_lse):
    """The launch of 02_combine, not yet run.

    Parameters
    ----------
    partial_out : tensor, (num_splits, num_rows, 128), float32, contiguous
    partial_lse : tensor, (num_splits, num_rows), float32, contiguous, natural log; -inf for an empty split

    Returns
    -------
    launch : Launch; its outputs are out (num_rows, 128) and lse (num_rows,), float32, natural log

    Raises
    ------
    ShapeError  shapes that do not fit
    """
    head_dim = HEAD_DIMS["02_combine"]
    fits = partial_out.shape == (*partial_lse.shape, head_dim) and partial_lse.dim() == 2 and len(partial_lse)
    if not fits or not (partial_out.is_contiguous() and partial_lse.is_contiguous()):
        shapes = f"partial_out is {tuple(partial_out.shape)} and partial_lse {tuple(partial_lse.shape)}"
        raise ShapeError(
            f"{shapes}; expected (num_splits, num_rows, {head_dim}) and (num_splits, num_rows), contiguous."
        )
    num_splits, num_rows = partial_lse.shape
    outputs = (torch.empty_like(partial_out[0]), torch.empty_like(partial_lse[0]))
    arguments = (partial_out, partial_lse, *outputs, num_splits, num_rows)
    kernel = _kernel("02_combine")
    return Launch("cuda", kernel, (num_rows,), COMBINE_THREADS, arguments, {}, outputs, shared_bytes=4 * num_splits)


def _kernel(variant):
    from .. import cuda

    return cuda.load(f"decode_exercises/{variant}.cu")
