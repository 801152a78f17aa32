"""What a row of 13.5 gives, which rows rounding may decide, and the usual mistakes as outcomes of their own.

May import: torch.
"""

import functools

import torch

CLOSE = 1e-9  # of the whole: what a sum in float64 may be off by


@functools.lru_cache(maxsize=1 << 16)
def number(seed, step):
    """The number `step` of a seed's stream, from 0."""
    generator = torch.Generator().manual_seed(seed)
    return float(torch.rand(step + 1, generator=generator, dtype=torch.float64)[step])


def _pairs(t):
    return list(zip(t["seeds"].tolist(), t["steps"].tolist(), strict=True))


def _noise(pairs):
    return torch.tensor([number(seed, step) for seed, step in pairs], dtype=torch.float64)


def noise_of(t):
    """Noise (num_rows,) of each row's seed and step."""
    return _noise(_pairs(t))


def probs_of(t, temperature=None):
    temperature = t["temperatures"] if temperature is None else temperature
    return torch.softmax(t["logits"].double() / torch.where(temperature == 0, 1.0, temperature.double())[:, None], 1)


def _drawn(probs, noise):
    cumulative = probs.cumsum(1)
    return (cumulative <= (noise * cumulative[:, -1])[:, None]).sum(1)


def _greedy(t):
    return t["logits"].double().argmax(1)


def calls_of(t):
    """Lists of rows, [] for all: the batch, the batch permuted, rows alone, a few among others, the batch again."""
    order = t["order"].tolist()
    alone = [[row] for row in order[:12]]
    return [[], order, *alone, order[: len(order) // 2 + 1], order[len(order) // 3 :][::-1], []]


def rows_of(t):
    """The rows of each call of a case, also where it has all of them."""
    return [rows or list(range(len(t["seeds"]))) for rows in calls_of(t)]


def _is_zero(temperature):
    return temperature == 0


def outcome(t, *, keys=list, probs=probs_of, drawn=_drawn, greedy=_greedy, cold=_is_zero):
    """The tokens of all calls, int64; each option is a mistake.

    A row's probabilities are the same in every call, so the rows of all calls are computed at once.
    """
    calls, pairs = rows_of(t), _pairs(t)
    noise = _noise(key for rows in calls for key in keys([pairs[row] for row in rows]))
    rows = torch.tensor([row for rows in calls for row in rows])
    first = torch.tensor([rows[0] for rows in calls for _ in rows])  # row 0 of each row's call
    every = {name: t[name][rows] for name in ("logits", "temperatures", "seeds")}
    every["temperature_of_row_0"] = t["temperatures"][first]
    return torch.where(cold(every["temperatures"]), greedy(every), drawn(probs(every), noise))


def bordering(t, close=CLOSE):
    """(tokens of all calls,) bool: those that a shift of the noise by `close` decides, whatever the row's batch."""
    probs, noise = probs_of(t), noise_of(t)
    rows = (t["temperatures"] > 0) & (_drawn(probs, noise - close) != _drawn(probs, noise + close))
    return torch.cat([rows[call] for call in rows_of(t)])


def at_the_border(seeds, steps, temperatures, level):
    """Logits (num_rows, 2), float32, whose first probability is the next one below or above the row's noise.

    level : (num_rows,) bool; there both are near 100, and the quotients with the temperature, rounded to float32, lie
        on the other side of the noise; elsewhere the second one is 0
    """
    noise = torch.tensor([number(*key) for key in zip(seeds.tolist(), steps.tolist(), strict=True)]).double()
    nearest = (torch.logit(noise) * temperatures).float()
    beyond = torch.where(torch.arange(len(seeds)) % 2 == 0, float("inf"), -float("inf"))
    logits = torch.stack((torch.nextafter(nearest, beyond), torch.zeros_like(nearest)), dim=1)
    logits[level] = _across(noise[level], temperatures[level])
    return logits


def _across(noise, temperatures):
    """Logits (num_rows, 2) near 100: of 64 pairs those whose rounded quotients are furthest across the noise."""
    temperature, second = temperatures[:, None], torch.arange(100.0, 164.0).expand(len(noise), -1)
    first = (second + torch.logit(noise)[:, None] * temperature).float()
    exact = (first.double() - second) / temperature.double()
    rounded = (first / temperature).double() - (second / temperature).double()
    before, after = (torch.sigmoid(one) - noise[:, None] for one in (exact, rounded))
    margin = torch.where(before * after < 0, torch.minimum(before.abs(), after.abs()), 0.0)
    best = margin.argmax(dim=1, keepdim=True)
    return torch.cat((first.gather(1, best), second.gather(1, best)), dim=1)


def _with_seeds(change):
    """keys that change the pairs (seed, step) of a call: (row, seed, step, pairs) -> (seed, step)."""
    return lambda pairs: [change(row, *pair, pairs) for row, pair in enumerate(pairs)]


def _unscaled(t):
    return probs_of(t, torch.ones_like(t["temperatures"]))


def _multiplied(t):
    temperature = torch.where(t["temperatures"] == 0, 1.0, t["temperatures"].double())
    return torch.softmax(t["logits"].double() * temperature[:, None], 1)


def _of_row_0(t):
    return probs_of(t, t["temperature_of_row_0"])


def _at_least(least):
    return lambda t: probs_of(t, t["temperatures"].double().clamp(min=least))


def _at_most(most):
    return lambda t: probs_of(t, t["temperatures"].double().clamp(max=most))


def _without_maximum(t):
    weights = (
        t["logits"].double() / torch.where(t["temperatures"] == 0, 1.0, t["temperatures"].double())[:, None]
    ).exp()
    return weights / weights.sum(1, keepdim=True)


def _scaled_afterwards(t):
    """The sums are of softmax(logits) / temperature, and the noise is compared with them as it is."""
    return _unscaled(t) / torch.where(t["temperatures"] == 0, 1.0, t["temperatures"].double())[:, None]


def _as_it_is(beyond):
    def drawn(probs, noise):
        tokens = (probs.cumsum(1) <= noise[:, None]).sum(1)
        last = probs.shape[1] - 1
        return torch.where(tokens > last, {"last": last, "none": last + 1, "first": 0}[beyond], tokens)

    return drawn


def _from_the_end(probs, noise):
    return probs.shape[1] - 1 - _drawn(probs.flip(1), noise)


def _never(temperature):
    return torch.zeros_like(temperature, dtype=torch.bool)


def _always(temperature):
    return torch.ones_like(temperature, dtype=torch.bool)


def _last_of_equals(t):
    return t["logits"].shape[1] - 1 - t["logits"].double().flip(1).argmax(1)


def _by_rank(probs, noise):
    order = probs.argsort(dim=1, descending=True, stable=True)
    places = _drawn(probs.gather(1, order), noise).clamp(max=probs.shape[1] - 1)
    return order.gather(1, places[:, None])[:, 0]


# (code, words, what `outcome` does otherwise); each sentence goes on from "It is what comes when"
MISTAKES = (
    ("same_every_step", "a row has number 0 of its stream at every step. The noise of a step is number `step`",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (seed, 0))}),
    ("next_number", "a row has number step + 1 of its stream. The first step is 0 and has number 0",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (seed, step + 1))}),
    ("seed_plus_step", "a generator is seeded with seed + step. Seed 1 at step 2 and seed 2 at step 1 then have the "
     "same noise: the seed stays, and the step counts in its stream",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (seed + step, 0))}),
    ("seed_times_step", "a generator is seeded with seed * step. Every seed has the same noise at step 0",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (seed * step, 0))}),
    ("seed_ignored", "a generator is seeded with the step. All seeds have the same noise",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (step, 0))}),
    *(("seed_cut", "a seed from 2,147,483,648 on becomes a smaller one. Seeds go up to 4,294,967,295, and int32 does "
       "not hold them", {"keys": _with_seeds(lambda row, seed, step, pairs, cut=cut: (cut(seed), step))})
      for cut in (lambda seed: seed % 2**31, lambda seed: min(seed, 2**31 - 1))),
    ("noise_by_row", "a row has number `row` of its seed's stream. In another place of the batch it gets another token",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (seed, row))}),
    ("noise_by_row", "a row has number step + row of its stream. In another place of the batch it gets another token",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (seed, step + row))}),
    ("noise_by_row", "the row's number is its seed. In another place of the batch it gets another token",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (row, step))}),
    ("one_generator", "one generator, of row 0's seed, gives the batch its numbers, row by row",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (pairs[0][0], row))}),
    ("one_generator", "one generator, of row 0's seed, gives the batch its numbers from row 0's step on",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (pairs[0][0], pairs[0][1] + row))}),
    ("seed_of_row_0", "every row has the seed of row 0",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (pairs[0][0], step))}),
    ("step_of_row_0", "every row has the step of row 0. Requests of a batch began at different times",
     {"keys": _with_seeds(lambda row, seed, step, pairs: (seed, pairs[0][1]))}),
    ("greedy_always", "the largest logit is taken at every temperature", {"cold": _always}),
    ("temperature_ignored", "the temperature is ignored, or divides the probabilities: normalised, they are what they "
     "were. It divides the logits", {"probs": _unscaled}),
    *(("temperature_after_softmax", "the temperature divides the probabilities. They no longer sum to 1, and it is the "
       "logits that it divides", {"probs": _scaled_afterwards, "drawn": _as_it_is(beyond)})
      for beyond in ("last", "none", "first")),
    ("temperature_multiplied", "the logits are multiplied by the temperature", {"probs": _multiplied}),
    ("temperature_of_row_0", "every row has the temperature of row 0", {"probs": _of_row_0}),
    *(("temperature_raised", "temperatures near 1e-30 become larger ones: by a smallest value, or by an epsilon "
       "added. Only 0 needs a case of its own", {"probs": _at_least(least)}) for least in (0.1, 0.01, 1e-3, 1e-5)),
    *(("temperature_lowered", "a temperature of 1e30 becomes a smaller one. At 1e30 all tokens are equally likely",
       {"probs": _at_most(most)}) for most in (1.0, 2.0, 10.0, 100.0, 1e3, 1e4)),
    ("temperature_0_divides", "a temperature of 0 divides. Then 0 / 0 is NaN, no sum is at most the noise, and the "
     "token is 0", {"greedy": lambda t: torch.zeros_like(t["seeds"])}),
    ("temperature_0_drawn", "a row of temperature 0 is drawn as with temperature 1. It takes the largest logit",
     {"cold": _never}),
    ("last_of_equals", "of equal largest logits the last is taken at temperature 0. The contract says the first",
     {"greedy": _last_of_equals}),
    ("overflow", "exp runs without the maximum taken away. exp(710) is inf in float64, and inf / inf is NaN",
     {"probs": _without_maximum}),
    ("from_the_end", "the sums run from the last token down", {"drawn": _from_the_end}),
    ("most_likely_first", "the sums run from the most likely token down. They run in order of the tokens' numbers",
     {"drawn": _by_rank}),
)  # fmt: skip
