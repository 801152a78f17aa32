"""Chapter 07, FlashAttention-2: its exercises, in order.

May import: the modules that hold them.
"""

from .flash2_d_q_d_k import D_Q_D_K
from .flash2_d_v import D_V
from .flash2_forward import FORWARD_TRITON
from .flash2_lse import LOG_SUM_EXP
from .flash2_skip import SKIPPING
from .flash2_torch import LOOP_ORDER
from .flash2_warp import WARP_TILE

EXERCISES = (LOOP_ORDER, FORWARD_TRITON, SKIPPING, LOG_SUM_EXP, D_V, D_Q_D_K, WARP_TILE)
