import torch


def mla_decode(q_nope, q_rope, latents, rope_keys, w_uk, w_uv):
    """(out, lse) of one new token of every head, from the latents: no head's keys or values are formed."""
    ### BEGIN SOLUTION
    absorbed = torch.einsum("hd,hdc->hc", q_nope, w_uk)
    scale = (q_nope.shape[1] + q_rope.shape[1]) ** -0.5
    scores = (absorbed @ latents.T + q_rope @ rope_keys.T) * scale
    m = scores.amax(dim=1, keepdim=True)
    probs_unnorm = torch.exp(scores - m)
    l = probs_unnorm.sum(dim=1, keepdim=True)
    sums = probs_unnorm / l @ latents
    out = torch.einsum("hc,hdc->hd", sums, w_uv)
    lse = (m + torch.log(l)).squeeze(1)
    ### END SOLUTION
    return out, lse
