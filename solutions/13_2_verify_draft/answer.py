import torch
import torch.nn.functional as F


def verify(draft_tokens, draft_probs, target_probs, accept_noise, draw_noise):
    """Tokens (batch_size, num_draft + 1) of a round of speculative decoding, -1 after the last one of each row."""
    ### BEGIN SOLUTION
    batch_size, num_draft = draft_tokens.shape
    rows, places = torch.arange(batch_size), torch.arange(num_draft + 1)
    q = draft_probs.gather(2, draft_tokens[..., None])[..., 0]
    p = target_probs[:, :num_draft].gather(2, draft_tokens[..., None])[..., 0]
    accepted = accept_noise * q < p
    count = accepted.long().cumprod(dim=1).sum(dim=1)
    proposed = F.pad(draft_probs, (0, 0, 0, 1))  # nothing was proposed for the last row
    weights = (target_probs - proposed)[rows, count].clamp(min=0.0)
    cumulative = weights.cumsum(dim=1)
    drawn = (cumulative <= draw_noise[:, None] * cumulative[:, -1:]).sum(dim=1)
    tokens = torch.where(places < count[:, None], F.pad(draft_tokens, (0, 1)), -1)
    tokens[rows, count] = drawn
    return tokens
    ### END SOLUTION
