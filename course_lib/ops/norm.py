"""Launchers of RMSNorm, LayerNorm and the fused add + RMSNorm, forward.

May import: errors, ops._foundation, torch. Grid and block are written here and in `_foundation.rows`, nowhere else.
"""

import torch

from ..errors import UnsupportedError
from ._foundation.checks import require_language
from ._foundation.launch import all_ran, cuda_launch, ran, triton_launch
from ._foundation.plans import planned
from ._foundation.rows import ROW_ELEMENTS, access_width, as_rows, require_vector, row_grid, row_shape, row_stride
from ._foundation.sizes import ceil_div, power_of_two

TILE = 4096  # numbers of a Triton tile that holds several narrow rows
MAX_TILE = 1 << 16  # columns of the widest row that a Triton program holds


def rms_norm(x, weight, *, eps=1e-6, out=None, language="cuda"):
    """RMSNorm of every row, one launch of 01_rms_norm: one read and one write.

    Parameters
    ----------
    x : tensor, (..., num_cols), float32, float16 or bfloat16; rows contiguous and one stride apart, any num_cols
    weight : tensor, (num_cols,), dtype of `x`, contiguous
    eps : float, added to the mean of the squares
    out : tensor like `x`, rows of any one stride, or None for a new one; may be `x`
    language : "cuda" or "triton" (rows of at most 65,536 numbers)

    Returns
    -------
    out : tensor, shape and dtype of `x`; x / sqrt(mean(x^2) + eps) * weight

    Raises
    ------
    ShapeError        shapes, dtypes or strides that do not fit
    UnsupportedError  no such language; a row that is too long for Triton

    Notes
    -----
    Cost      2 * num_rows * num_cols * itemsize bytes; a row of more than 4,096 accesses is read twice
    Numerics  sum and product in float32, rounded once
    """
    return ran(plan_rms_norm(x, weight, eps=eps, out=out, language=language))


def layer_norm(x, weight, bias=None, *, eps=1e-5, out=None, language="cuda"):
    """LayerNorm of every row, one launch of 02_layer_norm: one read and one write.

    Parameters and errors as in `rms_norm`; bias : tensor like `weight`, or None.

    Returns
    -------
    out : tensor, shape and dtype of `x`; (x - mean) / sqrt(variance + eps) * weight + bias, variance over num_cols
    """
    return ran(plan_layer_norm(x, weight, bias, eps=eps, out=out, language=language))


def add_rms_norm(x, residual, weight, *, eps=1e-6, out=None, language="cuda"):
    """residual += x in place, and RMSNorm of the sum, one launch of 03_add_rms_norm: two reads and two writes.

    Parameters
    ----------
    x : tensor, (..., num_cols), as in `rms_norm`; replaced by the result when `out` is None
    residual : tensor like `x`, rows of any one stride; replaced by residual + x, rounded to its dtype
    out : tensor like `x`, or None for `x` itself

    Returns
    -------
    (out, residual) : tensors, shape and dtype of `x`; out is the norm of the rounded sum
    """
    return all_ran(plan_add_rms_norm(x, residual, weight, eps=eps, out=out, language=language))


@planned
def plan_rms_norm(x, weight, *, eps=1e-6, out=None, language="cuda"):
    """The launch of 01_rms_norm, not yet run."""
    out = _new(x) if out is None else out
    rows, out_rows = as_rows("x", x), as_rows("out", out, like=x)
    require_vector("weight", weight, rows)
    sizes = (*rows.shape, row_stride(rows), row_stride(out_rows), float(eps))
    return _launch("01_rms_norm", language, (rows, weight, out_rows), sizes, (out,))


@planned
def plan_layer_norm(x, weight, bias=None, *, eps=1e-5, out=None, language="cuda"):
    """The launch of 02_layer_norm, not yet run."""
    out = _new(x) if out is None else out
    rows, out_rows = as_rows("x", x), as_rows("out", out, like=x)
    require_vector("weight", weight, rows)
    if bias is not None:
        require_vector("bias", bias, rows)
    sizes = (*rows.shape, row_stride(rows), row_stride(out_rows), float(eps))
    more = {"HAS_BIAS": bias is not None}
    if language == "triton" and bias is None:
        bias = weight
    return _launch("02_layer_norm", language, (rows, weight, bias, out_rows), sizes, (out,), more)


@planned
def plan_add_rms_norm(x, residual, weight, *, eps=1e-6, out=None, language="cuda"):
    """The launch of 03_add_rms_norm, not yet run; its outputs are (out, residual)."""
    out = x if out is None else out
    rows, others = as_rows("x", x), [as_rows("residual", residual, like=x), as_rows("out", out, like=x)]
    require_vector("weight", weight, rows)
    if residual.data_ptr() in (x.data_ptr(), out.data_ptr()):
        raise UnsupportedError("residual begins where x or out does; it is written too, so it needs its own memory.")
    sizes = (*rows.shape, *(row_stride(tensor) for tensor in (rows, *others)), float(eps))
    return _launch("03_add_rms_norm", language, (rows, weight, *others), sizes, (out, residual))


def _new(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _launch(variant, language, tensors, sizes, outputs, more=None):
    """A launch over rows; the first of `tensors` has them, `more` are constants of the Triton twin alone."""
    require_language(language)
    rows, stem = tensors[0], f"norm/{variant}"
    if language == "triton":
        constants = tile_of(rows) | (more or {})
        return triton_launch(stem, (ceil_div(len(rows), constants["BLOCK_M"]),), (*tensors, *sizes), constants, outputs)
    shape = row_shape(rows, access_width(rows.shape[1], *(tensor for tensor in tensors if tensor is not None)))
    grid, block = row_grid(len(rows), shape)
    defines = shape | {"ELEMENT": ROW_ELEMENTS[rows.dtype]}
    return cuda_launch(stem, grid, block, (*tensors, *sizes), outputs, defines=defines)


def tile_of(rows):
    """{"BLOCK_M", "BLOCK_N", "num_warps"} of a Triton program that holds whole rows."""
    num_rows, num_cols = rows.shape
    if num_cols > MAX_TILE:
        raise UnsupportedError(
            f"the rows have {num_cols} numbers and a Triton program holds at most {MAX_TILE}; use language='cuda'."
        )
    block_n = power_of_two(num_cols)
    block_m = max(1, min(TILE // block_n, power_of_two(num_rows, least=1)))
    return {"BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": max(1, min(16, block_m * block_n // 1024))}
