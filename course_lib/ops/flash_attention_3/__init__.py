"""FlashAttention-3, for Hopper: the ladder of wgmma and TMA kernels.

- `flash_attention_3`, `plan`: one step of the ladder, forward; VARIANTS lists the steps
- `flash_attention_3_fp8`, `plan_quantise`, `plan_fp8`: the last rung, on e4m3 products
- `flash_attention_3_backward`, `plan_backward`: the gradients
- `runs_on`: whether the fastest step takes these tensors, on this card

May import: its own modules.
"""

from ._backward import STEM_BACKWARD, flash_attention_3_backward, plan_backward
from ._fp8 import FAMILY_QUANTISE, STEM_FP8, Quantised, flash_attention_3_fp8, plan_fp8, plan_quantise
from ._ladder import BLOCK_N, FAMILY, VARIANTS, flash_attention_3, plan, runs_on

__all__ = [
    "BLOCK_N",
    "FAMILY",
    "FAMILY_QUANTISE",
    "STEM_BACKWARD",
    "STEM_FP8",
    "VARIANTS",
    "Quantised",
    "flash_attention_3",
    "flash_attention_3_backward",
    "flash_attention_3_fp8",
    "plan",
    "plan_backward",
    "plan_fp8",
    "plan_quantise",
    "runs_on",
]
