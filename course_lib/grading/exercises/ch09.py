"""Chapter 09, Flash-Decoding: its exercises, in order.

May import: the modules that hold them.
"""

from .decode_choice import CHOICE
from .decode_combine import COMBINE_CUDA
from .decode_group import GROUPED
from .decode_lengths import LENGTHS_TRITON
from .decode_split import SPLIT_CUDA
from .decode_torch import COMBINE_TORCH

EXERCISES = (COMBINE_TORCH, SPLIT_CUDA, LENGTHS_TRITON, COMBINE_CUDA, CHOICE, GROUPED)
