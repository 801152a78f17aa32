"""Launcher of sampling: a token of every row of logits from given noise, by temperature, top-k, top-p and min-p.

May import: errors, ops._foundation, torch.
"""

import torch

from ..errors import ShapeError
from ._foundation.checks import require_contiguous, require_tensor
from ._foundation.launch import cuda_launch, ran
from ._foundation.plans import planned
from ._foundation.rows import ROW_ELEMENTS, access_width, as_rows, row_stride
from ._foundation.sizes import ceil_div
from ._foundation.values import looked_at

MAX_WARPS = 16  # 128 registers a thread; 64 do not hold the values of three thresholds


def sample(
    logits, temperature=None, noise=None, *, top_k=None, top_p=None, min_p=None, out=None, counts=None, history=None
):  # fmt: skip
    """A token of every row, one launch of sampling/01_pivots: no sort, no wait of the host.

    Parameters
    ----------
    logits : tensor, (num_rows, num_cols), float32, float16 or bfloat16; rows contiguous and one stride apart; -inf is a
        masked logit, every row has a finite one, none is NaN or +inf
    temperature : tensor, (num_rows,), float32; below 1e-5 the row's token is the first of its largest logits, and None
        is 0 for all rows
    noise : tensor, (num_rows,), float32, from 0 to below 1: all chance of the row; None where temperature is
    top_k : tensor, (num_rows,), int32, or None; kept are the top_k largest logits; 0 or less keeps all
    top_p : tensor, (num_rows,), float32, or None; kept are, of these, the fewest whose probabilities reach top_p of
        their sum; 1 or more keeps all. A sum within 1e-6 of it is enough: floats round
    min_p : tensor, (num_rows,), float32, or None; kept are, of these, those of at least min_p of the largest
        probability
    out : tensor, (num_rows,), int64, or None for a new one
    counts, history : tensors, (6 * num_rows,), int32, and (num_steps, num_rows), int64, contiguous, or both None: what
        a decoder counts of each row, two int32 (num_rows,) and two int64 (num_rows,) one after the other, of which all
        grow by one; then the tokens go into that row of `history` too which the last of them names

    Returns
    -------
    out : tensor, (num_rows,), int64; the first token at which the running sum of the kept probabilities, in the order
        of the tokens, exceeds noise times their sum

    Raises
    ------
    ShapeError  shapes, dtypes or devices that do not fit; on the CPU also values out of range

    Notes
    -----
    Ties      equal logits stay or go together, so top_k may keep more than its number
    Cost      1 pass over a row, and part of a second; with any filter 1 more; for top_k and top_p each 36 more at most,
              of which 1 to 3 are usual, and none where top_p looks among what top_k has left in shared memory. All but
              the first read from cache where the rows fit
    Numerics  weights and sums in float32, in one order: a row's token does not depend on the rows beside it
    """
    filters = {"top_k": top_k, "top_p": top_p, "min_p": min_p}
    return ran(plan(logits, temperature, noise, **filters, out=out, counts=counts, history=history))


@planned
def plan(
    logits, temperature=None, noise=None, *, top_k=None, top_p=None, min_p=None, out=None, counts=None, history=None
):  # fmt: skip
    """The launch of 01_pivots, not yet run."""
    if logits.ndim != 2:
        raise ShapeError(f"logits have the shape {tuple(logits.shape)}; expected (num_rows, num_cols).")
    rows = as_rows("logits", logits)
    out = rows.new_empty(len(rows), dtype=torch.int64) if out is None else out
    of_rows = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "noise": noise, "out": out}
    for name, tensor in of_rows.items():
        if tensor is not None:
            _require_row_numbers(
                name, tensor, rows, {"top_k": torch.int32, "out": torch.int64}.get(name, torch.float32)
            )
    if (temperature is None) != (noise is None) or (counts is None) != (history is None):
        raise ShapeError("temperature and noise belong together, and so do counts and history; one of them is None.")
    if counts is not None:
        _require_counts(counts, history, len(rows))
    if looked_at(rows, validate=False):
        _require_range(rows, temperature, noise)
    width = access_width(rows.shape[1], rows)
    num_warps = min(MAX_WARPS, ceil_div(rows.shape[1] // width, 32))
    defines = {"ELEMENT": ROW_ELEMENTS[rows.dtype], "VEC": width, "NUM_WARPS": num_warps}
    arguments = (
        rows, temperature, top_k, top_p, min_p, noise, out, counts, history, rows.shape[1], row_stride(rows),
    )  # fmt: skip
    return cuda_launch("sampling/01_pivots", (len(rows),), 32 * num_warps, arguments, (out,), defines=defines)


def _require_row_numbers(name, tensor, rows, dtype):
    shape, expected = tuple(tensor.shape), (len(rows),)
    if shape != expected or tensor.dtype != dtype or tensor.device != rows.device or not tensor.is_contiguous():
        raise ShapeError(
            f"{name} is {tensor.dtype} {shape}, strides {tensor.stride()}, on {tensor.device}; "
            f"expected contiguous {dtype} {expected} on {rows.device}: a number for each row."
        )


def _require_counts(counts, history, num_rows):
    require_tensor(counts, "counts", 1, torch.int32)
    require_tensor(history, "history", 2, torch.int64)
    require_contiguous({"counts": counts, "history": history}, (torch.int32, torch.int64))
    if len(counts) != 6 * num_rows or history.shape[1] != num_rows or counts.data_ptr() % 8:
        raise ShapeError(
            f"counts are {len(counts)} numbers at {counts.data_ptr():#x} and history is {tuple(history.shape)}; "
            f"expected {6 * num_rows} numbers at a multiple of 8 bytes, and (num_steps, {num_rows})."
        )
    if looked_at(counts, validate=False):
        steps = counts.view(torch.int64)[-num_rows:]
        if not bool(((steps >= -1) & (steps < len(history) - 1)).all()):
            raise ShapeError(f"counts end with {steps.tolist()}; one more is no row of a history of {len(history)}.")


def _require_range(rows, temperature, noise):
    """What a launch on a GPU cannot look at without a wait."""
    if noise is not None and not bool(((noise >= 0) & (noise < 1)).all()):
        raise ShapeError(f"noise holds numbers from {noise.min()} to {noise.max()}; expected 0 to below 1.")
    if temperature is not None and not bool(((temperature >= 0) & torch.isfinite(temperature)).all()):
        raise ShapeError(f"temperature holds {temperature.tolist()}; expected finite numbers of at least 0.")
    finite = torch.isfinite(rows).any(-1)
    if not bool(finite.all()) or bool((torch.isnan(rows) | torch.isposinf(rows)).any()):
        raise ShapeError("logits have a NaN or +inf, or a row without a finite number: there is no token to take.")
