"""Softmax and log-sum-exp by their definitions, to compare kernels with. Written to be read, not to be fast.

Functions without a prefix compute in float64 and are the oracle; `rounded_*` compute in the tensor's own dtype and
round every intermediate to it, as a straightforward implementation in that dtype does.

May import: torch.
"""

import torch

NEG_INF = float("-inf")


def softmax(x):
    """exp(x) / sum(exp(x)) over the last dimension.

    Parameters
    ----------
    x : tensor, (..., num_cols), any float dtype; -inf is a masked score with weight 0

    Returns
    -------
    tensor, shape of x, float64; 0 for a row of -inf only
    """
    return _softmax_in_its_dtype(x.double())


def log_sum_exp(x):
    """log(sum(exp(x))) over the last dimension: natural log, float64; -inf for a row of -inf only."""
    return _log_sum_exp_in_its_dtype(x.double())


def rounded_softmax(x):
    """`softmax` in the dtype of x, with the differences, exponentials, sum and quotient each rounded to it."""
    return _softmax_in_its_dtype(x)


def rounded_log_sum_exp(x):
    """`log_sum_exp` in the dtype of x, with every intermediate rounded to it."""
    return _log_sum_exp_in_its_dtype(x)


def merge(m_a, l_a, m_b, l_b):
    """Merge the states of two parts of a row; (-inf, 0) is the neutral element.

    Parameters
    ----------
    m_a, m_b : tensors of one shape, running maxima
    l_a, l_b : tensors of the same shape, sums of exp(score - m)

    Returns
    -------
    (m, l) in float64
    """
    return rounded_merge(m_a.double(), l_a.double(), m_b.double(), l_b.double())


def rounded_merge(m_a, l_a, m_b, l_b):
    """`merge` in the dtype of its arguments."""
    m = torch.maximum(m_a, m_b)
    shift = torch.where(m == NEG_INF, torch.zeros_like(m), m)
    return m, l_a * torch.exp(m_a - shift) + l_b * torch.exp(m_b - shift)


def weighted_sum(scores, values):
    """softmax(scores) @ values in float64.

    Parameters
    ----------
    scores : tensor, (num_rows, num_cols)
    values : tensor, (num_cols, head_dim)

    Returns
    -------
    tensor, (num_rows, head_dim), float64; 0 for a row of -inf only
    """
    return softmax(scores) @ values.double()


def rounded_weighted_sum(scores, values):
    """`weighted_sum` in the dtype of its arguments, the weights rounded to it before the product."""
    return rounded_softmax(scores) @ values


def visible_keys(seq_lens_kv, seq_len_q, seq_len_kv):
    """Which keys each query row may see: causal, bottom-right aligned to the valid keys of its sequence.

    seq_len_q = 2, seq_lens_kv[b] = 3, seq_len_kv = 5 keeps
        1 1 0 0 0
        1 1 1 0 0

    Parameters
    ----------
    seq_lens_kv : tensor, (batch_size,), integers, 0 .. seq_len_kv

    Returns
    -------
    tensor, (batch_size, seq_len_q, seq_len_kv), bool
    """
    q_row = torch.arange(seq_len_q)[None, :, None]
    key = torch.arange(seq_len_kv)[None, None, :]
    return key <= q_row + seq_lens_kv.long()[:, None, None] - seq_len_q


def masked_softmax(scores, seq_lens_kv):
    """Softmax and log-sum-exp over the visible keys, in float64; the score of a masked key is never used.

    Parameters
    ----------
    scores : tensor, (batch_size, seq_len_q, seq_len_kv)
    seq_lens_kv : tensor, (batch_size,), integers

    Returns
    -------
    out : tensor, shape of scores; 0 at masked keys, 0 in a row that sees no key
    lse : tensor, (batch_size, seq_len_q), natural log; -inf for a row that sees no key
    """
    return rounded_masked_softmax(scores.double(), seq_lens_kv)


def rounded_masked_softmax(scores, seq_lens_kv):
    """`masked_softmax` in the dtype of the scores."""
    visible = visible_keys(seq_lens_kv, scores.shape[1], scores.shape[2])
    kept = torch.where(visible, scores, torch.full_like(scores, NEG_INF))
    return _softmax_in_its_dtype(kept), _log_sum_exp_in_its_dtype(kept)


def _shifted_exponentials(x):
    m = x.amax(dim=-1, keepdim=True)
    m = torch.where(m == NEG_INF, torch.zeros_like(m), m)  # a row of -inf: exp(-inf - 0) is 0
    return m, torch.exp(x - m)


def _softmax_in_its_dtype(x):
    _, weights = _shifted_exponentials(x)
    total = weights.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, weights / total, torch.zeros_like(weights))


def _log_sum_exp_in_its_dtype(x):
    m, weights = _shifted_exponentials(x)
    return (m + torch.log(weights.sum(dim=-1, keepdim=True))).squeeze(-1)
