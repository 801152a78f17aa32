"""Chapter 03, online softmax: its seven exercises, in order.

May import: the modules that hold them.
"""

from .softmax_kernels import LOG_SUM_EXP, MASKED, ONLINE_TILE
from .softmax_torch import COUNTER_EXAMPLE, MERGE, WEIGHTED_SUM

EXERCISES = (MERGE, WEIGHTED_SUM, ONLINE_TILE, LOG_SUM_EXP, MASKED, COUNTER_EXAMPLE)
