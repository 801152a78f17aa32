import torch


def sample_top_p(logits, temperature, top_p, noise):
    """A token for each row of logits (num_rows, num_tokens), from noise (num_rows,) in [0, 1)."""
    ### BEGIN SOLUTION
    greedy = temperature == 0
    scaled = logits / torch.where(greedy, 1.0, temperature)[:, None]
    probs = torch.softmax(scaled, dim=1)
    # the smallest threshold above which less than top_p lies: halve [low, high]
    low, high = torch.full_like(top_p, -1.0), probs.amax(dim=1)
    for _ in range(64):
        middle = (low + high) / 2
        above = torch.where(probs > middle[:, None], probs, 0.0).sum(dim=1)
        enough = above >= top_p
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    kept = torch.where(probs > low[:, None], probs, 0.0)
    cumulative = kept.cumsum(dim=1)
    target = noise * cumulative[:, -1]
    tokens = (cumulative <= target[:, None]).sum(dim=1)
    return torch.where(greedy, logits.argmax(dim=1), tokens)
    ### END SOLUTION
