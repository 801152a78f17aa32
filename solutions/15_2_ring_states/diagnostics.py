"""What a ring of attention gives, the usual mistakes as outcomes of their own, and the messages that it may send.

May import: verdict, subjects.parallel, torch.
"""

import math

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.parallel.calls import in_words, sent_bytes

INF = math.inf


def _visible(q_positions, k_positions, causal):
    """(queries, keys) bool."""
    seen = (q_positions[:, None] >= 0) & (k_positions >= 0)
    return seen & (k_positions <= q_positions[:, None]) if causal else seen


def _attend(q, k, v, mask, scale):
    """(out, lse) of one block; a row without a key: out 0, lse -inf."""
    k, v = (x.repeat_interleave(len(q) // len(x), 0) for x in (k, v))
    scores = (q @ k.transpose(1, 2) * scale).masked_fill(~mask, -INF)
    lse = scores.logsumexp(-1)
    return (scores - lse[..., None].clamp(min=-1e30)).exp() @ v, lse


def _blocks(x):
    """(world, heads, block, …) -> (heads, world * block, …)."""
    return torch.cat(list(x), dim=1)


def whole(case, t):
    """{"out", "lse"} of attention over all blocks at once, (world, …)."""
    positions = t["positions"].flatten()
    mask = _visible(positions, positions, case.options["causal"])
    out, lse = _attend(*(_blocks(t[name]) for name in "qkv"), mask, case.options["scale"])
    world = case.sizes["world"]
    return {"out": torch.stack(out.chunk(world, 1)), "lse": torch.stack(lse.chunk(world, 1))}


def largest_score(case, t):
    """The largest |score| of a visible pair; 0 where there is none."""
    positions = t["positions"].flatten()
    q, k = _blocks(t["q"]).double(), _blocks(t["k"]).double()
    scores = q @ k.repeat_interleave(len(q) // len(k), 0).transpose(1, 2) * case.options["scale"]
    mask = _visible(positions, positions, case.options["causal"])
    return scores.abs().masked_fill(~mask, 0.0).max().item()


def _merged(states):
    """(out, lse) of states by the rule: weights exp(lse_i - lse)."""
    lse = torch.stack([lse for _, lse in states]).logsumexp(0)
    base = lse.clamp(min=-1e30)
    return sum(out * (one - base).exp()[..., None] for out, one in states), lse


def _mean(states):
    out, lse = _merged(states)
    return sum(one for one, _ in states) / len(states), lse


def _sum(states):
    out, lse = _merged(states)
    return sum(one for one, _ in states), lse


def _swapped(states):
    """Merged one after the other, each state with the other one's weight."""
    (out, lse), *rest = states
    for new_out, new_lse in rest:
        total = torch.logaddexp(lse, new_lse)
        base = total.clamp(min=-1e30)
        out = out * (new_lse - base).exp()[..., None] + new_out * (lse - base).exp()[..., None]
        lse = total
    return out, lse


def _nan(states):
    """A row that has seen no key so far becomes NaN, and stays so."""
    out, lse = _merged(states)
    empty = torch.isneginf(states[0][1])
    for count in range(2, len(states) + 1):
        empty |= torch.isneginf(_merged(states[:count])[1])
    return torch.where(empty[..., None], math.nan, out), lse


def _nan_from_zero(states):
    return _nan([(torch.zeros_like(states[0][0]), torch.full_like(states[0][1], -INF)), *states])


def _lse(change):
    def merge(states):
        out, lse = _merged(states)
        return out, change(lse, states)

    return merge


def _twice(states):
    return _merged([states[0], *states])


def _without_last(states):
    return _merged(states[:-1] if len(states) > 1 else states)


def _own(states):
    return states[0]


def _no_max(states):
    """In float, by sums of exp(lse) themselves."""
    weights = [lse.float().exp() for _, lse in states]
    total = sum(weights)
    out = sum(out.float() * w[..., None] for (out, _), w in zip(states, weights, strict=True)) / total[..., None]
    return out.double(), total.log().double()


def _states(case, t, *, mask=None, key_positions=None, values=None):
    """Of each rank the states (out, lse) of all blocks, the own one first, in float64; each option is a mistake."""
    world, causal, scale = case.sizes["world"], case.options["causal"], case.options["scale"]
    found = [[] for _ in range(world)]
    for rank in range(world):
        for hop in range(world):
            source = (rank - hop) % world
            positions = t["positions"][source if key_positions is None else key_positions(rank, source)]
            seen = _visible(t["positions"][rank], positions, causal)
            seen = seen if mask is None else mask(seen, t["positions"][rank], positions, rank, source)
            v = t["v"][source if values is None else values(rank, source)]
            found[rank].append(_attend(t["q"][rank], t["k"][source], v, seen, scale))
    return found


def _full(seen):
    return torch.ones_like(seen)


# code, words, what is merged and how: `merge`, options of `_states`; each sentence goes on from "It is what comes when"
_MISTAKES = (
    ("own_block_twice", "a rank's own block is merged twice: after n - 1 hops each block has been there once",
     {"merge": _twice}),
    ("last_block_lost", "the block of the last hop is missing: there are n - 1 hops, and what each brings is merged",
     {"merge": _without_last}),
    ("own_block_alone", "nothing is merged: the result is that of the rank's own block", {"merge": _own}),
    ("nan_before_the_first_key", "a row that has seen no key yet has lse -inf, and -inf - (-inf) is NaN: give its "
     "state the weight 0", {"merge": _nan}),
    ("nan_before_the_first_key", "a state without keys, lse -inf, is merged with another one: -inf - (-inf) is NaN. "
     "Give it the weight 0", {"merge": _nan_from_zero}),
    ("lse_base_2", "lse is in base 2: it is 1.443 times the natural one",
     {"merge": _lse(lambda lse, _: lse / math.log(2.0))}),
    ("lse_of_the_last_block", "lse is that of the last block alone; it is the one of all",
     {"merge": _lse(lambda lse, states: states[-1][1])}),
    ("lse_of_the_own_block", "lse is that of the own block alone; it is the one of all",
     {"merge": _lse(lambda lse, states: states[0][1])}),
    ("lse_is_the_maximum", "lse is the largest of the blocks': add up exp(lse - largest) and take the logarithm",
     {"merge": _lse(lambda lse, states: torch.stack([one for _, one in states]).amax(0))}),
    ("lse_added", "the lse of the blocks are added up", {"merge": _lse(lambda lse, states: sum(s[1] for s in states))}),
    ("plain_mean", "out is the mean of the blocks': each has the weight exp(lse of the block - lse of all)",
     {"merge": _mean}),
    ("plain_sum", "out is the sum of the blocks', which are normalised each: their weights exp(lse - lse of all) are "
     "missing", {"merge": _sum}),
    ("weights_exchanged", "each of two states has the other one's weight", {"merge": _swapped}),
    ("no_max", "exp(lse) is taken itself: near 100 it is more than float holds, and near -100 nearly 0",
     {"merge": _no_max, "judged": lambda lse: ~(lse.isfinite() & (lse.abs() > 80.0))}),
    ("causal_ignored", "every query sees every key, causal or not",
     {"mask": lambda seen, q, k, r, s: (q[:, None] >= 0) & (k >= 0)}),
    ("padding_seen", "padding is seen as a key: position -1 is before every other one",
     {"mask": "padding"}),
    ("mask_by_rank", "a block of a lower rank is seen whole, and a block of a higher one not at all; the positions "
     "decide", {"mask": "rank"}),
    ("positions_from_rank", "token i of rank r is taken to have position r * block_len + i: positions says where each "
     "token is, in any order", {"mask": "position"}),
    ("future_in_own_block", "the own block is seen whole, its later keys too",
     {"mask": lambda seen, q, k, r, s: (q[:, None] >= 0) & (k >= 0) if r == s else seen}),
    ("strictly_before", "a causal query does not see its own key: key position <= position, not <",
     {"mask": "strict"}),
    ("strictly_before", "a query does not see its own key: position <= position",
     {"mask": lambda seen, q, k, r, s: seen & (q[:, None] != k)}),
    ("positions_stay", "the positions of the keys do not travel with them: the block is another rank's, its positions "
     "are the own ones", {"key_positions": lambda rank, source: rank}),
    ("values_stay", "v does not travel with k", {"values": lambda rank, source: rank}),
)  # fmt: skip


def _options(case, options):
    """The options of a mistake whose mask depends on the case."""
    causal = case.options["causal"]
    if options.get("mask") == "padding":
        return {"mask": lambda seen, q, k, r, s: (k <= q[:, None] if causal else _full(seen)) & (q[:, None] >= 0)}
    if options.get("mask") == "strict":
        return {"mask": lambda seen, q, k, r, s: seen & (q[:, None] != k) if causal else seen}
    if options.get("mask") == "position":
        place = lambda x, rank: torch.arange(len(x)) + rank * len(x)  # noqa: E731
        return {"mask": lambda seen, q, k, r, s: (q[:, None] >= 0) & (k >= 0) & (
            (place(k, s) <= place(q, r)[:, None]) if causal else _full(seen))}  # fmt: skip
    if options.get("mask") == "rank":
        real = lambda q, k: (q[:, None] >= 0) & (k >= 0)  # noqa: E731
        return {"mask": lambda seen, q, k, r, s: seen if r == s or not causal else real(q, k) & (s < r)}
    return options


def diagnose(evidence):
    """Diagnosis of wrong values, or None."""
    case = evidence.smallest_by_values()
    if case is None:
        return None
    name, one = case.first_wrong
    rank, head, row, *_ = one.index
    start = (
        f"Case {case.case.name!r}: {name} of rank {rank}, head {head}, row {row} "
        f"(position {case.inputs['positions'][rank, row].item()}) is {one.got:.5g}, expected {one.expected:.5g}."
    )
    known = {}  # the states of a case without a mistake, made once
    for code, words, options in _MISTAKES:
        if all(_fits(one, options, known) for one in [*evidence.failing(), *evidence.passing()]):
            return Diagnosis(code, f"{start} It is what comes when {words}.")
    return None


def _fits(case, options, known):
    """Whether a case is what comes of a mistake; "judged": rows, by the right lse, that rounding does not decide."""
    options = dict(_options(case.case, options))
    judged = options.pop("judged")(case.ref["lse"]) if "judged" in options else ...
    merge, name = options.pop("merge", _merged), case.case.name
    states = known.get(name) if not options else None
    if states is None:
        t = {name: x.double() for name, x in case.inputs.items()}
        states = _states(case.case, t, **options)
    if not options:
        known[name] = states
    guesses = zip(("out", "lse"), zip(*map(merge, states), strict=True), strict=True)
    return all(
        torch.allclose(
            case.first.outputs[name].double()[judged], torch.stack(guess)[judged], rtol=1e-3, atol=1e-3, equal_nan=True
        )
        for name, guess in guesses
    )


def once_round(case, ledger):
    """Diagnosis or None: keys, values and positions go to the next rank, n - 1 times."""
    world, block_len, _, num_kv_heads, head_dim = case.sizes.values()
    tensors = {"k and v": 2 * 4 * num_kv_heads * block_len * head_dim, "positions": 8 * block_len}
    most = (world - 1) * sum(tensors.values())
    for rank, calls in enumerate(ledger["calls"]):
        start = f"Every value is right, but rank {rank} calls {in_words(calls)} (case {case.name!r})"
        if any(call["peer"] < 0 for call in calls):
            gathered = any(call["op"] == "all_gather" for call in calls)
            text = (
                "After an all_gather every rank holds the keys of all: let"
                if gathered
                else "No collective is needed: let"
            )
            return Diagnosis("collective", f"{start}. {text} keys, values and positions go round.")
        if any(call["peer"] != (rank + 1) % world for call in calls):
            return Diagnosis("not_to_the_next_rank", f"{start}; what goes round is sent to rank {(rank + 1) % world}.")
        if sent_bytes(calls) > most:
            return _too_much(start, calls, world, num_kv_heads, most)
    return None


def _too_much(start, calls, world, num_kv_heads, most):
    heads = {call["shape"][0] for call in calls if len(call["shape"]) == 3}
    text = f"{start}, {sent_bytes(calls):,} bytes; {world - 1} hops with k, v and positions are {most:,}"
    if heads and max(heads) > num_kv_heads:
        return Diagnosis("heads_expanded", f"{text}. k has {num_kv_heads} KV heads: send these, not one a query head.")
    each = len(calls) // world
    if each and len(calls) == each * world:
        return Diagnosis("one_hop_too_many", f"{text}. The last hop brings the own block back: leave it out.")
    return Diagnosis("too_many_bytes", f"{text}.")
