"""The page pool: key-value caches of many sequences in pages of one memory.

`PageAllocator` counts who uses a page; `PagePool` gives sequences their tokens' places, shares pages between forks and
copies a page before somebody writes into one that is shared; `fragmentation` compares that with one piece of memory a
sequence. No tensor of keys or values lives here: slots and tables are what kernels take, copies are what they do first.

May import: errors, notation, device, cuda, triton, triton_kernels; torch.
"""

from .allocator import PageAllocator
from .fragmentation import PAGE_SIZES, Use, contiguous_use, page_size_use, paged_use
from .pool import PagePool, Places
from .trace import Request, random_trace

__all__ = [
    "PAGE_SIZES",
    "PageAllocator",
    "PagePool",
    "Places",
    "Request",
    "Use",
    "contiguous_use",
    "page_size_use",
    "paged_use",
    "random_trace",
]
