"""FlashAttention-2, the one door: the ladder of kernels forward, the teaching backward, and attention that learns.

- `flash_attention_2`, `plan`: one step of the ladder, forward; VARIANTS lists the steps
- `flash_attention_2_backward`, `plan_backward`: gradients by three teaching kernels
- `flash_attention`, `flash_attention_lse`, `backward`: differentiable, the fastest Triton kernels or plain torch

May import: its own modules, ops._foundation.sizes.
"""

from .._foundation.sizes import HEAD_DIMS
from ._autograd import BACKENDS, backward, flash_attention, flash_attention_lse
from ._backward import BACKWARD_TILES, STEM_BACKWARD, flash_attention_2_backward, plan_backward
from ._ladder import BLOCK_M, BLOCK_N, BLOCK_N_WIDE, VARIANTS, flash_attention_2, plan

__all__ = [
    "BACKENDS",
    "BACKWARD_TILES",
    "BLOCK_M",
    "BLOCK_N",
    "BLOCK_N_WIDE",
    "HEAD_DIMS",
    "STEM_BACKWARD",
    "VARIANTS",
    "backward",
    "flash_attention",
    "flash_attention_2",
    "flash_attention_2_backward",
    "flash_attention_lse",
    "plan",
    "plan_backward",
]
