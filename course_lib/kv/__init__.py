"""The page pool: key-value caches of many sequences in pages of one memory.

`PageAllocator` counts the references to each page; `PagePool` gives tokens their slots, shares pages between forks and
copies a shared page before it is written; `fragmentation` compares that with one contiguous piece of memory a sequence.
No tensor of keys or values is held here: kernels take the slots and tables, and do the copies first.

May import: errors, notation, device, cuda, triton, triton_kernels; torch.
"""

from .allocator import PageAllocator
from .fragmentation import PAGE_SIZES, Use, contiguous_use, page_size_use, paged_use
from .moves import grow, random_moves
from .pool import PagePool, Placement
from .trace import Request, random_trace

__all__ = [
    "PAGE_SIZES",
    "PageAllocator",
    "PagePool",
    "Placement",
    "Request",
    "Use",
    "contiguous_use",
    "grow",
    "page_size_use",
    "paged_use",
    "random_moves",
    "random_trace",
]
