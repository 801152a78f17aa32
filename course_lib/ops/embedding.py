"""Launchers of the embedding: rows of a table by number, and the gradient of the table by sorted sums.

May import: errors, ops._foundation, torch.
"""

import torch

from ..errors import ShapeError
from ._foundation.checks import require_language
from ._foundation.launch import Launches, cuda_launch, ran, triton_launch
from ._foundation.plans import planned
from ._foundation.rows import ROW_ELEMENTS, access_width, as_rows, element_grid, element_shape, row_stride
from ._foundation.sizes import ceil_div, power_of_two
from ._foundation.typed import typed

IDS = {torch.int32: "int", torch.int64: "long"}
BLOCK_N = 1024  # numbers of a Triton program
PIECE = 64  # tokens of an id that one group of threads sums


def embedding(ids, table, *, positions=None, position_table=None, out=None, language="cuda"):
    """table[ids], and position_table[positions] added in the same launch of 01_lookup.

    Parameters
    ----------
    ids : tensor, (...,), int32 or int64, contiguous; a number that names no row, such as -1, gives zeros
    table : tensor, (num_ids, num_cols), float32, float16 or bfloat16; rows contiguous, any stride
    positions : tensor like `ids`, or None
    position_table : tensor, (num_positions, num_cols), dtype of `table`, contiguous, or None
    out : tensor, (..., num_cols), dtype of `table`, rows of any one stride, or None for a new one
    language : "cuda" or "triton"

    Returns
    -------
    out : tensor, (..., num_cols); the sum in float32, rounded once

    Raises
    ------
    ShapeError        shapes, dtypes or strides that do not fit
    UnsupportedError  no such language
    """
    tables = {"positions": positions, "position_table": position_table}
    return ran(plan(ids, table, **tables, out=out, language=language))


def embedding_backward(d_out, ids, num_ids, *, out=None, language="cuda"):
    """The gradient of the table, the launches of 02_sorted_backward after a sort of the ids by torch.

    Deterministic: each row is summed in float32 in an order that the ids alone decide, without atomics.
    The gradient of a position table is the same function of the positions.

    Parameters
    ----------
    d_out : tensor, (..., num_cols), float32, float16 or bfloat16; rows contiguous and one stride apart
    ids : tensor, (...,), int32 or int64, contiguous; numbers outside 0 .. num_ids - 1 are left out
    num_ids : int, rows of the table
    out : tensor, (num_ids, num_cols), dtype of `d_out`, to which the gradient is added; None: a new one

    Returns
    -------
    d_table : tensor, (num_ids, num_cols), dtype of `d_out`; 0 in rows that no id names
    """
    return ran(plan_backward(d_out, ids, num_ids, out=out, language=language))


@planned
def plan(ids, table, *, positions=None, position_table=None, out=None, language="cuda"):
    """The launch of 01_lookup, not yet run."""
    require_language(language)
    _require_ids("ids", ids)
    table_rows = _table("table", table)
    if (positions is None) != (position_table is None):
        raise ShapeError("positions and position_table go together; one of them is None.")
    if positions is not None:
        _require_ids("positions", positions, like=ids)
        position_table = _table("position_table", position_table, like=table)
    out = table.new_empty(*ids.shape, table.shape[1]) if out is None else out
    out_rows = _out_rows(out, table, (*ids.shape, table.shape[1]))
    has_positions, num_positions = positions is not None, 0 if positions is None else len(position_table)
    sizes = (ids.numel(), table.shape[1], len(table), num_positions, row_stride(table_rows), row_stride(out_rows))
    if language == "triton":
        others = (positions, position_table) if has_positions else (ids, table_rows)
        block_n = min(BLOCK_N, power_of_two(table.shape[1]))
        grid, constants = (ids.numel(), ceil_div(table.shape[1], block_n)), {"HAS_POSITIONS": has_positions}
        arguments = (ids, table_rows, *others, out_rows, *sizes)
        return triton_launch("embedding/01_lookup", grid, arguments, constants | {"BLOCK_N": block_n}, (out,))
    arguments = (ids, table_rows, positions, position_table, out_rows, *sizes)
    tables = (table_rows,) if positions is None else (table_rows, position_table)
    shape = element_shape(out_rows, access_width(table.shape[1], out_rows, *tables), chunks=2)
    grid, block = element_grid(*out_rows.shape, shape)
    defines = shape | {"ELEMENT": ROW_ELEMENTS[table.dtype], "ID": IDS[ids.dtype]}
    return cuda_launch("embedding/01_lookup", grid, block, arguments, (out,), defines=defines)


@typed
def plan_backward(d_out, ids, num_ids, *, out=None, language="cuda"):
    """The launches of 02_sorted_backward, not yet run; the ids are sorted now."""
    require_language(language)
    _require_ids("ids", ids)
    rows = as_rows("d_out", d_out)
    if d_out.shape[:-1] != ids.shape or d_out.device != ids.device:
        raise ShapeError(f"d_out is {tuple(d_out.shape)} and ids {tuple(ids.shape)}; expected a row for each id.")
    accumulate = int(out is not None)
    out = rows.new_zeros(num_ids, rows.shape[1]) if out is None else out
    out_rows = _out_rows(out, rows, (num_ids, rows.shape[1]))
    sorted_ids, order = torch.sort(ids.reshape(-1).long(), stable=True)
    ends = torch.searchsorted(sorted_ids, sorted_ids, right=True)
    num_pieces, target = ceil_div(len(rows), PIECE), out_rows.view(out_rows.shape)  # a view: it is read as well
    partial = rows.new_empty(2 * num_pieces, rows.shape[1], dtype=torch.float32)
    tail = (row_stride(out_rows), accumulate)
    walk = (sorted_ids, order, ends, rows, target, partial, *rows.shape, num_ids, row_stride(rows), *tail)
    join = (sorted_ids, ends, partial, target, *rows.shape, num_ids, *tail)
    launches = _backward_launches(language, rows, out_rows, num_pieces, walk, join, out)
    return Launches(launches if num_pieces > 1 else launches[:1], (out,))


def _backward_launches(language, rows, out_rows, num_pieces, walk, join, out):
    """The sums of the pieces, and those of rows that have several."""
    stem, kernels = "embedding/02_sorted_backward", ("sorted_backward_kernel", "join_pieces_kernel")
    parts = list(zip(kernels, (len(rows), num_pieces), (walk, join), strict=True))
    if language == "triton":
        block_n = min(BLOCK_N, power_of_two(rows.shape[1]))
        constants, across = {"BLOCK_N": block_n, "PIECE": PIECE}, ceil_div(rows.shape[1], block_n)
        return tuple(triton_launch(stem, (n, across), args, constants, (out,), kernel=name) for name, n, args in parts)
    shape = element_shape(rows, access_width(rows.shape[1], rows, out_rows), chunks=1) | {"CHUNKS": 1}
    defines = shape | {"ELEMENT": ROW_ELEMENTS[rows.dtype], "PIECE": PIECE}
    grids = [element_grid(n, rows.shape[1], shape) for _, n, _ in parts]
    return tuple(
        cuda_launch(stem, grid, block, args, (out,), kernel=name, defines=defines)
        for (name, _, args), (grid, block) in zip(parts, grids, strict=True)
    )


def _out_rows(out, like, shape):
    """`out` as rows, after a check of its shape; dtype and device are those of `like`."""
    if (tuple(out.shape), out.dtype, out.device) != (shape, like.dtype, like.device):
        raise ShapeError(
            f"out is {out.dtype} {tuple(out.shape)} on {out.device}; expected {like.dtype} {shape} on {like.device}."
        )
    return as_rows("out", out)


def _require_ids(name, ids, like=None):
    if ids.dtype not in IDS or not ids.is_contiguous() or not ids.numel():
        raise ShapeError(f"{name} is {ids.dtype} {tuple(ids.shape)}; expected contiguous int32 or int64, at least one.")
    if like is not None and (ids.shape, ids.dtype, ids.device) != (like.shape, like.dtype, like.device):
        raise ShapeError(
            f"{name} is {ids.dtype} {tuple(ids.shape)} on {ids.device}; "
            f"expected {like.dtype} {tuple(like.shape)} on {like.device}, as ids."
        )


def _table(name, table, like=None):
    """A table as rows; `like` is the one whose rows it is added to, and then it is contiguous."""
    if table.ndim != 2:
        raise ShapeError(f"{name} has the shape {tuple(table.shape)}; expected (rows, num_cols).")
    rows = as_rows(name, table)
    if like is not None and (table.shape[1] != like.shape[1] or table.dtype != like.dtype or not table.is_contiguous()):
        raise ShapeError(
            f"{name} is {table.dtype} {tuple(table.shape)}, strides {table.stride()}; "
            f"expected contiguous {like.dtype} rows of {like.shape[1]}."
        )
    return rows
