"""Chapter 06, FlashAttention-1: its five exercises, in order.

May import: the modules that hold them.
"""

from .flash_blocks import BLOCK_SIZES
from .flash_kernels import CAUSAL_TRITON, FORWARD_CUDA
from .flash_torch import FORWARD_TORCH, UPDATE

EXERCISES = (UPDATE, FORWARD_TORCH, FORWARD_CUDA, CAUSAL_TRITON, BLOCK_SIZES)
