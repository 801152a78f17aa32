"""FlashAttention-3, for Hopper: the ladder of wgmma and TMA kernels.

- `flash_attention_3`, `plan`: one step of the ladder, forward; VARIANTS lists the steps
- `runs_on`: whether the fastest step takes these tensors, on this card

May import: its own modules.
"""

from ._ladder import BLOCK_N, FAMILY, VARIANTS, flash_attention_3, plan, runs_on

__all__ = ["BLOCK_N", "FAMILY", "VARIANTS", "flash_attention_3", "plan", "runs_on"]
