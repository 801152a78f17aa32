"""course::w4a16_linear and course::moe: products with weights of four bits and with the weights of experts.

Without gradients: they serve.

May import: ops, torch.
"""

import torch
from torch import Tensor

from ..ops import moe as experts
from ..ops import w4a16


@torch.library.custom_op("course::w4a16_linear", mutates_args=())
def w4a16_linear(x: Tensor, packed: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """x w^T for x (..., size_k), out (..., size_n); weights, dtypes and errors as `ops.w4a16.linear`."""
    out = w4a16.linear(x.reshape(-1, x.shape[-1]), packed, scales, zeros)
    return out.view(*x.shape[:-1], len(packed))


@w4a16_linear.register_fake
def _(x, packed, scales, zeros):
    return x.new_empty(*x.shape[:-1], packed.shape[0])


@torch.library.custom_op("course::moe", mutates_args=())
def moe(x: Tensor, router_logits: Tensor, w_up: Tensor, w_down: Tensor, top_k: int, renormalise: bool = True) -> Tensor:
    """A mixture of SwiGLU experts; tensors and errors as `ops.moe.moe`."""
    return experts.moe(x, router_logits, w_up, w_down, top_k=top_k, renormalise=renormalise)


@moe.register_fake
def _(x, router_logits, w_up, w_down, top_k, renormalise=True):
    return x.new_empty(x.shape)
