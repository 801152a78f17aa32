"""course::flash_attention: attention with its gradient as one operator.

May import: ops, torch.
"""

import torch
from torch import Tensor

from ..ops.flash_attention_2 import backward, flash_attention_lse


@torch.library.custom_op("course::flash_attention", mutates_args=())
def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, softmax_scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Exact attention, differentiable: `ops.flash_attention_2.flash_attention_lse` as an operator.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, seq_len_q, head_dim), a float type; batch, head and row may have any strides
    k, v : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim), like `q`; num_kv_heads divides num_heads
    causal : bool; bottom-right aligned
    softmax_scale : float or None, dimensionless; None: ``head_dim**-0.5``

    Returns
    -------
    out : tensor, shape and dtype of `q`, contiguous; zero for a fully masked row
    lse : tensor, (batch_size, num_heads, seq_len_q), float32 (float64 from float64 inputs), natural log; -inf for a
        fully masked row. No gradient flows through it

    Raises
    ------
    ShapeError, UnsupportedError  as `ops.flash_attention_2.flash_attention`
    """
    with torch.no_grad():
        out, lse = flash_attention_lse(q, k, v, causal=causal, softmax_scale=softmax_scale)
    return out.contiguous(), lse.contiguous()


@flash_attention.register_fake
def _(q, k, v, causal=False, softmax_scale=None):
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=_float(q))


@torch.library.custom_op("course::flash_attention_backward", mutates_args=())
def flash_attention_backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, d_out: Tensor, causal: bool, softmax_scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of course::flash_attention with respect to q, k and v, from `out` and `lse` of the forward pass.

    Returns
    -------
    dq, dk, dv : tensors, shapes and dtypes of q, k and v, contiguous
    """
    gradients = backward(q, k, v, out, lse, d_out, causal=causal, softmax_scale=softmax_scale)
    return tuple(gradient.contiguous() for gradient in gradients)


@flash_attention_backward.register_fake
def _(q, k, v, out, lse, d_out, causal, softmax_scale):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _save(ctx, inputs, output):
    q, k, v, causal, softmax_scale = inputs
    out, lse = output
    ctx.save_for_backward(q, k, v, out, lse)
    ctx.options = causal, softmax_scale
    ctx.mark_non_differentiable(lse)


def _gradients(ctx, d_out, _):
    return *flash_attention_backward(*ctx.saved_tensors, d_out, *ctx.options), None, None


flash_attention.register_autograd(_gradients, setup_context=_save)


def _float(q):
    """The dtype of lse."""
    return torch.float64 if q.dtype == torch.float64 else torch.float32
