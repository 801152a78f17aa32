"""Chapter 10, PagedAttention: its exercises, in order.

May import: the modules that hold them.
"""

from .kv_pool import POOL
from .paged_int8 import INT8
from .paged_partitions import PARTITIONS
from .paged_quantise import QUANTISE
from .paged_table import TABLE
from .paged_tiles import TILES
from .paged_v1 import V1
from .paged_write import WRITE

EXERCISES = (TABLE, WRITE, V1, TILES, PARTITIONS, POOL, QUANTISE, INT8)
