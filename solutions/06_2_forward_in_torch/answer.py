import torch


def flash_attention_1(q, k, v, block_m, block_n):
    """(out, lse) of one head in tiles, K and V outside. q (seq_len_q, head_dim), k and v (seq_len_kv, head_dim)."""
    out = torch.zeros_like(q)
    m = torch.full((q.shape[0],), -torch.inf)  # (seq_len_q,)
    l = torch.zeros(q.shape[0])  # (seq_len_q,)
    ### BEGIN SOLUTION
    for kv_start in range(0, k.shape[0], block_n):
        k_tile, v_tile = k[kv_start : kv_start + block_n], v[kv_start : kv_start + block_n]
        for q_start in range(0, q.shape[0], block_m):
            rows = slice(q_start, q_start + block_m)
            scores = q[rows] @ k_tile.T * q.shape[1] ** -0.5  # (block_m, block_n) or fewer
            m_new = torch.maximum(m[rows], scores.amax(dim=1))
            probs_unnorm = torch.exp(scores - m_new[:, None])
            old_sum = l[rows] * torch.exp(m[rows] - m_new)
            l_new = old_sum + probs_unnorm.sum(dim=1)
            out[rows] = (old_sum[:, None] * out[rows] + probs_unnorm @ v_tile) / l_new[:, None]
            m[rows], l[rows] = m_new, l_new
    ### END SOLUTION
    return out, m + torch.log(l)
