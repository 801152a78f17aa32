"""Chapter 02, first kernels: its five exercises, in order.

May import: the modules that hold them.
"""

from .first_kernels import ADD_TAIL, CENTRE_ROWS, ROW_SUM
from .fused_softmax import FUSED_CUDA, FUSED_TRITON

EXERCISES = (ADD_TAIL, ROW_SUM, FUSED_TRITON, FUSED_CUDA, CENTRE_ROWS)
