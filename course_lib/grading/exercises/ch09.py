"""Chapter 09, Flash-Decoding: its exercises, in order.

May import: the modules that hold them.
"""

from .decode_torch import COMBINE_TORCH

EXERCISES = (COMBINE_TORCH,)
