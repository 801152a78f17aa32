"""Launchers of cross-entropy over a vocabulary: loss and log-sum-exp in one pass, the gradient in place of the logits.

May import: errors, ops._foundation, torch.
"""

import torch

from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_language
from ._foundation.launch import all_ran, cuda_launch, triton_launch
from ._foundation.rows import (
    ROW_ELEMENTS,
    access_width,
    as_rows,
    element_grid,
    element_shape,
    few_rows,
    row_grid,
    row_shape,
    row_stride,
)
from ._foundation.sizes import ceil_div, power_of_two
from ._foundation.typed import typed
from ._foundation.values import looked_at

BLOCK_N = 4096  # logits that a Triton program reads at once
MAX_THREADS = 256  # of a row in CUDA where there are many


def cross_entropy(logits, targets, *, ignore_index=-100, label_smoothing=0.0, language="cuda"):
    """Loss and log-sum-exp of every row, one launch of 01_online: the logits are read once, no probability is stored.

    Parameters
    ----------
    logits : tensor, (num_rows, num_cols), float32, float16 or bfloat16; rows contiguous, any stride
        -inf is a masked logit
    targets : tensor, (num_rows,), int64, contiguous: classes, or ignore_index
        (checked on a CPU; on a GPU, where a check would wait, another number gives a loss of NaN)
    ignore_index : int, the target of a row that does not count
    label_smoothing : float, 0 to 1: how much of the target is spread over all classes
    language : "cuda" or "triton"

    Returns
    -------
    loss : tensor, (num_rows,), float32; 0 for an ignored row
        torch's mean is loss.sum() / (targets != ignore_index).sum()
    lse : tensor, (num_rows,), float32, natural log, for `cross_entropy_backward`; 0 for an ignored row

    Raises
    ------
    ShapeError        shapes, dtypes or strides that do not fit; on a CPU a target that is no class
    UnsupportedError  label_smoothing outside 0 to 1; no such language

    Notes
    -----
    Cost      num_rows * num_cols * itemsize bytes, and one logit, 16 bytes a row
    Numerics  maximum and sums in float32
    """
    return all_ran(plan(logits, targets, ignore_index=ignore_index, label_smoothing=label_smoothing, language=language))


def cross_entropy_backward(
    d_loss, logits, targets, lse, *, ignore_index=-100, label_smoothing=0.0, out=None, language="cuda"
):
    """The gradient of the logits, by default in place of them, one launch of 02_backward: one read and one write.

    Parameters
    ----------
    d_loss : tensor, float32: (num_rows,) of any stride, or a single number for all rows, such as 1 / (rows that count)
    logits, targets, ignore_index, label_smoothing : as in `cross_entropy`
    lse : tensor, (num_rows,), float32, contiguous: what `cross_entropy` returned
    out : tensor like `logits`, rows of any one stride; None: `logits`, which are overwritten

    Returns
    -------
    d_logits : tensor, shape and dtype of `logits`; 0 in an ignored row
    """
    options = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "out": out, "language": language}
    launch = plan_backward(d_loss, logits, targets, lse, **options)
    launch.run()
    return launch.outputs[0]


@typed
def plan(logits, targets, *, ignore_index=-100, label_smoothing=0.0, language="cuda"):
    """The launch of 01_online, not yet run; its outputs are (loss, lse)."""
    rows = _checked(logits, targets, ignore_index, label_smoothing, language)
    outputs = tuple(logits.new_empty(len(rows), dtype=torch.float32) for _ in range(2))
    sizes = (*rows.shape, row_stride(rows), int(ignore_index), float(label_smoothing))
    arguments = (rows, targets, *outputs, *sizes)
    if language == "triton":
        constants = {"BLOCK_N": min(BLOCK_N, power_of_two(rows.shape[1])), "num_warps": 8}
        return triton_launch("cross_entropy/01_online", (len(rows),), arguments, constants, outputs)
    max_threads = 1024 if few_rows(rows) else MAX_THREADS
    shape = row_shape(rows, access_width(rows.shape[1], rows), max_threads=max_threads, narrow=4)
    grid, block = row_grid(len(rows), shape)
    defines = shape | {"ELEMENT": ROW_ELEMENTS[rows.dtype]}
    return cuda_launch("cross_entropy/01_online", grid, block, arguments, outputs, defines=defines)


@typed
def plan_backward(d_loss, logits, targets, lse, *, ignore_index=-100, label_smoothing=0.0, out=None, language="cuda"):
    """The launch of 02_backward, not yet run."""
    rows = _checked(logits, targets, ignore_index, label_smoothing, language)
    out = logits if out is None else out
    out_rows = as_rows("out", out, like=logits)
    if lse.shape != targets.shape or lse.dtype != torch.float32 or not lse.is_contiguous():
        raise ShapeError(f"lse is {lse.dtype} {tuple(lse.shape)}; expected contiguous torch.float32 ({len(rows)},).")
    if d_loss.dtype != torch.float32 or (d_loss.numel() != 1 and d_loss.shape != targets.shape):
        raise ShapeError(f"d_loss is {d_loss.dtype} {tuple(d_loss.shape)}; expected float32 ({len(rows)},) or one.")
    stride = d_loss.stride(0) if d_loss.numel() > 1 else 0
    sizes = (*rows.shape, row_stride(rows), stride, row_stride(out_rows), int(ignore_index), float(label_smoothing))
    arguments = (rows, targets, lse, d_loss, out_rows, *sizes)
    if language == "triton":
        block_n = min(BLOCK_N, power_of_two(rows.shape[1]))
        grid, constants = (len(rows), ceil_div(rows.shape[1], block_n)), {"BLOCK_N": block_n, "num_warps": 8}
        return triton_launch("cross_entropy/02_backward", grid, arguments, constants, (out,))
    shape = element_shape(rows, access_width(rows.shape[1], rows, out_rows), chunks=4)
    grid, block = element_grid(*rows.shape, shape)
    defines = shape | {"ELEMENT": ROW_ELEMENTS[rows.dtype]}
    return cuda_launch("cross_entropy/02_backward", grid, block, arguments, (out,), defines=defines)


def _checked(logits, targets, ignore_index, label_smoothing, language):
    """The logits as rows, after the checks that both passes share."""
    require_language(language)
    if not 0.0 <= label_smoothing <= 1.0:
        raise UnsupportedError(f"label_smoothing={label_smoothing}; expected a number from 0 to 1.")
    if logits.ndim != 2:
        raise ShapeError(f"logits have the shape {tuple(logits.shape)}; expected (num_rows, num_cols).")
    rows = as_rows("logits", logits)
    if targets.shape != rows.shape[:1] or targets.dtype != torch.int64 or not targets.is_contiguous():
        raise ShapeError(
            f"targets is {targets.dtype} {tuple(targets.shape)}; expected contiguous torch.int64 ({len(rows)},)."
        )
    if targets.device != rows.device:
        raise ShapeError(f"targets is on {targets.device} and logits on {rows.device}.")
    if looked_at(rows, validate=False):
        wrong = targets[(targets != ignore_index) & ((targets < 0) | (targets >= rows.shape[1]))]
        if len(wrong):
            raise ShapeError(
                f"targets holds {wrong[0]}; the classes are 0 to {rows.shape[1] - 1}, and ignore_index={ignore_index}."
            )
    return rows
