import torch


def update(m, l, out, scores, values):
    """State (m, l, out) of the keys so far and one tile of scores (num_rows, block_n) -> state of both."""
    ### BEGIN SOLUTION
    m_new = torch.maximum(m, scores.amax(dim=1))  # (num_rows,)
    shift = torch.where(m_new == -torch.inf, 0.0, m_new)
    probs_unnorm = torch.exp(scores - shift[:, None])  # (num_rows, block_n)
    old_sum = l * torch.exp(m - shift)  # l * alpha
    l_new = old_sum + probs_unnorm.sum(dim=1)
    acc = old_sum[:, None] * out + probs_unnorm @ values  # (num_rows, head_dim)
    out_new = acc / torch.where(l_new > 0, l_new, 1.0)[:, None]
    ### END SOLUTION
    return m_new, l_new, out_new
