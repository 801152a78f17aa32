"""Kernels that work on rows, a group of threads a row: which width an access has, how many threads share a row.

May import: errors, sizes, splits, torch.
"""

import torch

from ...errors import ShapeError
from .sizes import ELEMENTS, ceil_div, power_of_two
from .splits import slots

ROW_ELEMENTS = ELEMENTS | {torch.float32: "float"}  # dtype -> -DELEMENT
BLOCK_THREADS = 128  # of a block whose rows need fewer
CHUNKS = 4  # accesses of 16 bytes that a thread has under way: 64 bytes, 128 KiB a multiprocessor at full occupancy
MAX_THREADS = 1024


def as_rows(name, x, like=None):
    """A tensor as (num_rows, num_cols), rows contiguous, a view.

    Parameters
    ----------
    like : tensor or None; shape, dtype and device that `x` must have

    Raises
    ------
    ShapeError  no element; another dtype than float32, float16, bfloat16; rows not contiguous or not one stride apart
    """
    if x.dtype not in ROW_ELEMENTS:
        raise ShapeError(f"{name} is {x.dtype}; these kernels take float32, float16 or bfloat16.")
    if x.ndim == 0 or x.numel() == 0:
        raise ShapeError(f"{name} has the shape {tuple(x.shape)}; every dimension must be at least 1.")
    if like is not None and (x.shape, x.dtype, x.device) != (like.shape, like.dtype, like.device):
        raise ShapeError(
            f"{name} is {x.dtype} {tuple(x.shape)} on {x.device}; "
            f"expected {like.dtype} {tuple(like.shape)} on {like.device}."
        )
    if x.shape[-1] > 1 and x.stride(-1) != 1:
        raise ShapeError(f"{name} has strides {x.stride()}; its rows must be contiguous: pass {name}.contiguous().")
    try:
        return x.view(-1, x.shape[-1])
    except RuntimeError:
        raise ShapeError(
            f"{name} has the shape {tuple(x.shape)} and strides {x.stride()}: its rows are not one stride apart; "
            f"pass {name}.contiguous()."
        ) from None


def require_vector(name, x, rows):
    """A contiguous vector with a number for each column of `rows`, same dtype and device."""
    if x.shape != rows.shape[-1:] or x.dtype != rows.dtype or x.device != rows.device or not x.is_contiguous():
        raise ShapeError(
            f"{name} is {x.dtype} {tuple(x.shape)}, strides {x.stride()}, on {x.device}; "
            f"expected contiguous {rows.dtype} ({rows.shape[-1]},) on {rows.device}."
        )


def row_stride(x):
    """Elements from one row to the next; 0 where there is one row only."""
    return x.stride(0) if x.shape[0] > 1 else 0


def access_width(num_cols, *tensors):
    """Elements of an access: as many as 16 bytes hold, fewer where the width, a stride or an address is no multiple.

    Parameters
    ----------
    tensors : (num_rows, num_cols) or (num_cols,), of one dtype
    """
    width = 16 // tensors[0].element_size()
    starts = [x.data_ptr() // x.element_size() for x in tensors]
    steps = [row_stride(x) for x in tensors if x.ndim == 2]
    while any(number % width for number in (num_cols, *starts, *steps)):
        width //= 2
    return width


def _more_chunks(x, width, chunks, most):
    """`chunks`, or up to `most` times as many where accesses are narrower than 16 bytes: more bytes are under way."""
    return chunks * min(most, 16 // (x.element_size() * width))


def few_rows(x):
    """Whether there are fewer than two rows for each multiprocessor."""
    return x.shape[0] < 2 * slots(x, 1)


def row_shape(x, width, *, chunks=CHUNKS, max_threads=MAX_THREADS, narrow=2):
    """Macros that say how threads share the rows of `x`: {"VEC", "THREADS_PER_ROW", "ROWS_PER_BLOCK", "CHUNKS"}.

    Many rows: each thread keeps up to `chunks` accesses under way, and a narrow row has part of a warp. Few rows, fewer
    than two for each multiprocessor: as many threads as a row has accesses, since only they can hide its latency.
    Where accesses are narrower than 16 bytes a thread has up to `narrow` times as many.
    """
    num_accesses, few, chunks = x.shape[1] // width, few_rows(x), _more_chunks(x, width, chunks, narrow)
    if num_accesses <= 32:
        threads = power_of_two(num_accesses, least=1)
    else:
        threads = min(max_threads, 32 * ceil_div(num_accesses, 32 * (1 if few else chunks)))
    return {
        "VEC": width,
        "THREADS_PER_ROW": threads,
        "ROWS_PER_BLOCK": max(1, (32 if few else BLOCK_THREADS) // threads),
        "CHUNKS": min(chunks, ceil_div(num_accesses, threads)),
    }


def row_grid(num_rows, shape):
    """(grid, threads of a block) for macros of `row_shape`."""
    rows = shape["ROWS_PER_BLOCK"]
    return (ceil_div(num_rows, rows),), shape["THREADS_PER_ROW"] * rows


ELEMENT_THREADS = 256  # of a block whose threads need nothing of each other


def element_shape(x, width, *, chunks):
    """Macros as those of `row_shape` for kernels that visit each number alone: `chunks` accesses a thread, or one where
    there are too few for all threads of the card."""
    num_accesses, chunks = x.shape[1] // width, _more_chunks(x, width, chunks, 4)
    narrow = num_accesses <= 32
    threads = power_of_two(num_accesses, least=1) if narrow else min(ELEMENT_THREADS, 32 * ceil_div(num_accesses, 32))
    fills = x.shape[0] * num_accesses >= 2048 * slots(x, chunks)
    return {
        "VEC": width,
        "THREADS_PER_ROW": threads,
        "ROWS_PER_BLOCK": max(1, ELEMENT_THREADS // threads),
        "CHUNKS": min(chunks, ceil_div(num_accesses, threads)) if fills else 1,
    }


def element_grid(num_rows, num_cols, shape):
    """(grid, threads of a block) for macros of `element_shape`: row groups, pieces of a row."""
    rows, threads = shape["ROWS_PER_BLOCK"], shape["THREADS_PER_ROW"]
    return (ceil_div(num_rows, rows), ceil_div(num_cols, shape["VEC"] * threads * shape["CHUNKS"])), threads * rows
