"""The values that checks run on: distributions that expose mistakes, each with a name that the learner reads.

Small numbers around 0 make softmax nearly linear and hide almost everything; none of these are small.

May import: torch.
"""

import torch

NEG_INF = float("-inf")

HEIGHTS = (0.0, 100.0, -100.0, 3000.0, -12000.0)  # of the rows in turn, with "mixed_rows"

# name -> how a case says it
WORDS = {
    "normal": "scores N(0, 1)",
    "rising": "scores rising along the row",
    "falling": "scores falling along the row",
    "minus_100": "scores near -100",
    "minus_3000": "scores near -3000",
    "minus_12000": "scores near -12000",
    "minus_12990": "scores near -12990",
    "minus_100000": "scores near -100,000",
    "minus_16000": "scores near a number from -13,500 to -16,000",
    "minus_13000": "scores from -13000 up, half of them -13000",
    "minus_60000": "scores from -60000 up, half of them -60000",
    "below_1e9": "all scores equal, below -1e9",
    "plus_100": "scores near +100",
    "plus_12000": "scores near +12000",
    "plus_13000": "scores up to +13000, half of them +13000",
    "plus_60000": "scores up to +60000, half of them +60000",
    "plus_16000": "scores near a number from 13,500 to 16,000",
    "mixed_rows": "rows near 0, +100, -100, +3000 and -12000 in turn",
    "spikes": "one score of 120 a row",
    "two_high": "two scores between 100 and 110 a row, 1 apart",
    "any_height": "rows at drawn heights from 1e5 to 1e29, of both signs, one score far above the others",
    "high_by_14": "one score of 0 a row, the others near -14",
    "masked": "some scores -inf, one row all -inf",
    "leading_masked": "rows that start with -inf",
    "ending": "wide rows, -inf in their first half, then a 4 and many scores near -11",
    "zeros": "all scores 0",
    "ones": "all scores 1",
    "step": "scores 0, then 1",
}


def generator(seed, *salt):
    """A torch generator for `seed` and what it is for; another salt gives independent numbers."""
    mixed = seed
    for item in salt:
        for byte in str(item).encode():
            mixed = (mixed * 1099511628211 + byte + 1) % (1 << 63)
    return torch.Generator().manual_seed(mixed)


def scores(values, shape, dtype, gen, *, at=0):
    """Scores of the named distribution.

    Parameters
    ----------
    values : str, a key of WORDS
    shape : tuple of int, the last dimension runs along a row
    dtype : str, torch dtype name; the numbers are rounded to it
    gen : torch.Generator
    at : int, first column with score 1; used by "step"

    Returns
    -------
    tensor, `shape`, `dtype`, on the CPU
    """
    if values not in WORDS:
        raise KeyError(f"no distribution is called {values!r}; these exist: {', '.join(WORDS)}")
    x = torch.randn(shape, generator=gen, dtype=torch.float32)
    if values == "step":
        x = (torch.arange(shape[-1]) >= at).float().expand(shape).clone()
    x = _SHAPERS.get(values, lambda x, gen: x)(x, gen)
    return x.to(getattr(torch, dtype))


def normal(shape, dtype, gen):
    """N(0, 1) numbers for anything that is not a score (values, weights)."""
    return torch.randn(shape, generator=gen, dtype=torch.float32).to(getattr(torch, dtype))


def _slope(x, direction):
    """Steps larger than the noise, so that the maximum changes at every single column."""
    columns = torch.linspace(-8.0, 8.0, x.shape[-1]) if x.shape[-1] > 1 else torch.zeros(1)
    step = 16.0 / max(x.shape[-1] - 1, 1)
    return direction * columns + (0.4 * step * x.clamp(-1, 1))


def _far(gen):
    """A number from 13,500 to 16,000; float32 rounds scores above so coarsely that no weight can be judged by them."""
    return 13_500.0 + 2_500.0 * torch.rand((), generator=gen)


def _heights(x):
    """(..., 1): in turn, row by row."""
    rows = torch.arange(x[..., 0].numel()).reshape(*x.shape[:-1], 1)
    return torch.tensor(HEIGHTS)[rows % len(HEIGHTS)]


def _spikes(x, gen):
    where = torch.randint(x.shape[-1], (*x.shape[:-1], 1), generator=gen)
    return x.scatter(-1, where, 120.0)  # exp(120) is more than float32 holds


def _two_high(x, gen):
    """Both overflow in exp, and yet their weights differ."""
    where = torch.rand(x.shape, generator=gen).topk(2).indices
    high = 100.0 + 9.0 * torch.rand((*x.shape[:-1], 1), generator=gen)
    return x.scatter(-1, where, torch.cat([high, high + 1.0], dim=-1))


def _one_high(x, gen, depth):
    """Thousands of small weights count beside a large one: no threshold may leave them out."""
    where = torch.randint(x.shape[-1], (*x.shape[:-1], 1), generator=gen)
    return (0.25 * x - depth).scatter(-1, where, 0.0)


def _any_height(x, gen):
    """Rows above and below 0 in turn, one score higher by a hundredth of the height: its weight is 1, all others 0."""
    rows = torch.arange(x.shape[0])
    exponents = 5.0 + 24.0 * (rows // 2 + torch.rand(len(rows), generator=gen)) / ((len(rows) + 1) // 2)
    height = ((10.0**exponents) * (2 * (rows % 2) - 1))[:, None]
    lower = height - height.abs() * (0.01 + 0.5 * torch.rand(x.shape, generator=gen))
    return lower.scatter(-1, torch.randint(x.shape[-1], (len(rows), 1), generator=gen), height)


def _masked(x, gen):
    """About a third of the scores -inf, the first row entirely (a single row keeps its first score)."""
    keep = torch.rand(x.shape, generator=gen) < 0.65
    x = torch.where(keep, x, torch.full_like(x, NEG_INF))
    rows = x.view(-1, x.shape[-1])
    rows[0] = NEG_INF
    if rows.shape[0] > 1:
        rows[1:, -1] = 0.5  # every other row sees something
    return x


def _leading_masked(x, gen):
    """The first two thirds of each row -inf: whole strides and tiles in which nothing has been seen yet."""
    x[..., : (2 * x.shape[-1]) // 3] = NEG_INF
    return x


def _ending(x, gen):
    """The first half of each row -inf, then a 4 and, 14.5 to 16.2 below it, scores that count because they are many.

    Their terms are 0.8 to 4.2 units in the last place of a sum of 1, evenly: one thread that adds them all to it, one
    after the other, rounds as often up as down.
    """
    x, half = 4.0 - 16.2 + 1.7 * torch.special.ndtr(x), x.shape[-1] // 2
    x[..., :half] = NEG_INF
    x[..., half] = 4.0
    return x


def _at_limit(x, limit):
    """No score beyond `limit`: half of them there, and the first of several rows; others up to about 2 nearer to 0.

    So near that no weight is close to 1: the tolerance is relative to the largest one.
    """
    x = limit - 0.75 * x.clamp(min=0.0) * (1.0 if limit > 0.0 else -1.0)
    rows = x.view(-1, x.shape[-1])
    if rows.shape[0] > 1:
        rows[0] = limit
    return x


_SHAPERS = {
    "rising": lambda x, gen: _slope(x, 1.0),
    "falling": lambda x, gen: _slope(x, -1.0),
    "minus_100": lambda x, gen: x - 100.0,
    "minus_3000": lambda x, gen: 4.0 * x - 3000.0,
    "minus_100000": lambda x, gen: x - 100_000.0,  # below -65504, the lowest half, too
    "minus_12990": lambda x, gen: x - 12990.0,  # close to a limit of 13,000
    "minus_16000": lambda x, gen: x - _far(gen),
    "plus_16000": lambda x, gen: x + _far(gen),
    "minus_12000": lambda x, gen: x - 12000.0,  # below the numbers that people take for -inf
    "minus_13000": lambda x, gen: _at_limit(x, -13000.0),
    "minus_60000": lambda x, gen: _at_limit(x, -60000.0),
    "plus_13000": lambda x, gen: _at_limit(x, 13000.0),
    "plus_60000": lambda x, gen: _at_limit(x, 60000.0),
    "below_1e9": lambda x, gen: torch.full_like(x, -(2.0**32)),
    "plus_100": lambda x, gen: x + 100.0,
    "plus_12000": lambda x, gen: x + 12000.0,
    "mixed_rows": lambda x, gen: x + _heights(x),
    "spikes": _spikes,
    "two_high": _two_high,
    "any_height": _any_height,
    "high_by_14": lambda x, gen: _one_high(x, gen, 14.0),  # from 17 on a float sum of 1 loses each of them
    "masked": _masked,
    "leading_masked": _leading_masked,
    "ending": _ending,
    "zeros": lambda x, gen: torch.zeros_like(x),
    "ones": lambda x, gen: torch.ones_like(x),
}
