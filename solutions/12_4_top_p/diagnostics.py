"""Which tokens a row of 12.4 may give, what wrong ones look like, and how much a right answer holds."""

import torch

from course_lib.grading.report.verdict import Diagnosis

CLOSE = 5e-6  # of a probability: what a sum in float may be off by
MANY = 0.97  # of the rows of a case, that a guess must fit
WIDE = 1000  # tokens beyond which the sums of a guess and of an answer part for rounding too
MOST = 24  # times the logits, bytes that an answer may hold
LEFT = 16  # numbers a row that may leave torch


def _probs(tensors, temperature=None):
    temperature = tensors["temperature"] if temperature is None else temperature
    scaled = tensors["logits"].double() / torch.where(temperature == 0, 1.0, temperature).double()[:, None]
    return torch.softmax(scaled, dim=1)


def _above(probs):
    """The sum of all larger probabilities of the row, for each token; equal ones have the same."""
    order = probs.argsort(dim=1, descending=True, stable=True)
    ordered = probs.gather(1, order)
    before = ordered.cumsum(1) - ordered
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[:, 1:] = ordered[:, 1:] < ordered[:, :-1] * (1.0 - 1e-7)  # logits that were equal stay equal
    places = torch.where(first, torch.arange(probs.shape[1]).expand_as(order), 0).cummax(1).values
    return torch.empty_like(probs).scatter_(1, order, before.gather(1, places))


def _drawn(weights, noise, slack=0.0):
    """(num_rows, num_tokens) bool: tokens whose share of [0, 1) holds the noise, its ends moved out by `slack`."""
    weights = weights / weights.sum(1, keepdim=True)
    ends = weights.cumsum(1)
    target = noise.double()[:, None]
    return (weights > 0) & (ends - weights - slack <= target) & (target < ends + slack)


def allowed(tensors):
    """(num_rows, num_tokens) bool: the token that the contract names, and its neighbours at a rounded border."""
    probs = _probs(tensors)
    above, top_p = _above(probs), tensors["top_p"].double()[:, None]
    found = torch.zeros_like(probs, dtype=torch.bool)
    for shift in (-CLOSE, 0.0, CLOSE):
        kept = torch.where((above < top_p + shift) | (above == 0), probs, 0.0)
        found |= _drawn(kept, tensors["noise"], CLOSE / 2)
    greedy = torch.zeros_like(found)
    greedy[torch.arange(len(found)), tensors["logits"].argmax(1)] = True
    return torch.where((tensors["temperature"] == 0)[:, None], greedy, found)


def _of(tensors, *, keep=None, weights=None, noise=None, temperature=None, greedy=True):
    """Tokens (num_rows,) of a mistake; `keep`: (probs, above, top_p) -> bool, `weights`: (kept, probs) -> weights."""
    probs = _probs(tensors, temperature)
    above, top_p = _above(probs), tensors["top_p"].double()[:, None]
    kept = keep(probs, above, top_p) if keep else above < top_p
    kept = torch.where(kept, probs, 0.0)
    drawn = _drawn(weights(kept, probs) if weights else kept, tensors["noise"] if noise is None else noise)
    tokens = drawn.int().argmax(1)
    return torch.where(tensors["temperature"] == 0, tensors["logits"].argmax(1), tokens) if greedy else tokens


def _filter_first(tensors):
    """Filtered at temperature 1, then drawn at the temperature."""
    plain = _probs(tensors, torch.ones_like(tensors["temperature"]))
    kept = _above(plain) < tensors["top_p"].double()[:, None]
    return _of(tensors, keep=lambda p, above, top_p: kept)


def _not_normalised(tensors):
    """The noise against the kept probabilities themselves: beyond their sum nothing is found."""
    probs = _probs(tensors)
    kept = torch.where(_above(probs) < tensors["top_p"].double()[:, None], probs, 0.0)
    tokens = (kept.cumsum(1) <= tensors["noise"].double()[:, None]).sum(1)
    return torch.where(tensors["temperature"] == 0, tensors["logits"].argmax(1), tokens)


def _reversed(tensors):
    """The noise from 1 down; with noise 0 no sum is beyond it."""
    probs = _probs(tensors)
    cumulative = torch.where(_above(probs) < tensors["top_p"].double()[:, None], probs, 0.0).cumsum(1)
    tokens = (cumulative <= (1.0 - tensors["noise"].double())[:, None] * cumulative[:, -1:]).sum(1)
    return torch.where(tensors["temperature"] == 0, tensors["logits"].argmax(1), tokens)


def _ordered(tensors):
    """Drawn along the probabilities from the largest on."""
    probs = _probs(tensors)
    kept = torch.where(_above(probs) < tensors["top_p"].double()[:, None], probs, 0.0)
    order = kept.argsort(dim=1, descending=True, stable=True)
    place = _drawn(kept.gather(1, order), tensors["noise"]).int().argmax(1)
    tokens = order.gather(1, place[:, None])[:, 0]
    return torch.where(tensors["temperature"] == 0, tensors["logits"].argmax(1), tokens)


def _and_one_more(_probs, above, top_p):
    """The kept tokens and the most likely of the others."""
    return above <= torch.where(above >= top_p, above, 2.0).amin(1, keepdim=True) + 1e-9


def _last_of_equals(tensors):
    """The last of equal largest logits in rows of temperature 0."""
    last = tensors["logits"].shape[1] - 1 - tensors["logits"].flip(1).argmax(1)
    return torch.where(tensors["temperature"] == 0, last, _of(tensors))


_TABLE = (
    ("boundary_dropped", "the token that crosses top_p was left out. It is kept: a token goes when those that are more "
     "likely have top_p among them without it",
     lambda t: _of(t, keep=lambda p, above, top_p: (above + p <= top_p + 1e-6) | (above == 0))),
    ("one_too_many", "one token more was kept: the sum of the more likely ones is already top_p",
     lambda t: _of(t, keep=_and_one_more)),
    ("not_filtered", "every token was kept: top_p is ignored", lambda t: _of(t, keep=lambda p, above, top_p: p > 0)),
    ("threshold_is_top_p", "tokens above the probability 1 - top_p were kept; top_p is about the sum of what is kept",
     lambda t: _of(t, keep=lambda p, above, top_p: (p >= 1.0 - top_p) | (above == 0))),
    ("most_likely", "the most likely token came in every row: the noise is ignored",
     lambda t: t["logits"].argmax(1)),
    ("not_normalised", "the noise was compared with sums that do not reach 1. Multiply it by the sum of what is kept",
     _not_normalised),
    ("not_normalised", "the noise was compared with sums that do not reach 1; the token is 0 where none exceeds it. "
     "Multiply it by the sum of what is kept", lambda t: _not_normalised(t) % t["logits"].shape[1]),
    ("noise_of_row_0", "every row was drawn with the noise of row 0",
     lambda t: _of(t, noise=t["noise"][:1].expand_as(t["noise"]))),
    ("noise_reversed", "the noise ran from the last token to the first: take the first token whose sum exceeds it",
     _reversed),
    ("drawn_in_order", "it was drawn along falling probabilities; the sum runs along the tokens' numbers", _ordered),
    ("uniform", "all kept tokens were equally likely: they keep their probabilities",
     lambda t: _of(t, weights=lambda kept, p: (kept > 0).double())),
    ("temperature_after", "it was filtered before the temperature. Divide the logits first",
     _filter_first),
    ("temperature_ignored", "the temperature is ignored",
     lambda t: _of(t, temperature=torch.ones_like(t["temperature"]))),
    ("temperature_inverse", "the logits were multiplied by the temperature: divide by it",
     lambda t: _of(t, temperature=torch.where(t["temperature"] == 0, 1.0, 1.0 / t["temperature"]))),
    ("temperature_of_row_0", "every row has the temperature of row 0",
     lambda t: _of(t, temperature=t["temperature"][:1].expand_as(t["temperature"]))),
    ("top_p_of_row_0", "every row has the top_p of row 0",
     lambda t: _of(t | {"top_p": t["top_p"][:1].expand_as(t["top_p"])})),
    ("sum_up_to_noise", "the sum need not exceed the noise. With noise 0 that gives token 0, even one that is not kept",
     lambda t: torch.where((t["noise"] == 0) & (t["temperature"] > 0), 0, _of(t))),
    ("greedy_forgotten", "rows of temperature 0 were drawn: there the largest logit is the token, whatever the noise",
     lambda t: _of(t, greedy=False)),
    ("last_of_equals", "the last of equal largest logits is taken at temperature 0: the first one is the token",
     _last_of_equals),
)  # fmt: skip


def oracle(tensors):
    """{"tokens"}: one that is allowed in each row."""
    return {"tokens": allowed(tensors).int().argmax(1).double()}


def bordering(tensors):
    """{"tokens"}: rows in which rounding may give one token or another."""
    return {"tokens": allowed(tensors).sum(1) > 1}


_BY_OPTION = (  # where all cases that fail have one of these options
    ({"far"}, "far_and_cold", "Only logits near 10,000 or -10,000 at a low temperature go wrong: their quotients are "
     "millions, and a limit on them makes tokens equal or infinite. Subtract the largest of the row, and limit "
     "nothing."),
    ({"tiny"}, "tiny_top_p", "Right with larger top_p. Any number above 0 is compared as it is, with no least value, "
     "and two equal largest tokens are both kept and drawn by the noise."),
    ({"spaced"}, "low_temperature", "Right with temperatures of 0.3 and more, and with 0. Any other number above 0 "
     "divides as it is: no limit, nothing added to it, and only 0 itself takes the largest logit."),
    ({"near"}, "coarse_threshold", "60 tokens are 0.0000002 more likely than 60 others and reach top_p alone. A "
     "threshold of few digits, as after 16 halvings, probabilities of few digits or a tolerance keep the others too. "
     "Halve until the interval no longer shrinks."),
    ({"faint"}, "faint_dropped", "A thousand tokens have the probability 5e-7 each, 5e-4 together, and top_p is 1: "
     "they are kept."),
    ({"level", "far"}, "no_maximum", "Only logits far from 0 go wrong: exp of them is 0 or infinite. Subtract the "
     "largest of the row first."),
)  # fmt: skip


def diagnose(evidence):
    """Diagnosis of wrong tokens."""
    failing = evidence.failing_by_values()
    if not failing:
        return None
    start = _say(failing[0])
    for code, words, guess in _TABLE:
        if all(_fits(case, guess) for case in [*failing, *evidence.passing()]):
            return Diagnosis(code, f"{start} It is what comes when {words}.")
    for options, code, words in _BY_OPTION:
        if all(options & case.case.options.keys() for case in failing):
            return Diagnosis(code, f"{start} {words}")
    for case in failing:
        tokens, count = case.first.outputs["tokens"], case.case.sizes["num_tokens"]
        if bool(((tokens < 0) | (tokens >= count)).any()):
            return Diagnosis("no_such_token", f"{_say(case)} Tokens are numbers from 0 to {count - 1}.")
    return Diagnosis("wrong_token", start)


def _fits(case, guess):
    """Whether the tokens of a case are those of a guess; a few lie at a border that rounding moves."""
    if case.case.sizes["num_tokens"] > WIDE:
        return True
    same = (guess(case.inputs) == case.first.outputs["tokens"])[~case.unread["tokens"]]
    return int((~same).sum()) <= max(1, round((1.0 - MANY) * same.numel()))


def _say(case):
    """The facts of the first wrong row of a case."""
    comparison, tensors = case.comparisons["tokens"], case.inputs
    row, right = comparison.index[0], allowed(case.inputs)
    said = ", ".join(f"{name} {tensors[name][row]:.4g}" for name in ("temperature", "top_p", "noise"))
    count = right.shape[1]
    probs = ", ".join(f"{p:.3g}" for p in _probs(tensors)[row].tolist()) if count <= 8 else f"of {count} tokens"
    return (
        f"Case {case.case.name!r}, row {row} (probabilities {probs}; {said}): the token is {comparison.got:.0f} and "
        f"should be {comparison.expected:.0f}; {int(comparison.wrong.sum())} of {len(right)} rows are wrong."
    )


def little_memory(case, ledger):
    """Diagnosis or None: an answer holds no more than MOST times the logits, and takes few numbers out of torch."""
    if ledger["left"] > LEFT * case.sizes["num_rows"]:
        return Diagnosis(
            "left_torch",
            f"Every token is right (case {case.name!r}), but {ledger['left']:,} numbers left torch for a numpy array "
            f"or a list, and {case.sizes['num_rows']} rows allow {LEFT * case.sizes['num_rows']:,}: there they can be "
            "sorted unseen.",
        )
    limit = MOST * 4 * case.sizes["num_rows"] * case.sizes["num_tokens"] + 65536
    held = max(ledger["held_bytes"], ledger["object_bytes"])  # the objects' peak may lie between two operators
    if held > limit:
        return Diagnosis(
            "too_much_memory",
            f"Every token is right (case {case.name!r}), but {held:,} bytes are held at one time, of tensors "
            f"({ledger['tensor_bytes']:,} at most), Python objects and numpy arrays ({ledger['object_bytes']:,}), "
            f"where the contract allows {limit:,}: {MOST} times the logits, and 65,536. A comparison of each token "
            "with every other one, or a list of all of them, is not needed: halve an interval of thresholds.",
        )
    return None
