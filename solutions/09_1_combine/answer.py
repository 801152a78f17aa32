import torch


def combine(partial_out, partial_lse):
    """(out, lse) of all keys. partial_out (num_splits, num_rows, head_dim), partial_lse (num_splits, num_rows)."""
    ### BEGIN SOLUTION
    m = partial_lse.amax(dim=0)  # (num_rows,)
    shift = torch.where(m == -torch.inf, 0.0, m)  # -inf minus -inf would be NaN
    weights = torch.exp(partial_lse - shift)  # (num_splits, num_rows); 0 for an empty split
    l = weights.sum(dim=0)
    read = torch.where(weights[:, :, None] > 0.0, partial_out, 0.0)  # 0 times NaN would be NaN
    acc = (weights[:, :, None] * read).sum(dim=0)
    out = acc / torch.where(l > 0.0, l, 1.0)[:, None]
    lse = shift + torch.log(l)
    ### END SOLUTION
    return out, lse
