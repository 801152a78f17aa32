"""course::layer_norm, course::rms_norm and course::add_rms_norm, with gradients, and the latter in place.

May import: ops, torch.
"""

import torch
from torch import Tensor

from ..ops import norm, norm_backward


def _like(x):
    """Fake of a new contiguous tensor with the shape and dtype of `x`."""
    return x.new_empty(x.shape)


@torch.library.custom_op("course::layer_norm", mutates_args=())
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """LayerNorm, differentiable in x, weight and bias; tensors and errors as `ops.norm.layer_norm`, out contiguous."""
    return norm.layer_norm(x, weight, bias, eps=eps)


@layer_norm.register_fake
def _(x, weight, bias=None, eps=1e-5):
    return _like(x)


@torch.library.custom_op("course::layer_norm_backward", mutates_args=())
def layer_norm_backward(d_out: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(dx, d_weight, d_bias) of course::layer_norm."""
    dx, d_weight, d_bias = norm_backward.layer_norm_backward(d_out.contiguous(), x, weight, eps=eps)
    return dx, d_weight, d_bias.clone()  # it was a view of the storage of d_weight


@layer_norm_backward.register_fake
def _(d_out, x, weight, eps):
    return _like(x), _like(weight), _like(weight)


def _save_layer_norm(ctx, inputs, output):
    x, weight, bias, ctx.eps = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight)


def _layer_norm_gradients(ctx, d_out):
    dx, d_weight, d_bias = layer_norm_backward(d_out, *ctx.saved_tensors, ctx.eps)
    return dx, d_weight, d_bias if ctx.has_bias else None, None


layer_norm.register_autograd(_layer_norm_gradients, setup_context=_save_layer_norm)


@torch.library.custom_op("course::rms_norm", mutates_args=())
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """RMSNorm, differentiable in x and weight; tensors and errors as `ops.norm.rms_norm`, out contiguous."""
    return norm.rms_norm(x, weight, eps=eps)


@rms_norm.register_fake
def _(x, weight, eps=1e-6):
    return _like(x)


@torch.library.custom_op("course::rms_norm_backward", mutates_args=())
def rms_norm_backward(
    d_out: Tensor, x: Tensor, weight: Tensor, eps: float, d_residual: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(dx, d_weight) of course::rms_norm; `d_residual` is added to dx."""
    d_residual = None if d_residual is None else d_residual.contiguous()
    return norm_backward.rms_norm_backward(d_out.contiguous(), x, weight, eps=eps, d_residual=d_residual)


@rms_norm_backward.register_fake
def _(d_out, x, weight, eps, d_residual=None):
    return _like(x), _like(weight)


def _save_rms_norm(ctx, inputs, output):
    x, weight, ctx.eps = inputs
    ctx.save_for_backward(x, weight)


def _rms_norm_gradients(ctx, d_out):
    return *rms_norm_backward(d_out, *ctx.saved_tensors, ctx.eps), None


rms_norm.register_autograd(_rms_norm_gradients, setup_context=_save_rms_norm)


@torch.library.custom_op("course::add_rms_norm", mutates_args=())
def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    """(out, total): total = residual + x, out its RMSNorm; differentiable in all three tensors, nothing is changed.

    Tensors and errors as `ops.norm.add_rms_norm`; results contiguous. One copy of the residual more than the kernel
    needs, which `add_rms_norm_` saves where no gradient is wanted.
    """
    total = residual.clone(memory_format=torch.contiguous_format)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    return norm.add_rms_norm(x, total, weight, eps=eps, out=out)


@add_rms_norm.register_fake
def _(x, residual, weight, eps=1e-6):
    return _like(x), _like(residual)


def _save_add_rms_norm(ctx, inputs, output):
    ctx.save_for_backward(output[1], inputs[2])
    ctx.eps = inputs[3]


def _add_rms_norm_gradients(ctx, d_out, d_total):
    dx, d_weight = rms_norm_backward(d_out, *ctx.saved_tensors, ctx.eps, d_total)
    return dx, dx, d_weight, None


add_rms_norm.register_autograd(_add_rms_norm_gradients, setup_context=_save_add_rms_norm)


@torch.library.custom_op("course::add_rms_norm_", mutates_args=("x", "residual"))
def add_rms_norm_(x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6) -> None:
    """residual += x and x = RMSNorm(residual), in place, without gradient; tensors as `ops.norm.add_rms_norm`."""
    norm.add_rms_norm(x, residual, weight, eps=eps)


@add_rms_norm_.register_fake
def _(x, residual, weight, eps=1e-6):
    return None
