import torch


def stream(seed, count):
    """The first `count` numbers of a seed's stream, float64 from 0 up to 1. Given."""
    return torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sample_batch(logits, temperatures, seeds, steps):
    """A token for each row of logits (num_rows, num_tokens), from the noise of its own seed and step."""
    ### BEGIN SOLUTION
    keys = zip(seeds.tolist(), steps.tolist(), strict=True)
    noise = torch.stack([stream(seed, step + 1)[step] for seed, step in keys])
    greedy = temperatures == 0
    divisor = torch.where(greedy, 1.0, temperatures).double()
    scaled = logits.double() / divisor[:, None]
    probs = torch.softmax(scaled, dim=1)
    cumulative = probs.cumsum(dim=1)
    target = noise * cumulative[:, -1]
    tokens = (cumulative <= target[:, None]).sum(dim=1)
    return torch.where(greedy, logits.argmax(dim=1), tokens)
    ### END SOLUTION


def sample_calls(logits, temperatures, seeds, steps, calls):
    """The tokens of all calls, and whether each changed torch's global generator. Given: the judge reads both."""
    tokens, changed = [], []
    for number, rows in enumerate(calls):
        batch = (logits, temperatures, seeds, steps)
        if rows:  # an empty list stands for all rows
            batch = [tensor[rows] for tensor in batch]
        torch.default_generator.manual_seed(number)
        before = torch.get_rng_state()
        tokens.append(sample_batch(*batch))
        changed.append(not torch.equal(before, torch.get_rng_state()))
    return torch.cat(tokens), torch.tensor(changed)
