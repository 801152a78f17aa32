"""Multi-head latent attention by its definition: keys and values expanded for every head, in float64.

May import: torch, reference.paged.
"""

import torch

from .paged import gathered


def mla_unabsorbed(q_nope, q_rope, pages, block_table, seq_lens, cu_seqlens_q, w_uk, w_uv, *, causal=True):
    """softmax of the visible scores times v; head h has the keys [w_uk[h] latent, rope key], the values w_uv[h] latent.

    Parameters
    ----------
    q_nope, q_rope : tensors, (total_q, num_heads, 128) and (total_q, num_heads, 64)
    pages : tensor, (num_pages, page_size, 576): latents of 512, then rope keys of 64, which all heads share
    block_table, seq_lens, cu_seqlens_q : as in `reference.ragged`
    w_uk, w_uv : tensors, (num_heads, 128, 512)

    Returns
    -------
    out : tensor, (total_q, num_heads, 128), float64; 0 for a row that sees nothing
    lse : tensor, (total_q, num_heads), float64, natural log; -inf for a row that sees nothing
    """
    q = torch.cat([q_nope, q_rope], -1).double()
    out, lse = q.new_zeros(q_nope.shape), q.new_full(q.shape[:2], -torch.inf)
    for request, num_keys in enumerate(seq_lens):
        rows = slice(cu_seqlens_q[request], cu_seqlens_q[request + 1])
        if num_keys == 0 or rows.start == rows.stop:
            continue
        latents, rope = gathered(pages[:, :, None], block_table[request], num_keys)[0].double().split([512, 64], -1)
        k_nope, v = (torch.einsum("nc,hdc->hnd", latents, weights.double()) for weights in (w_uk, w_uv))
        k = torch.cat([k_nope, rope.expand(len(k_nope), -1, -1)], -1)
        scores = q[rows].transpose(0, 1) @ k.transpose(1, 2) * q.shape[-1] ** -0.5
        first = num_keys - scores.shape[1]  # the position of the first new token
        if causal:
            hidden = torch.ones_like(scores[0], dtype=torch.bool).triu(first + 1)
            scores = scores.masked_fill(hidden, -torch.inf)
        lse[rows] = torch.logsumexp(scores, -1).T
        out[rows] = (torch.softmax(scores, -1) @ v).transpose(0, 1)
    return out, lse
