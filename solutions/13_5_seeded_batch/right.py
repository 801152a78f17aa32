"""Right answers to 13.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ROW_BY_ROW = '''import torch


def sample_row(logits, temperature, seed, step):
    """The token of a row, from a generator that is made anew and run on to the step."""
    if temperature == 0:
        return int((logits == logits.max()).nonzero()[0])
    generator = torch.Generator().manual_seed(seed)
    for _ in range(step + 1):
        noise = float(torch.rand(1, generator=generator, dtype=torch.float64))
    weights = ((logits - logits.max()) / temperature).exp()
    ends = weights.cumsum(0)
    return int(torch.searchsorted(ends, noise * ends[-1], right=True))


def sample_batch(logits, temperatures, seeds, steps):
    """A token for each row."""
    numbers = zip(temperatures.tolist(), seeds.tolist(), steps.tolist(), strict=True)
    rows = zip(logits.double(), numbers, strict=True)
    return torch.tensor([sample_row(row, *own) for row, own in rows])


def sample_calls(logits, temperatures, seeds, steps, calls):
    """The tokens of all calls, and whether each changed torch's global generator. Given: the judge reads both."""
    tokens, changed = [], []
    for number, rows in enumerate(calls):
        batch = (logits, temperatures, seeds, steps)
        if rows:
            batch = [tensor[rows] for tensor in batch]
        torch.default_generator.manual_seed(number)
        before = torch.get_rng_state()
        tokens.append(sample_batch(*batch))
        changed.append(not torch.equal(before, torch.get_rng_state()))
    return torch.cat(tokens), torch.tensor(changed)
'''

ANSWERS = [
    Right("row by row, a generator run on to the step", text=ROW_BY_ROW),
    Right(
        "streams by seed, probabilities by logsumexp",
        (
            (
                "    noise = torch.stack([stream(seed, step + 1)[step] for seed, step in keys])\n",
                "    longest = int(steps.max()) + 1\n"
                "    kept = {seed: stream(seed, longest) for seed in set(seeds.tolist())}\n"
                "    noise = torch.stack([kept[seed][step] for seed, step in keys])\n",
            ),
            (
                "    probs = torch.softmax(scaled, dim=1)\n",
                "    probs = (scaled - torch.logsumexp(scaled, dim=1, keepdim=True)).exp()\n",
            ),
        ),
    ),
]
