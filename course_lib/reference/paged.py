"""Attention over pages by its definition, to compare kernels with: gather the pages, then attention in float64.

Only the first ``seq_lens[b]`` slots of a sequence and the table entries of their pages are read. Other slots, pages and
table entries are undefined and may be NaN or -1.

May import: torch, reference.attention, reference.decode.
"""

import torch

from . import attention as _attention
from .decode import of_each_sequence

NEG_INF = float("-inf")


def gathered(pages, block_table, seq_len, *, layout="NHD"):
    """The first `seq_len` rows of one sequence, in the order of its tokens.

    Parameters
    ----------
    pages : tensor, "NHD": (num_pages, page_size, num_kv_heads, head_dim),
        "HND": (num_pages, num_kv_heads, page_size, head_dim); any dtype
    block_table : tensor, (max_pages,), int32: physical page of each ``page_size`` tokens of this sequence
    seq_len : int, tokens of the sequence

    Returns
    -------
    tensor, (num_kv_heads, seq_len, head_dim), a copy in the dtype of `pages`
    """
    rows = by_slot(pages, layout)
    page_size = rows.shape[1]
    used = block_table[: -(-int(seq_len) // page_size)].long()
    return rows[used].flatten(0, 1)[: int(seq_len)].transpose(0, 1).contiguous()


def by_slot(pages, layout="NHD"):
    """A pool as (num_pages, page_size, num_kv_heads, head_dim), from either layout; a view."""
    return pages if layout == "NHD" else pages.transpose(1, 2)


def paged_attention_lse(q, k_pages, v_pages, block_table, seq_lens, *, layout="NHD", softmax_scale=None):
    """softmax(q k^T * softmax_scale) v of one query a sequence, over its pages, in float64.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, head_dim), any float dtype
    k_pages, v_pages : tensors, pools of pages as in `gathered`
    block_table : tensor, (batch_size, max_pages), int32
    seq_lens : tensor, (batch_size,), int32

    Returns
    -------
    out : tensor, (batch_size, num_heads, head_dim), float64; 0 for a sequence without tokens
    lse : tensor, (batch_size, num_heads), float64, natural log; -inf for a sequence without tokens
    """

    def rows_of(b, seq_len):
        return (gathered(pages, block_table[b], seq_len, layout=layout) for pages in (k_pages, v_pages))

    return of_each_sequence(q, seq_lens, rows_of, softmax_scale)


def paged_prefill_lse(q, k_pages, v_pages, block_table, seq_lens, cu_seqlens_q, *, layout="NHD", softmax_scale=None):
    """Causal attention of the last queries of each sequence over its pages, in float64.

    Parameters
    ----------
    q : tensor, (total_q, num_heads, head_dim): the new tokens of all sequences, one sequence after the other
    cu_seqlens_q : tensor, (batch_size + 1,), int32: the offset of the first query of each sequence, and the end
    seq_lens : tensor, (batch_size,), int32: tokens in the cache, the new ones included;
        causal is bottom-right aligned: 2 queries and seq_len 5 keep
        1 1 1 1 0
        1 1 1 1 1

    Returns
    -------
    out : tensor, like `q`, float64; 0 for a row that sees no key
    lse : tensor, (total_q, num_heads), float64, natural log; -inf for a row that sees no key
    """
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    lse = torch.full(q.shape[:2], NEG_INF, dtype=torch.float64, device=q.device)
    starts = cu_seqlens_q.tolist()
    for b, seq_len in enumerate(seq_lens.tolist()):
        rows = slice(starts[b], starts[b + 1])
        if seq_len == 0 or rows.start == rows.stop:
            continue
        k, v = (gathered(pages, block_table[b], seq_len, layout=layout) for pages in (k_pages, v_pages))
        by_head = _attention.attention_lse(q[rows].transpose(0, 1), k, v, softmax_scale=softmax_scale, causal=True)
        out[rows], lse[rows] = (x.transpose(0, 1) for x in by_head)
    return out, lse


def reshape_and_cache(k, v, k_pages, v_pages, slot_mapping, *, layout="NHD"):
    """Copies of both pools with the new rows in their slots.

    Parameters
    ----------
    k, v : tensors, (num_tokens, num_kv_heads, head_dim)
    slot_mapping : tensor, (num_tokens,), int64: page * page_size + slot; a row with a negative slot is not stored
    """
    pools = []
    for rows, pages in ((k, k_pages), (v, v_pages)):
        pages = pages.clone()
        page_size, stored = by_slot(pages, layout).shape[1], slot_mapping >= 0
        slots = slot_mapping[stored]
        by_slot(pages, layout)[slots // page_size, slots % page_size] = rows[stored]
        pools.append(pages)
    return tuple(pools)
