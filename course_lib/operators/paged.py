"""course::paged_attention, course::paged_prefill and course::reshape_and_cache: attention over pages as operators.

Without gradients: they serve. `reshape_and_cache` says that it changes the pools, so that a compiler keeps its order.

May import: ops, torch.
"""

import torch
from torch import Tensor

from ..ops import paged
from ..ops import paged_prefill as prefill


@torch.library.custom_op("course::paged_attention", mutates_args=())
def paged_attention(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, seq_lens: Tensor,
    softmax_scale: float | None = None, max_seq_len: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention of one query a sequence over its pages; tensors, results and errors as `ops.paged.paged_attention`.

    The pools have the layout NHD: (num_pages, page_size, num_kv_heads, head_dim).
    """
    options = {"softmax_scale": softmax_scale, "max_seq_len": max_seq_len}
    return paged.paged_attention(q, k_pages, v_pages, block_table, seq_lens, **options)


@paged_attention.register_fake
def _(q, k_pages, v_pages, block_table, seq_lens, softmax_scale=None, max_seq_len=None):
    return _outputs(q)


@torch.library.custom_op("course::paged_prefill", mutates_args=())
def paged_prefill(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, seq_lens: Tensor, cu_seqlens_q: Tensor,
    max_seq_len_q: int, softmax_scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Causal attention of several new tokens a sequence; tensors, results and errors as `ops.paged_prefill`."""
    arguments = (q, k_pages, v_pages, block_table, seq_lens, cu_seqlens_q)
    return prefill.paged_prefill(*arguments, max_seq_len_q=max_seq_len_q, softmax_scale=softmax_scale)


@paged_prefill.register_fake
def _(q, k_pages, v_pages, block_table, seq_lens, cu_seqlens_q, max_seq_len_q, softmax_scale=None):
    return _outputs(q)


@torch.library.custom_op("course::reshape_and_cache", mutates_args=("k_pages", "v_pages"))
def reshape_and_cache(k: Tensor, v: Tensor, k_pages: Tensor, v_pages: Tensor, slot_mapping: Tensor) -> None:
    """Write new keys and values into their slots of the pools; tensors and errors as `ops.paged.reshape_and_cache`."""
    paged.reshape_and_cache(k, v, k_pages, v_pages, slot_mapping)


@reshape_and_cache.register_fake
def _(k, v, k_pages, v_pages, slot_mapping):
    return None


def _outputs(q):
    """Fakes of out and lse."""
    return q.new_empty(q.shape), q.new_empty(q.shape[:2], dtype=torch.float32)
