"""Launchers of the gradients of RMSNorm and LayerNorm: a pass over the rows, then the sums of the partial gradients.

May import: errors, ops._foundation, ops.norm, torch.
"""

import functools

import torch

from ._foundation.checks import require_language
from ._foundation.launch import Launches, all_ran, cuda_launch, triton_launch
from ._foundation.rows import ROW_ELEMENTS, access_width, as_rows, few_rows, require_vector, row_shape, row_stride
from ._foundation.sizes import ceil_div
from ._foundation.splits import slots
from ._foundation.typed import typed
from .norm import tile_of

CHUNKS = 2  # of a thread
MAX_CHUNKS = {
    1: 4,
    2: 3,
}  # by partial sums, where a row has more than BLOCK_THREADS * CHUNKS: 128 registers hold no more
BLOCK_THREADS = 512
SM_THREADS = 512  # of a multiprocessor that walk over rows: up to 128 registers each
MAX_STAGES, RING_BYTES = 4, 128 << 10  # pairs of rows of a block, in shared memory: as many as are worth it
COLUMN_ROWS = 32


def rms_norm_backward(d_out, x, weight, *, eps=1e-6, d_residual=None, out=None, num_blocks=None, language="cuda"):
    """The gradients of `ops.norm.rms_norm`, launches of 04_rms_norm_backward and 06_column_sums.

    Nothing but the input of the norm is needed: 1 / sqrt(mean(x^2) + eps) is made again from the row in registers.

    Parameters
    ----------
    d_out : tensor, the gradient of the output; shape and dtype of `x`, rows of any one stride
    x : tensor, (..., num_cols), float32, float16 or bfloat16: what was normalised; after `add_rms_norm` the residual
    weight : tensor, (num_cols,), dtype of `x`, contiguous
    d_residual : tensor like `x`, or None: added to dx, for the residual that passes by the norm
    out : tensor like `x` for dx, or None for a new one; may be `d_out`
    num_blocks : int or None, blocks that share the rows, None for as many as the card holds; the order of the weight's
        sums, and so its last bits, depend on it
    language : "cuda" or "triton" (rows of at most 65,536 numbers; beyond 4,096 its registers spill)

    Returns
    -------
    dx : tensor, shape and dtype of `x`
    d_weight : tensor, (num_cols,), dtype of `x`; summed in float32 in one order: the same bits in every run on a card

    Notes
    -----
    Cost      3 * num_rows * num_cols * itemsize bytes (4 with d_residual), and 8 bytes a column for each block
    """
    options = {"eps": eps, "d_residual": d_residual, "out": out, "num_blocks": num_blocks, "language": language}
    return all_ran(plan_rms_norm_backward(d_out, x, weight, **options))


def layer_norm_backward(d_out, x, weight, *, eps=1e-5, out=None, num_blocks=None, language="cuda"):
    """The gradients of `ops.norm.layer_norm`, launches of 05_layer_norm_backward and 06_column_sums.

    Parameters as in `rms_norm_backward`.

    Returns
    -------
    (dx, d_weight, d_bias) : tensors of the dtype of `x`
    """
    return all_ran(
        plan_layer_norm_backward(d_out, x, weight, eps=eps, out=out, num_blocks=num_blocks, language=language)
    )


@typed
def plan_rms_norm_backward(d_out, x, weight, *, eps=1e-6, d_residual=None, out=None, num_blocks=None, language="cuda"):
    """The launches of `rms_norm_backward`, not yet run."""
    rows, d_rows, out_rows, out = _checked(d_out, x, weight, out, language)
    d_residual_rows = None if d_residual is None else as_rows("d_residual", d_residual, like=x)
    tensors, more = (d_rows, rows, weight, d_residual_rows, out_rows), {"HAS_RESIDUAL": d_residual is not None}
    if language == "triton" and d_residual is None:
        tensors = (d_rows, rows, weight, d_rows, out_rows)
    strides = [0 if tensor is None else row_stride(tensor) for tensor in (d_rows, rows, d_residual_rows, out_rows)]
    return _plan(
        "04_rms_norm_backward", language, tensors, (*rows.shape, *strides, float(eps)), out, 1, num_blocks, more
    )


@typed
def plan_layer_norm_backward(d_out, x, weight, *, eps=1e-5, out=None, num_blocks=None, language="cuda"):
    """The launches of `layer_norm_backward`, not yet run."""
    rows, d_rows, out_rows, out = _checked(d_out, x, weight, out, language)
    strides = [row_stride(tensor) for tensor in (d_rows, rows, out_rows)]
    sizes = (*rows.shape, *strides, float(eps))
    return _plan("05_layer_norm_backward", language, (d_rows, rows, weight, out_rows), sizes, out, 2, num_blocks, {})


def _checked(d_out, x, weight, out, language):
    """(x, d_out, out as rows, out), after the checks that both gradients share."""
    require_language(language)
    out = torch.empty_like(x, memory_format=torch.contiguous_format) if out is None else out
    rows = as_rows("x", x)
    require_vector("weight", weight, rows)
    return rows, as_rows("d_out", d_out, like=x), as_rows("out", out, like=x), out


def _plan(variant, language, tensors, sizes, out, num_sums, num_blocks, more):
    """The pass over the rows, which leaves `num_sums` partial gradients a block, and their sums."""
    rows = tensors[1]
    if language == "triton":
        block_n = tile_of(rows)["BLOCK_N"]
        constants = {"BLOCK_N": block_n, "num_warps": max(4, min(32, block_n // 512))} | more
        num_parts = num_blocks or min(len(rows), slots(rows, 2))
        partial = _partial(rows, num_sums, num_parts)
        walk = triton_launch(f"norm/{variant}", (num_parts,), (*tensors, partial, *sizes), constants, (out, partial))
    else:
        width = access_width(rows.shape[1], *(tensor for tensor in tensors if tensor is not None))
        shape, shared_bytes = _shape(rows, width, num_sums)
        groups, block = shape["ROWS_PER_BLOCK"], shape["THREADS_PER_ROW"] * shape["ROWS_PER_BLOCK"]
        grid = num_blocks or min(ceil_div(len(rows), groups), slots(rows, max(1, SM_THREADS // block)))
        partial = _partial(rows, num_sums, grid)
        arguments, defines = (*tensors, partial, *sizes), shape | {"ELEMENT": ROW_ELEMENTS[rows.dtype]}
        walk = cuda_launch(
            f"norm/{variant}", (grid,), block, arguments, (out, partial), defines=defines, shared_bytes=shared_bytes
        )  # fmt: skip
    sums = column_sums(partial, rows.dtype, language)
    return Launches((walk, sums), (out, *sums.outputs[0].unbind(0)))


def _shape(rows, width, num_sums):
    """(macros that say how threads share the rows, dynamic shared memory of a block)."""
    chunks = CHUNKS if rows.shape[1] <= BLOCK_THREADS * CHUNKS * width else MAX_CHUNKS[num_sums]
    shape = row_shape(rows, width, chunks=chunks, max_threads=BLOCK_THREADS)
    if not few_rows(rows):
        shape["ROWS_PER_BLOCK"] = max(1, BLOCK_THREADS // shape["THREADS_PER_ROW"])
    threads, room = shape["THREADS_PER_ROW"] * shape["ROWS_PER_BLOCK"], min(RING_BYTES, _shared_bytes(rows.device))
    chunk_bytes = 2 * threads * width * rows.element_size()  # of a stage, for each of CHUNKS
    shape["CHUNKS"] = min(shape["CHUNKS"], room // chunk_bytes)
    shape["NUM_STAGES"] = min(MAX_STAGES, room // (shape["CHUNKS"] * chunk_bytes))
    return shape, shape["NUM_STAGES"] * shape["CHUNKS"] * chunk_bytes


@functools.cache
def _shared_bytes(device):
    """Shared memory for the rows of a block; on the CPU that of an H200, so that plans look the same."""
    most = torch.cuda.get_device_properties(device).shared_memory_per_block_optin if device.type == "cuda" else 232_448
    return most - 1024  # without the sums of warps


def _partial(rows, num_sums, num_parts):
    return rows.new_empty(num_sums, num_parts, rows.shape[1], dtype=torch.float32)


def column_sums(partial, dtype, language="cuda"):
    """The launch of 06_column_sums, not yet run: (num_sums, num_parts, num_cols) float32 to (num_sums, num_cols)."""
    num_sums, num_parts, num_cols = partial.shape
    sums = partial.new_empty(num_sums, num_cols, dtype=dtype)
    arguments = (partial, sums, num_parts, num_cols)
    if language == "triton":
        grid = (ceil_div(num_cols, 32), num_sums)
        return triton_launch("norm/06_column_sums", grid, arguments, {"BLOCK_M": 64, "BLOCK_N": 32}, (sums,))
    grid, defines = (ceil_div(num_cols, 32), num_sums), {"ELEMENT": ROW_ELEMENTS[dtype], "COLUMN_ROWS": COLUMN_ROWS}
    return cuda_launch("norm/06_column_sums", grid, 32 * COLUMN_ROWS, arguments, (sums,), defines=defines)
