"""Decode attention by its definition, to compare kernels with: one query a sequence, keys and values dense, in float64.

Only the first ``seq_lens[b]`` rows of a sequence are read. Rows past the end of the sequence are undefined and may be
NaN.

May import: torch, reference.attention.
"""

import torch

from . import attention as _attention

NEG_INF = float("-inf")


def by_head(x, layout="bhsd"):
    """Keys or values as (batch_size, num_kv_heads, capacity, head_dim), from either layout; a view."""
    return x if layout == "bhsd" else x.transpose(1, 2)


def decode_attention_lse(q, k, v, seq_lens, *, layout="bhsd", softmax_scale=None):
    """softmax(q k^T * softmax_scale) v of one query a sequence, in float64.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, head_dim), any float dtype
    k, v : tensors, "bhsd": (batch_size, num_kv_heads, capacity, head_dim),
        "bshd": (batch_size, capacity, num_kv_heads, head_dim)
    seq_lens : tensor, (batch_size,), int32: valid tokens of each sequence, 0 to capacity

    Returns
    -------
    out : tensor, (batch_size, num_heads, head_dim), float64; 0 for a sequence without tokens
    lse : tensor, (batch_size, num_heads), float64, natural log; -inf for a sequence without tokens
    """
    return of_each_sequence(
        q, seq_lens, lambda b, length: (by_head(x, layout)[b, :, :length] for x in (k, v)), softmax_scale
    )


def of_each_sequence(q, seq_lens, rows_of, softmax_scale):
    """(out, lse) of one query a sequence; rows_of(b, seq_len): its keys and values, (heads, seq_len, head_dim)."""
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    lse = torch.full(q.shape[:2], NEG_INF, dtype=torch.float64, device=q.device)
    for b, seq_len in enumerate(seq_lens.tolist()):
        if seq_len == 0:
            continue
        keys, values = rows_of(b, seq_len)
        row = _attention.attention_lse(q[b, :, None], keys, values, softmax_scale=softmax_scale)
        out[b], lse[b] = row[0][:, 0], row[1][:, 0]
    return out, lse


def split_lse(q, k, v, seq_lens, num_splits, split_len, *, layout="bhsd", softmax_scale=None):
    """Attention of each sequence over each of its splits alone, in float64.

    Parameters
    ----------
    num_splits, split_len : ints; split s of a sequence has its keys s * split_len to (s + 1) * split_len - 1

    Returns
    -------
    partial_out : tensor, (batch_size, num_heads, num_splits, head_dim), float64; 0 for a split without keys
    partial_lse : tensor, (batch_size, num_heads, num_splits), float64, natural log; -inf for a split without keys
    """
    parts = []
    for split in range(num_splits):
        first = split * split_len
        keys, values = (by_head(x, layout)[:, :, first : first + split_len] for x in (k, v))
        lens = (seq_lens - first).clamp(0, split_len)
        parts.append(decode_attention_lse(q, keys, values, lens, softmax_scale=softmax_scale))
    return tuple(torch.stack(part, dim=2) for part in zip(*parts, strict=True))


def combine(partial_out, partial_lse):
    """Merge the partial results of disjoint splits into one softmax, in float64.

    Parameters
    ----------
    partial_out : tensor, (..., num_splits, head_dim); undefined for a split without keys
    partial_lse : tensor, (..., num_splits), natural log; -inf for a split without keys

    Returns
    -------
    out : tensor, (..., head_dim), float64; 0 where no split has a key
    lse : tensor, (...), float64, natural log; -inf where no split has a key
    """
    partial_lse = partial_lse.double()
    lse = partial_lse.logsumexp(-1)
    empty = partial_lse.isneginf()[..., None]
    weights = (partial_lse - lse[..., None].masked_fill(lse[..., None].isneginf(), 0.0)).exp()
    return (weights[..., None] * partial_out.double().masked_fill(empty, 0.0)).sum(-2), lse
