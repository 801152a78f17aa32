"""Attention by its definition, to compare kernels with. Written to be read, not to be fast.

The plain name computes in float64 and is the oracle; `rounded_attention` computes in the tensors' own dtype and rounds
every intermediate to it.

May import: torch, reference.softmax.
"""

from .softmax import rounded_softmax


def attention(q, k, v, *, softmax_scale=None):
    """softmax(q k^T * softmax_scale) v in float64; every query sees every key.

    Parameters
    ----------
    q : tensor, (..., seq_len_q, head_dim), any float dtype
    k : tensor, (..., seq_len_kv, head_dim)
    v : tensor, (..., seq_len_kv, head_dim_v)
    softmax_scale : float, dimensionless; default ``head_dim**-0.5``

    Returns
    -------
    tensor, (..., seq_len_q, head_dim_v), float64
    """
    return rounded_attention(q.double(), k.double(), v.double(), softmax_scale=softmax_scale)


def rounded_attention(q, k, v, *, softmax_scale=None):
    """`attention` in the dtype of its arguments: scores, scaled scores, weights and result each rounded to it."""
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    scores = (q @ k.transpose(-1, -2)) * scale
    return rounded_softmax(scores) @ v
