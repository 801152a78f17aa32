"""course::embedding and course::cross_entropy, with gradients, and course::sample: what touches a vocabulary.

May import: ops, torch.
"""

import torch
from torch import Tensor

from ..ops import cross_entropy as losses
from ..ops import embedding as tables
from ..ops import sampling


@torch.library.custom_op("course::embedding", mutates_args=())
def embedding(
    ids: Tensor, table: Tensor, positions: Tensor | None = None, position_table: Tensor | None = None
) -> Tensor:
    """table[ids] + position_table[positions], differentiable in both tables; as `ops.embedding.embedding`."""
    return tables.embedding(ids, table, positions=positions, position_table=position_table)


@embedding.register_fake
def _(ids, table, positions=None, position_table=None):
    return table.new_empty(*ids.shape, table.shape[1])


@torch.library.custom_op("course::embedding_backward", mutates_args=())
def embedding_backward(d_out: Tensor, ids: Tensor, num_ids: int) -> Tensor:
    """The gradient of a table of course::embedding, (num_ids, num_cols), deterministic."""
    return tables.embedding_backward(d_out.contiguous(), ids, num_ids)


@embedding_backward.register_fake
def _(d_out, ids, num_ids):
    return d_out.new_empty(num_ids, d_out.shape[-1])


def _save_embedding(ctx, inputs, output):
    ids, table, positions, position_table = inputs
    ctx.save_for_backward(ids, positions)
    ctx.num_ids = [0 if each is None else each.shape[0] for each in (table, position_table)]


def _embedding_gradients(ctx, d_out):
    (ids, positions), (num_ids, num_positions) = ctx.saved_tensors, ctx.num_ids
    d_table = embedding_backward(d_out, ids, num_ids) if ctx.needs_input_grad[1] else None
    # arguments left at their defaults are not in needs_input_grad
    has_positions = positions is not None and ctx.needs_input_grad[3]
    return None, d_table, None, embedding_backward(d_out, positions, num_positions) if has_positions else None


embedding.register_autograd(_embedding_gradients, setup_context=_save_embedding)


@torch.library.custom_op("course::cross_entropy", mutates_args=())
def cross_entropy(
    logits: Tensor, targets: Tensor, ignore_index: int = -100, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Loss of every row, differentiable in the logits; tensors and errors as `ops.cross_entropy.cross_entropy`.

    Returns
    -------
    loss, lse : tensors, (num_rows,), float32; no gradient flows through lse
    """
    return losses.cross_entropy(logits, targets, ignore_index=ignore_index, label_smoothing=label_smoothing)


@cross_entropy.register_fake
def _(logits, targets, ignore_index=-100, label_smoothing=0.0):
    return tuple(logits.new_empty(logits.shape[:1], dtype=torch.float32) for _ in range(2))


@torch.library.custom_op("course::cross_entropy_backward", mutates_args=())
def cross_entropy_backward(
    d_loss: Tensor, logits: Tensor, targets: Tensor, lse: Tensor, ignore_index: int, label_smoothing: float
) -> Tensor:
    """The gradient of the logits, a new tensor: autograd may still need them."""
    options = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "out": logits.new_empty(logits.shape)}
    return losses.cross_entropy_backward(d_loss, logits, targets, lse, **options)


@cross_entropy_backward.register_fake
def _(d_loss, logits, targets, lse, ignore_index, label_smoothing):
    return logits.new_empty(logits.shape)


def _save_cross_entropy(ctx, inputs, output):
    logits, targets, *ctx.options = inputs
    loss, lse = output
    ctx.save_for_backward(logits, targets, lse)
    ctx.mark_non_differentiable(lse)


def _cross_entropy_gradients(ctx, d_loss, _):
    return cross_entropy_backward(d_loss, *ctx.saved_tensors, *ctx.options), None, None, None


cross_entropy.register_autograd(_cross_entropy_gradients, setup_context=_save_cross_entropy)


@torch.library.custom_op("course::sample", mutates_args=())
def sample(
    logits: Tensor, temperature: Tensor, noise: Tensor, top_k: Tensor | None = None, top_p: Tensor | None = None,
    min_p: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A token of every row, (num_rows,) int64; tensors and errors as `ops.sampling.sample`. It has no gradient."""
    return sampling.sample(logits, temperature, noise, top_k=top_k, top_p=top_p, min_p=min_p)


@sample.register_fake
def _(logits, temperature, noise, top_k=None, top_p=None, min_p=None):
    return logits.new_empty(logits.shape[:1], dtype=torch.int64)
