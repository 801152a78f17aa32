"""The course's kernels as PyTorch operators, ``torch.ops.course.…``: for torch.compile, CUDA graphs, libraries.

An operator is a kernel with what PyTorch must know about it: which arguments it changes, which shapes, dtypes and
strides its outputs have (the fake), and what its gradient is. Each is `torch.library.custom_op`, checked by
`torch.library.opcheck`. Importing this room registers all of them.

- `attention`: course::flash_attention and its gradient
- `paged`: course::paged_attention, course::paged_prefill, course::reshape_and_cache
- `transformers`: the same attention under the interface of the transformers library

May import: errors, ops, its own modules, torch.
"""

from .attention import flash_attention, flash_attention_backward
from .paged import paged_attention, paged_prefill, reshape_and_cache
from .transformers import attend, register_with_transformers

__all__ = [
    "attend",
    "flash_attention",
    "flash_attention_backward",
    "paged_attention",
    "paged_prefill",
    "register_with_transformers",
    "reshape_and_cache",
]
