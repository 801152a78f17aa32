"""The gradients of attention by their formulas, to compare kernels with. Written to be read, not to be fast.

With P = softmax(S), S = q k^T * scale, and an incoming gradient d_out of out = P v:

    d_v = P^T d_out      d_P = d_out v^T      D = rowsum(d_out * out)      d_S = P * (d_P - D)
    d_q = d_S k * scale  d_k = d_S^T q * scale

Functions without a prefix compute in float64 and are the oracle; `rounded_*` compute in the tensors' own dtype and
round every intermediate to it. The causal mask is aligned to the bottom right; d_k and d_v of a KV head are summed over
the query heads that read it; a row that sees no key has gradient 0 and contributes nothing.

May import: torch, reference.attention, reference.softmax.
"""

import torch

from .attention import of_each_query_head, rounded_scores
from .softmax import rounded_softmax


def attention_gradients(q, k, v, d_out, *, softmax_scale=None, causal=False):
    """(d_q, d_k, d_v) of softmax(q k^T * softmax_scale) v, in float64.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, seq_len_q, head_dim) or (seq_len_q, head_dim), any float dtype
    k, v : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim) or (seq_len_kv, head_dim)
    d_out : tensor, like q, the gradient of the output
    softmax_scale : float, dimensionless; default ``head_dim**-0.5``
    causal : bool; bottom-right aligned

    Returns
    -------
    d_q, d_k, d_v : tensors, shapes of q, k and v, float64; 0 where no query sees the key and where a query sees no key
    """
    exact = (tensor.double() for tensor in (q, k, v, d_out))
    return rounded_attention_gradients(*exact, softmax_scale=softmax_scale, causal=causal)


def rounded_attention_gradients(q, k, v, d_out, *, softmax_scale=None, causal=False):
    """`attention_gradients` in the dtype of its arguments, every intermediate rounded to it."""
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    probs = rounded_softmax(rounded_scores(q, k, softmax_scale=scale, causal=causal))  # (..., seq_len_q, seq_len_kv)
    return _from_probs(q, k, v, probs, probs @ of_each_query_head(v, q), d_out, scale)


def _from_probs(q, k, v, probs, out, d_out, scale):
    """(d_q, d_k, d_v) from the weights and the output of the forward pass."""
    k_wide, v_wide = of_each_query_head(k, q), of_each_query_head(v, q)
    row_dot = (d_out * out).sum(dim=-1, keepdim=True)  # D
    d_scores = probs * (d_out @ v_wide.transpose(-1, -2) - row_dot)
    d_q = d_scores @ k_wide * scale
    d_k = d_scores.transpose(-1, -2) @ q * scale
    d_v = probs.transpose(-1, -2) @ d_out
    return d_q, of_each_kv_head(d_k, k), of_each_kv_head(d_v, v)


def of_each_kv_head(gradient, kv):
    """Sum over the query heads that share a KV head: the transpose of `of_each_query_head`."""
    if gradient.shape == kv.shape:
        return gradient
    shape = (*kv.shape[:-2], -1, *kv.shape[-2:])
    return gradient.reshape(shape).sum(dim=-3)


def gradients_from_lse(q, k, v, out, lse, d_out, *, softmax_scale=None, causal=False):
    """(d_q, d_k, d_v) from the out and lse of a forward pass, in float64.

    Exact out and lse give `attention_gradients`. A backward kernel gets rounded ones, and must return the gradients
    that follow from those.

    Parameters
    ----------
    out : tensor, like q
    lse : tensor, (..., num_heads, seq_len_q), natural log; -inf for a row that sees no key
    """
    exact = (tensor.double() for tensor in (q, k, v, out, lse, d_out))
    return rounded_gradients_from_lse(*exact, softmax_scale=softmax_scale, causal=causal)


def rounded_gradients_from_lse(q, k, v, out, lse, d_out, *, softmax_scale=None, causal=False):
    """`gradients_from_lse` with every intermediate rounded to the dtype of q."""
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    probs = probs_from_lse(rounded_scores(q, k, softmax_scale=scale, causal=causal), lse)
    return _from_probs(q, k, v, probs, out, d_out, scale)


def probs_from_lse(scores, lse):
    """exp(scores - lse) in the dtype of the scores; 0 where a score is -inf."""
    probs = torch.exp(scores - lse[..., None]).to(scores.dtype)
    return torch.where(torch.isneginf(scores), torch.zeros_like(probs), probs)  # -inf - -inf is NaN


def gradient_terms(q, k, v, out, lse, d_out, *, softmax_scale=None, causal=False):
    """What each element of (d_q, d_k, d_v) is a sum of, before anything cancels: the sum of the terms' magnitudes.

    d_q adds P (d_P - D) k over the keys. An error in a weight P is an error relative to |P| (|d_P| + |D|) |k|, however
    small the sum is: scores near 100 make sums that cancel to a thousandth of their terms.

    Returns
    -------
    d_q, d_k, d_v : tensors, shapes of q, k and v, float64, at least the magnitude of `gradients_from_lse`
    """
    q, k, v, out, lse, d_out = (tensor.double() for tensor in (q, k, v, out, lse, d_out))
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    k_wide, v_wide = of_each_query_head(k, q), of_each_query_head(v, q)
    probs = probs_from_lse(rounded_scores(q, k, softmax_scale=scale, causal=causal), lse)
    row_dot = (d_out * out).sum(dim=-1, keepdim=True)
    d_scores = probs * ((d_out @ v_wide.transpose(-1, -2)).abs() + row_dot.abs())
    d_q = d_scores @ k_wide.abs() * abs(scale)
    d_k = d_scores.transpose(-1, -2) @ q.abs() * abs(scale)
    d_v = probs.transpose(-1, -2) @ d_out.abs()
    return d_q, of_each_kv_head(d_k, k), of_each_kv_head(d_v, v)
