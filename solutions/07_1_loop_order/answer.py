import torch


def flash_attention_2(q, k, v, block_m, block_n):
    """(out, lse, moved) of one head, Q outside. q (seq_len_q, head_dim), k and v (seq_len_kv, head_dim)."""
    out = torch.zeros_like(q)
    lse = torch.full((q.shape[0],), -torch.inf)  # (seq_len_q,)
    moved = 0  # numbers taken from q, k and v or written to out and lse
    ### BEGIN SOLUTION
    for q_start in range(0, q.shape[0], block_m):
        rows = slice(q_start, q_start + block_m)
        q_tile = q[rows]
        m, l = torch.full((len(q_tile),), -torch.inf), torch.zeros(len(q_tile))
        acc = torch.zeros_like(q_tile)
        moved += q_tile.numel()
        for kv_start in range(0, k.shape[0], block_n):
            k_tile, v_tile = k[kv_start : kv_start + block_n], v[kv_start : kv_start + block_n]
            moved += k_tile.numel() + v_tile.numel()
            scores = q_tile @ k_tile.T * q.shape[1] ** -0.5  # (block_m, block_n) or fewer
            m_new = torch.maximum(m, scores.amax(dim=1))
            probs_unnorm = torch.exp(scores - m_new[:, None])
            alpha = torch.exp(m - m_new)
            l = l * alpha + probs_unnorm.sum(dim=1)
            acc = acc * alpha[:, None] + probs_unnorm @ v_tile
            m = m_new
        out[rows], lse[rows] = acc / l[:, None], m + torch.log(l)
        moved += acc.numel() + l.numel()
    ### END SOLUTION
    return out, lse, moved
