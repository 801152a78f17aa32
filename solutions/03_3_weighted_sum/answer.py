import torch


def softmax_weighted_sum(scores, values, block_n):
    """softmax(scores) @ values in tiles of `block_n`. scores (num_rows, num_cols), values (num_cols, head_dim)."""
    num_rows, num_cols = scores.shape
    m = torch.full((num_rows, 1), -torch.inf)  # (num_rows, 1) running maximum
    l = torch.zeros(num_rows, 1)  # (num_rows, 1) running sum
    acc = torch.zeros(num_rows, values.shape[1])  # (num_rows, head_dim) running weighted sum
    ### BEGIN SOLUTION
    for start in range(0, num_cols, block_n):
        tile = scores[:, start : start + block_n]  # (num_rows, block_n or fewer)
        m_new = torch.maximum(m, tile.amax(dim=1, keepdim=True))
        shift = torch.where(m_new == -torch.inf, 0.0, m_new)
        alpha = torch.exp(m - shift)  # what everything so far shrinks by
        probs_unnorm = torch.exp(tile - shift)  # (num_rows, block_n or fewer)
        l = l * alpha + probs_unnorm.sum(dim=1, keepdim=True)
        acc = acc * alpha + probs_unnorm @ values[start : start + block_n]
        m = m_new
    return acc / torch.where(l > 0, l, 1.0)  # a row of -inf: 0 / 1
    ### END SOLUTION
