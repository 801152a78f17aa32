"""The course's kernels as PyTorch operators, ``torch.ops.course.…``: for torch.compile, CUDA graphs, libraries.

An operator is a kernel with what PyTorch must know about it: which arguments it changes, which shapes, dtypes and
strides its outputs have (the fake), and what its gradient is. Each is `torch.library.custom_op`, checked by
`torch.library.opcheck`. Importing this room registers all of them.

- `attention`: course::flash_attention and its gradient
- `paged`: course::paged_attention, course::paged_prefill, course::reshape_and_cache
- `norm`: course::layer_norm, course::rms_norm, course::add_rms_norm and their gradients, course::add_rms_norm_
- `elementwise`: course::rope, course::gelu_tanh, course::swiglu and their gradients, course::rope_
- `vocabulary`: course::embedding, course::cross_entropy and their gradients, course::sample
- `products`: course::w4a16_linear, course::moe
- `transformers`: the same attention under the interface of the transformers library

A name that ends in `_` changes its arguments and says so in its schema.

May import: errors, ops, its own modules, torch.
"""

from .attention import flash_attention, flash_attention_backward
from .elementwise import gelu_tanh, gelu_tanh_backward, rope, rope_, swiglu, swiglu_backward
from .norm import (
    add_rms_norm,
    add_rms_norm_,
    layer_norm,
    layer_norm_backward,
    rms_norm,
    rms_norm_backward,
)
from .paged import paged_attention, paged_prefill, reshape_and_cache
from .products import moe, w4a16_linear
from .transformers import attend, register_with_transformers
from .vocabulary import cross_entropy, cross_entropy_backward, embedding, embedding_backward, sample

__all__ = [
    "add_rms_norm",
    "add_rms_norm_",
    "attend",
    "cross_entropy",
    "cross_entropy_backward",
    "embedding",
    "embedding_backward",
    "flash_attention",
    "flash_attention_backward",
    "gelu_tanh",
    "gelu_tanh_backward",
    "layer_norm",
    "layer_norm_backward",
    "moe",
    "paged_attention",
    "paged_prefill",
    "register_with_transformers",
    "reshape_and_cache",
    "rms_norm",
    "rms_norm_backward",
    "rope",
    "rope_",
    "sample",
    "swiglu",
    "swiglu_backward",
    "w4a16_linear",
]
