"""The exercises of chapter 05, standard attention and operator fusion.

May import: the chapter's exercise modules.
"""

from .attention_kernels import GROUPED, NAIVE
from .attention_traffic import TRAFFIC
from .fused_attention_softmax import FUSED_CUDA, FUSED_TRITON

EXERCISES = (NAIVE, FUSED_CUDA, FUSED_TRITON, GROUPED, TRAFFIC)
