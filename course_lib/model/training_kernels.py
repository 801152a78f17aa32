"""The operations of a model while it learns: with gradients, and with dropout.

Matrix products are torch's. On a GPU "course" means the course's operators. On a CPU these run on the SIMT machine in
float32, and attention is step 01 of FlashAttention-2 with its teaching backward pass.

May import: ops, model.kernels, torch.
"""

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ..ops.flash_attention_2 import flash_attention_2, flash_attention_2_backward
from .kernels import Kernels

DROPPED = ("embedding", "attention", "gelu")  # operations whose output loses a share of its numbers


class _TeachingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        out, lse = flash_attention_2(q, k, v, causal=True, variant="01_loop_order")
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, d_out):
        return flash_attention_2_backward(*ctx.saved_tensors, d_out.contiguous(), causal=True)


def teaching_attention(q, k, v):
    """Causal attention with its gradient by chapter 07's kernels, float32; tensors as `torch_kernels.attention`."""
    return _TeachingAttention.apply(*(x.contiguous() for x in (q, k, v)))


def training_kernels(backend, device="cpu", dropout=0.0):
    """Kernels to learn with.

    Parameters
    ----------
    backend : "course" or "torch"
    device : str
    dropout : float, the share of DROPPED's outputs that is set to 0
    """
    kernels = Kernels(backend, linear="torch")
    if backend == "course" and not device.startswith("cuda"):
        kernels.put("attention", teaching_attention, "course")
    for operation in DROPPED if dropout else ():
        kernels.put(operation, _dropping(getattr(kernels, operation), dropout), backend)
    return kernels


def _dropping(function, dropout):
    return lambda *arguments: functional.dropout(function(*arguments), dropout)
