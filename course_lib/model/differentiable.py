"""The operations of a GPT-2 block with their gradients: the course's kernels, and torch's under the same names.

Matrix products are torch's in both tables. The course's are its PyTorch operators; on a CPU they run on the SIMT
machine in float32, where attention is step 01 of FlashAttention-2 and its teaching backward pass.

May import: errors, ops, operators, torch.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from .. import operators
from ..errors import UnsupportedError
from ..ops.flash_attention_2 import flash_attention_2, flash_attention_2_backward

EPS = 1e-5  # of GPT-2's LayerNorm


class Operations(NamedTuple):
    """One function each; tensors are contiguous but q, k and v, and of one dtype."""

    embed: Callable  # ids (batch_size, seq_len), table, position_table -> (batch_size, seq_len, width)
    layer_norm: Callable  # x, weight, bias -> like x
    attention: Callable  # q, k, v, each (batch_size, num_heads, seq_len, head_dim) -> like q; causal
    gelu: Callable  # x -> like x; the tanh form
    cross_entropy: Callable  # logits (num_tokens, vocab_size), targets (num_tokens,) -> mean loss, float32


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


def _course_attention(q, k, v):
    if q.is_cuda:
        return operators.flash_attention(q, k, v, True)[0]
    return _TeachingAttention.apply(*(x.contiguous() for x in (q, k, v)))


def _course_embed(ids, table, position_table):
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids).contiguous()
    return operators.embedding(ids, table, positions, position_table)


def _torch_embed(ids, table, position_table):
    return functional.embedding(ids, table) + position_table[: ids.shape[1]]


COURSE = Operations(
    _course_embed,
    lambda x, weight, bias: operators.layer_norm(x, weight, bias, EPS),
    _course_attention,
    lambda x: operators.gelu_tanh(x),
    lambda logits, targets: operators.cross_entropy(logits, targets)[0].mean(),
)
TORCH = Operations(
    _torch_embed,
    lambda x, weight, bias: functional.layer_norm(x, weight.shape, weight, bias, EPS),
    lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    lambda x: functional.gelu(x, approximate="tanh"),
    lambda logits, targets: functional.cross_entropy(logits.float(), targets),
)


def operations(kernels):
    """The Operations called "course" or "torch".

    Raises
    ------
    UnsupportedError  another name
    """
    tables = {"course": COURSE, "torch": TORCH}
    if kernels not in tables:
        raise UnsupportedError(f"kernels={kernels!r} is unknown; choose one of {', '.join(tables)}.")
    return tables[kernels]
