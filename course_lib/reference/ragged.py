"""Attention of a batch of requests of any lengths over pages by its definition, in float64, to compare an engine with.

May import: torch, reference.paged.
"""

import torch

from .paged import gathered


def ragged_attention_lse(
    q, k_pages, v_pages, block_table, seq_lens, cu_seqlens_q, *, layout="NHD", causal=True, window_left=None,
    softmax_scale=None, score_mod=None, sinks=None, masks=None,
):  # fmt: skip
    """softmax of the visible, modified scores times v, for the new tokens of every request.

    Parameters
    ----------
    q, k_pages, v_pages, block_table, layout : as in `reference.paged.paged_prefill_lse`
    seq_lens, cu_seqlens_q : sequences of int
    window_left : int or None; a token sees that many keys before its own
    score_mod : function(scores, head, query, key) of broadcasting tensors, or None; scores are scaled
    sinks : tensor, (num_heads,), or None: a score without a value in every row
    masks : list of bool tensors, (new tokens, keys), or None

    Returns
    -------
    out : tensor, (total_q, num_heads, width of v), float64; 0 for a row that sees nothing
    lse : tensor, (total_q, num_heads), float64, natural log, sinks included; -inf for a row that sees nothing
    """
    like = {"dtype": torch.float64, "device": q.device}
    out = torch.zeros(*q.shape[:2], v_pages.shape[-1], **like)
    lse = torch.full(q.shape[:2], -torch.inf, **like)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    for request, num_keys in enumerate(seq_lens):
        rows = slice(cu_seqlens_q[request], cu_seqlens_q[request + 1])
        k, v = (gathered(pages, block_table[request], num_keys, layout=layout) for pages in (k_pages, v_pages))
        k, v = (x.double().repeat_interleave(q.shape[1] // len(k), 0) for x in (k, v))
        scores = q[rows].double().transpose(0, 1) @ k.transpose(1, 2) * scale
        mask = None if masks is None else masks[request]
        scores = _modified(scores, score_mod, mask, causal, window_left)
        if sinks is not None:
            scores = torch.cat([sinks.double()[:, None, None].expand(-1, scores.shape[1], 1), scores], -1)
            v = torch.cat([v.new_zeros(len(v), 1, v.shape[2]), v], 1)
        if scores.shape[-1] == 0:
            continue
        row_lse = torch.logsumexp(scores, -1)
        weights = torch.exp(scores - row_lse.masked_fill(row_lse.isneginf(), 0.0)[..., None])
        out[rows], lse[rows] = (weights @ v).transpose(0, 1), row_lse.T
    return out, lse


def _modified(scores, score_mod, mask, causal, window_left):
    """Scores (num_heads, new tokens, keys) after score_mod, -inf where a key is not visible."""
    _, num_tokens, num_keys = scores.shape
    heads, query, key = (torch.arange(count, device=scores.device) for count in scores.shape)
    query = query[:, None] + num_keys - num_tokens
    if score_mod is not None:
        scores = score_mod(scores, heads[:, None, None], query, key)
    visible = torch.ones_like(scores[0], dtype=torch.bool) if mask is None else mask.clone()
    visible &= (key <= query) if causal else True
    visible &= (key >= query - window_left) if window_left is not None else True
    return scores.masked_fill(~visible, -torch.inf)
