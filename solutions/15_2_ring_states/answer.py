import torch


def attend(q, k, v, mask, softmax_scale):
    """(out, lse) of queries over one block of keys; a row without a key: out 0, lse -inf. Given."""
    k, v = (x.repeat_interleave(len(q) // len(x), 0) for x in (k, v))
    scores = (q @ k.transpose(1, 2) * softmax_scale).masked_fill(~mask, -torch.inf)
    lse = scores.logsumexp(-1)
    return (scores - lse[..., None].clamp(min=-1e30)).exp() @ v, lse


def ring_attention(world, q, k, v, positions, causal, softmax_scale):
    """(out, lse) of this rank's queries over the keys of all ranks."""
    ### BEGIN SOLUTION
    out, lse = torch.zeros_like(q), torch.full_like(q[..., 0], -torch.inf)
    key_positions = positions
    for hop in range(world.num_ranks):
        if hop:
            k, v, key_positions = world.ring_exchange(k, v, key_positions)
        mask = (positions[:, None] >= 0) & (key_positions >= 0)
        if causal:
            mask &= key_positions <= positions[:, None]
        new_out, new_lse = attend(q, k, v, mask, softmax_scale)
        total = torch.logaddexp(lse, new_lse)
        base = total.clamp(min=-1e30)  # where no key was seen yet: -inf less a number is -inf, less itself NaN
        out = out * (lse - base).exp()[..., None] + new_out * (new_lse - base).exp()[..., None]
        lse = total
    return out, lse
    ### END SOLUTION


def ring_on_rank(world, q, k, v, positions, causal, softmax_scale):
    """What each rank runs, with its own block of tokens. Given."""
    own = (x[world.rank] for x in (q, k, v, positions))
    return ring_attention(world, *own, causal, softmax_scale)
