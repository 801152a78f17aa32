"""FlashAttention-2 in plain torch, forward and backward by hand: any head_dim, any float type, any device.

The loops of the kernels, a tile of queries outside, (m, l, acc) kept for the whole walk. It computes in float64 when it
gets float64 and in float32 otherwise, so that torch.autograd.gradcheck can judge the formulas.

May import: torch.
"""

import torch

BLOCK = 128  # query rows and keys of a tile


def forward(q, k, v, *, causal, softmax_scale):
    """(out, lse): out like `q`; lse (batch_size, num_heads, seq_len_q), float64 for float64 inputs, else float32."""
    q, k, v, dtype = *_grouped(q, k, v), q.dtype
    out, lse = torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf)
    for q_start in range(0, q.shape[-2], BLOCK):
        q_tile = q[..., q_start : q_start + BLOCK, :]
        m, l = lse[..., q_start : q_start + BLOCK].clone(), q_tile.new_zeros(q_tile.shape[:-1])
        acc = torch.zeros_like(q_tile)
        for kv_start in range(0, _end(q_start, q, k, causal), BLOCK):
            scores = _scores(q_start, kv_start, q, k, causal, softmax_scale)
            m_new = torch.maximum(m, scores.amax(dim=-1))
            shift = m_new.masked_fill(m_new.isneginf(), 0.0)  # never -inf minus -inf
            alpha, probs_unnorm = torch.exp(m - shift), torch.exp(scores - shift[..., None])
            l = l * alpha + probs_unnorm.sum(dim=-1)
            acc = acc * alpha[..., None] + probs_unnorm @ v[..., kv_start : kv_start + BLOCK, :]
            m = m_new
        l_safe = l.masked_fill(l == 0.0, 1.0)  # a fully masked row: 0 / 1, and m stays -inf
        out[..., q_start : q_start + BLOCK, :] = acc / l_safe[..., None]
        lse[..., q_start : q_start + BLOCK] = m + l_safe.log()
    return out.flatten(1, 2).to(dtype), lse.flatten(1, 2)


def backward(q, k, v, out, lse, d_out, *, causal, softmax_scale):
    """(dq, dk, dv), each like its tensor; the weights are computed again from lse."""
    dtype, shapes = q.dtype, (q.shape, k.shape, v.shape)
    q, k, v = _grouped(q, k, v)
    d_out, out = (x.to(q.dtype).reshape(q.shape) for x in (d_out, out))
    lse = lse.to(q.dtype).reshape(q.shape[:-1])
    lse = lse.masked_fill(lse.isneginf(), torch.inf)  # exp(score - inf) = 0: a row that saw no key weighs nothing
    row_dot = (d_out * out).sum(dim=-1)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for q_start in range(0, q.shape[-2], BLOCK):
        row_tile = slice(q_start, q_start + BLOCK)
        for kv_start in range(0, _end(q_start, q, k, causal), BLOCK):
            key_tile = slice(kv_start, kv_start + BLOCK)
            scores = _scores(q_start, kv_start, q, k, causal, softmax_scale)
            probs = torch.exp(scores - lse[..., row_tile, None])
            d_probs = d_out[..., row_tile, :] @ v[..., key_tile, :].transpose(-1, -2)
            d_scores = probs * (d_probs - row_dot[..., row_tile, None]) * softmax_scale
            dq[..., row_tile, :] += d_scores @ k[..., key_tile, :]
            d_scores, probs = d_scores.transpose(-1, -2), probs.transpose(-1, -2)
            dk[..., key_tile, :] += (d_scores @ q[..., row_tile, :]).sum(dim=2, keepdim=True)  # over the group
            dv[..., key_tile, :] += (probs @ d_out[..., row_tile, :]).sum(dim=2, keepdim=True)
    return tuple(x.reshape(shape).to(dtype) for x, shape in zip((dq, dk, dv), shapes, strict=True))


def _grouped(q, k, v):
    """q as (batch_size, num_kv_heads, num_q_per_kv, seq_len_q, head_dim), k and v with 1 in the middle, wide enough."""
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    num_kv_heads = k.shape[1]
    return q.to(wide).unflatten(1, (num_kv_heads, -1)), k.to(wide).unsqueeze(2), v.to(wide).unsqueeze(2)


def _end(q_start, q, k, causal):
    """The first key that no row of this tile may see."""
    last_row = min(q_start + BLOCK, q.shape[-2]) - 1
    return min(last_row + k.shape[-2] - q.shape[-2] + 1, k.shape[-2]) if causal else k.shape[-2]


def _scores(q_start, kv_start, q, k, causal, softmax_scale):
    """Scaled scores of one tile, -inf where the mask hides a key."""
    q_tile, k_tile = q[..., q_start : q_start + BLOCK, :], k[..., kv_start : kv_start + BLOCK, :]
    scores = q_tile @ k_tile.transpose(-1, -2) * softmax_scale
    if not causal:
        return scores
    rows = torch.arange(q_start, q_start + q_tile.shape[-2], device=q.device)[:, None]
    keys = torch.arange(kv_start, kv_start + k_tile.shape[-2], device=q.device)[None, :]
    return scores.masked_fill(keys > rows + k.shape[-2] - q.shape[-2], -torch.inf)
