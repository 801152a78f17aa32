"""Launcher of the product of a few tokens that sums over ranks: the all-reduce is the end of the kernel, no launch.

May import: errors, ops.all_reduce, ops.decode_linear, ops._foundation, torch.
"""

import torch

from ..errors import ShapeError
from ._foundation.launch import ran
from ._foundation.sizes import ceil_div
from ._foundation.splits import slots
from ._foundation.typed import typed
from .all_reduce import require_inbox
from .decode_linear import MAX_TOKENS, require_linear, stream_launch


def linear_all_reduce(x, weight, inbox, *, bias=None, residual=None, out=None):
    """The sum over all ranks of x weight^T, + bias + residual, for one to eight rows of x: 04_linear_all_reduce.

    Parameters
    ----------
    x, weight, bias, residual, out : as `decode_linear.linear` takes them; x and weight are this rank's columns, bias
        and residual the same on every rank. All of them but the bias have a dimension more, the ranks, where `inbox`
        is that of all ranks
    inbox : Inbox of `num_blocks(x)` blocks a rank, used for nothing else

    Returns
    -------
    out : tensor, (num_tokens, size_n), the same bits on every rank

    Raises
    ------
    ShapeError        shapes, dtypes or strides that do not fit; more sums than the inbox has room for
    UnsupportedError  as `decode_linear.linear`

    Notes
    -----
    Cost      as `decode_linear.linear`; 4 * num_tokens * size_n bytes of data sent to each other rank
    Numerics  parts and their sum in float32, in the order of the ranks, rounded once
    Waits     for all ranks, as `all_reduce.one_shot`
    """
    return ran(plan(x, weight, inbox, bias=bias, residual=residual, out=out))


@typed
def plan(x, weight, inbox, *, bias=None, residual=None, out=None):
    """The launch of 04_linear_all_reduce, not yet run."""
    require_inbox(inbox)
    ranks_here, grid = inbox.epochs.shape
    if ranks_here == 1:
        shaped = require_linear(x, weight, bias, residual, out)
        first_x, first_weight = x, weight
    else:
        first_x, first_weight, shaped = _require_ranks(x, weight, bias, residual, out, ranks_here)
    num_tokens, size_n = shaped.shape[-2:]
    if not takes(num_tokens, first_weight, inbox):
        raise ShapeError(f"{num_tokens} tokens of {size_n} sums are more than the {inbox.capacity} pairs of the inbox.")
    tensors = (x, weight, bias, residual, inbox.offsets, shaped, inbox.words, inbox.epochs)
    sizes = (num_tokens, size_n, x.shape[-1], inbox.capacity, inbox.first_rank)
    options = {"grid": grid, "num_ranks": ranks_here}
    defines = {"NUM_RANKS": inbox.num_ranks}
    return stream_launch("04_linear_all_reduce", first_x, size_n, (*tensors, *sizes), shaped, defines, **options)


def takes(num_tokens, weight, inbox):
    """Whether an inbox has room for the sums of so many tokens and a weight (size_n, size_k)."""
    return num_tokens <= MAX_TOKENS and num_tokens * ceil_div(len(weight), 2) <= inbox.capacity


def num_blocks(tensor):
    """Blocks of a rank's launch: one for each multiprocessor of the card of `tensor`, whatever the sizes."""
    return slots(tensor, 1)


def _require_ranks(x, weight, bias, residual, out, ranks_here):
    """(x, weight of the first rank, out of all of them), after the checks."""
    for name, tensor in (("x", x), ("weight", weight), ("residual", residual), ("out", out)):
        if tensor is not None and (tensor.ndim != 3 or len(tensor) != ranks_here or not tensor.is_contiguous()):
            raise ShapeError(
                f"{name} is {tuple(tensor.shape)}; expected 3 dimensions, the first of {ranks_here} ranks."
            )
    firsts = [None if tensor is None else tensor[0] for tensor in (residual, out)]
    shape = require_linear(x[0], weight[0], bias, *firsts).shape
    return x[0], weight[0], torch.empty(ranks_here, *shape, dtype=x.dtype, device=x.device) if out is None else out
