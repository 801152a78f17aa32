"""course::rope, course::gelu_tanh and course::swiglu, with gradients, and rope in place.

May import: ops, torch.
"""

import torch
from torch import Tensor

from ..ops import activation as gates
from ..ops import rope as positions_of


@torch.library.custom_op("course::rope", mutates_args=())
def rope(
    q: Tensor, k: Tensor, positions: Tensor, cos_sin: Tensor, interleaved: bool = False, inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """q and k turned by their positions, differentiable in both; tensors, options and errors as `ops.rope.rope`.

    Returns
    -------
    q_out, k_out : tensors, shapes and dtypes of q and k, contiguous
    """
    options = {"interleaved": interleaved, "inverse": inverse, "out": (q.new_empty(q.shape), k.new_empty(k.shape))}
    return positions_of.rope(q, k, positions, cos_sin, **options)


@rope.register_fake
def _(q, k, positions, cos_sin, interleaved=False, inverse=False):
    return q.new_empty(q.shape), k.new_empty(k.shape)


def _save_rope(ctx, inputs, output):
    _, _, positions, cos_sin, interleaved, inverse = inputs
    ctx.save_for_backward(positions, cos_sin)
    ctx.options = interleaved, not inverse  # a rotation's gradient is the rotation back


def _rope_gradients(ctx, dq, dk):
    return *rope(dq.contiguous(), dk.contiguous(), *ctx.saved_tensors, *ctx.options), None, None, None, None


rope.register_autograd(_rope_gradients, setup_context=_save_rope)


@torch.library.custom_op("course::rope_", mutates_args=("q", "k"))
def rope_(q: Tensor, k: Tensor, positions: Tensor, cos_sin: Tensor, interleaved: bool = False) -> None:
    """q and k turned in place, without gradient; tensors as `ops.rope.rope`."""
    positions_of.rope(q, k, positions, cos_sin, interleaved=interleaved)


@rope_.register_fake
def _(q, k, positions, cos_sin, interleaved=False):
    return None


@torch.library.custom_op("course::gelu_tanh", mutates_args=())
def gelu_tanh(x: Tensor) -> Tensor:
    """tanh-GELU, differentiable; tensors and errors as `ops.activation.gelu_tanh`, out contiguous."""
    return gates.gelu_tanh(x)


@gelu_tanh.register_fake
def _(x):
    return x.new_empty(x.shape)


@torch.library.custom_op("course::gelu_tanh_backward", mutates_args=())
def gelu_tanh_backward(d_out: Tensor, x: Tensor) -> Tensor:
    """The gradient of course::gelu_tanh."""
    return gates.gelu_tanh_backward(d_out.contiguous(), x)


@gelu_tanh_backward.register_fake
def _(d_out, x):
    return x.new_empty(x.shape)


gelu_tanh.register_autograd(
    lambda ctx, d_out: gelu_tanh_backward(d_out, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@torch.library.custom_op("course::swiglu", mutates_args=())
def swiglu(gate: Tensor, up: Tensor | None = None, activation: str = "silu") -> Tensor:
    """activation(gate) * up, differentiable; tensors, options and errors as `ops.activation.swiglu`, out contiguous.

    Without `up`, `gate` holds both, (..., 2 * num_cols), and its gradient is made in one piece.
    """
    return gates.swiglu(gate, up, activation=activation)


@swiglu.register_fake
def _(gate, up=None, activation="silu"):
    return gate.new_empty(gate.shape if up is not None else (*gate.shape[:-1], gate.shape[-1] // 2))


@torch.library.custom_op("course::swiglu_backward", mutates_args=())
def swiglu_backward(d_out: Tensor, gate: Tensor, up: Tensor | None, activation: str) -> list[Tensor]:
    """[d_gate, d_up] of course::swiglu, or [gradient of both] where `up` is None."""
    gradients = gates.swiglu_backward(d_out.contiguous(), gate, up, activation=activation)
    return [gradients] if up is None else list(gradients)


@swiglu_backward.register_fake
def _(d_out, gate, up, activation):
    return [x.new_empty(x.shape) for x in (gate, up) if x is not None]


def _save_swiglu(ctx, inputs, output):
    gate, up, ctx.activation = inputs
    ctx.save_for_backward(gate, up)


def _swiglu_gradients(ctx, d_out):
    d_gate, *d_up = swiglu_backward(d_out, *ctx.saved_tensors, ctx.activation)
    return d_gate, d_up[0] if d_up else None, None


swiglu.register_autograd(_swiglu_gradients, setup_context=_save_swiglu)
