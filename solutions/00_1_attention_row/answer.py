import torch


def attention_row(q, k, v):
    """Attention for one query. q (head_dim,), k and v (seq_len_kv, head_dim); returns (head_dim,)."""
    scores = k @ q  # (seq_len_kv,) one number for each key
    ### BEGIN SOLUTION
    scores = scores * q.shape[0] ** -0.5
    ### END SOLUTION
    probs = torch.softmax(scores, dim=0)  # (seq_len_kv,) weights that add up to 1
    return probs @ v
