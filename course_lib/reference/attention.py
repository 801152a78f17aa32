"""Attention by its definition, to compare kernels with. Written to be read, not to be fast.

Functions without a prefix compute in float64 and are the oracle; `rounded_*` compute in the tensors' own dtype and
round every intermediate to it. The causal mask is aligned to the bottom right, a KV head serves
num_heads / num_kv_heads neighbouring query heads, and a row that sees no key has out = 0 and lse = -inf.

May import: torch, reference.softmax.
"""

import torch

from .softmax import rounded_log_sum_exp, rounded_softmax

NEG_INF = float("-inf")


def attention(q, k, v, *, softmax_scale=None, causal=False):
    """softmax(q k^T * softmax_scale) v in float64.

    Parameters
    ----------
    q : tensor, (..., num_heads, seq_len_q, head_dim) or (seq_len_q, head_dim), any float dtype
    k : tensor, (..., num_kv_heads, seq_len_kv, head_dim) or (seq_len_kv, head_dim); num_kv_heads divides num_heads
    v : tensor, like k, (…, seq_len_kv, head_dim_v)
    softmax_scale : float, dimensionless; default ``head_dim**-0.5``
    causal : bool; bottom-right aligned. seq_len_q = 2, seq_len_kv = 5 keeps
        1 1 1 1 0
        1 1 1 1 1

    Returns
    -------
    tensor, (..., seq_len_q, head_dim_v), float64; 0 for a row that sees no key
    """
    return attention_lse(q, k, v, softmax_scale=softmax_scale, causal=causal)[0]


def attention_lse(q, k, v, *, softmax_scale=None, causal=False):
    """`attention` and the log-sum-exp of its scaled scores, both float64.

    Returns
    -------
    out : tensor, (..., seq_len_q, head_dim_v), float64; 0 for a row that sees no key
    lse : tensor, (..., seq_len_q), float64, natural log; -inf for a row that sees no key
    """
    scale = {"softmax_scale": softmax_scale, "causal": causal}
    return rounded_attention_lse(q.double(), k.double(), v.double(), **scale)


def rounded_attention(q, k, v, *, softmax_scale=None, causal=False):
    """`attention` in the dtype of its arguments: scores, scaled scores, weights and result each rounded to it."""
    return rounded_attention_lse(q, k, v, softmax_scale=softmax_scale, causal=causal)[0]


def rounded_attention_lse(q, k, v, *, softmax_scale=None, causal=False):
    """`attention_lse` in the dtype of its arguments, every intermediate rounded to it."""
    scores = rounded_scores(q, k, softmax_scale=softmax_scale, causal=causal)
    return rounded_softmax(scores) @ of_each_query_head(v, q), rounded_log_sum_exp(scores)


def rounded_scores(q, k, *, softmax_scale=None, causal=False):
    """Scaled scores in the dtype of the arguments, (..., seq_len_q, seq_len_kv); -inf where a key is masked."""
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    return masked((q @ of_each_query_head(k, q).transpose(-1, -2)) * scale, causal=causal)


def masked(scores, *, causal=True):
    """Scores with -inf at every key that is masked, (..., seq_len_q, seq_len_kv)."""
    if not causal:
        return scores
    visible = visible_keys(*scores.shape[-2:]).to(scores.device)
    return torch.where(visible, scores, torch.full_like(scores, NEG_INF))


def visible_keys(seq_len_q, seq_len_kv):
    """Which keys each query may see, causal, bottom-right aligned: the last query sees every key.

    Returns
    -------
    tensor, (seq_len_q, seq_len_kv), bool
    """
    q_row, key = torch.arange(seq_len_q)[:, None], torch.arange(seq_len_kv)[None, :]
    return key <= q_row + seq_len_kv - seq_len_q


def of_each_query_head(kv, q):
    """k or v repeated to one head for each head of q: KV head h // (num_heads / num_kv_heads) for query head h."""
    if q.dim() < 3 or q.shape[-3] == kv.shape[-3]:
        return kv
    return kv.repeat_interleave(q.shape[-3] // kv.shape[-3], dim=-3)
