"""Chapter 04, tiled matrix product and tensor cores: its five exercises, in order.

May import: the modules that hold them.
"""

from .matmul_fragments import FRAGMENTS
from .matmul_kernels import PADDED, TAILS
from .matmul_tiles import PICK_TILE
from .matmul_triton import TRITON

EXERCISES = (TAILS, PADDED, FRAGMENTS, TRITON, PICK_TILE)
