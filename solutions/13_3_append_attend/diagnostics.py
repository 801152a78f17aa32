"""What a step of 13.3 gives, and each usual mistake as a step of its own.

May import: guesses, verdict, torch.
"""

from functools import partial

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import by_guess, by_low_scores

CACHES = ("k_cache", "v_cache")


def _right_place(length, _lengths, num_new):
    return range(length, length + num_new)


def _seen(length, index, _num_new, _capacity, _lengths):
    """Keys that new token `index` sees, as a slice of places."""
    return slice(0, length + index + 1)


def step(
    t, *, dtype=torch.float64, place=_right_place, sees=_seen, cached="all", shared="neighbours", scale=None,
    written=("k", "v"), swept=None,
):  # fmt: skip
    """{"out", "k_cache", "v_cache"}, `out` computed in `dtype`; each option is one mistake.

    `cached`: "all", or "before" for caches read before they are written; `written`: what goes into each cache;
    `swept`: (end, capacity) -> how many places are multiplied by a weight, if only by 0
    """
    batch_size, num_heads, num_new, head_dim = t["q"].shape
    num_kv_heads, capacity = t["k_cache"].shape[1:3]
    group, heads = num_heads // num_kv_heads, torch.arange(num_heads)
    heads = heads % num_kv_heads if shared == "modulo" else heads // group
    scale = head_dim**-0.5 if scale is None else scale(head_dim)
    caches, lengths = {name: t[name].clone() for name in CACHES}, t["lengths"].tolist()
    out = torch.empty_like(t["q"], dtype=dtype)
    for row, length in enumerate(lengths):
        for index, offset in enumerate(place(length, lengths, num_new)):
            if offset < capacity:
                for name, source in zip(CACHES, written, strict=True):
                    caches[name][row, :, offset] = t[source][row, :, index]
        seen = torch.zeros(num_new, capacity, dtype=torch.bool)
        for index in range(num_new):
            seen[index, sees(length, index, num_new, capacity, lengths)] = True
        k, v = ((t if cached == "before" else caches)[name][row, heads].to(dtype) for name in CACHES)
        read = slice(0, 0 if swept is None else swept(length + num_new, capacity))
        out[row] = _attended(t["q"][row].to(dtype), k, v, seen, scale, read)
    return {"out": out, **caches}


def _attended(q, k, v, seen, scale, read):
    """Attention of one row over the places `seen`; NaN where one of them, or of the slice `read`, is not finite."""
    hidden = ~(torch.isfinite(k) & torch.isfinite(v)).all(dim=-1)  # (num_heads, capacity)
    k, v = (torch.where(hidden[..., None], 0.0, x) for x in (k, v))
    weights = (q @ k.transpose(1, 2) * scale).masked_fill(~seen, -torch.inf).softmax(dim=-1)
    undefined = (hidden[:, None] & seen).any(dim=-1) | hidden[:, read].any(dim=-1, keepdim=True)
    return torch.where(undefined[..., None], torch.nan, weights @ v)


def oracle(t):
    """A right step, all of it float64."""
    return {name: value.double() for name, value in step(t).items()}


def _at_one_length(choose):
    """Places from one length of the batch for all rows."""
    return lambda length, lengths, num_new: range(choose(lengths), choose(lengths) + num_new)


def _up_to_one_length(choose):
    return lambda length, index, num_new, capacity, lengths: slice(0, choose(lengths) + index + 1)


def _first(lengths):
    return lengths[0]


def _moved(by):
    """Places `by` further than the right ones."""
    return lambda length, lengths, num_new: range(max(length + by, 0), max(length + by, 0) + num_new)


def _window(first, last):
    """Keys from first(length, index) up to and with last(length, index, num_new)."""
    return lambda length, index, num_new, capacity, lengths: slice(
        first(length, index), max(last(length, index, num_new) + 1, 0)
    )


def _from_0(last):
    return _window(lambda length, index: 0, last)


ONE_LENGTH = "Each row has its own length."

# (code, words, what `step` does otherwise)
MISTAKES = (
    ("attended_before", "The keys and values were read before the new ones were in the cache. Append first: a token "
     "sees itself.", {"cached": "before"}),
    ("new_not_seen", "A token sees only what was in the cache before. It also sees the new tokens up to itself.",
     {"sees": _from_0(lambda length, index, num_new: length - 1)}),
    ("self_not_seen", "A token does not see itself: token i sees lengths + i + 1 keys.",
     {"sees": _from_0(lambda length, index, num_new: length + index - 1)}),
    *(("one_too_many", "Each token sees one key more than lengths + i + 1.",
       {"sees": _from_0(lambda length, index, num_new: length + index + 1), "swept": swept})
      for swept in (None, lambda end, capacity: end + 1)),
    ("not_causal", "Every new token sees all new ones: token i may not see those after it.",
     {"sees": _from_0(lambda length, index, num_new: length + num_new - 1)}),
    ("top_left", "The causal mask begins at the cache's first key: token i sees i + 1 keys. It sees lengths + i + 1; "
     "the cached ones count.", {"sees": _from_0(lambda length, index, num_new: index)}),
    ("cache_not_read", "The new tokens see each other and none of the cached keys.",
     {"sees": _window(lambda length, index: length, lambda length, index, num_new: length + index)}),
    ("whole_capacity", "Every place of the caches was read, up to the capacity; after the last key they hold "
     "anything.",
     {"sees": lambda length, index, num_new, capacity, lengths: slice(0, capacity)}),
    ("hidden_values", "Places that no token sees got the weight 0 and were multiplied all the same: 0 times NaN or "
     "infinity is NaN. Read the values up to the last key alone, or set the others to 0.",
     {"swept": lambda end, capacity: capacity}),
    *((code, words, {"place": _at_one_length(choose), "sees": _up_to_one_length(choose)}) for code, words, choose in (
        ("length_of_row_0", "All rows have the length of row 0. " + ONE_LENGTH, _first),
        ("longest_length", "All rows have the length of the longest. " + ONE_LENGTH, max),
        ("shortest_length", "All rows have the length of the shortest. " + ONE_LENGTH, min))),
    *((code, words, {"place": _at_one_length(choose)}) for code, words, choose in (
        ("place_of_row_0", "All rows append at the length of row 0. " + ONE_LENGTH, _first),
        ("place_of_longest", "All rows append at the length of the longest. " + ONE_LENGTH, max))),
    *((code, words, {"sees": _up_to_one_length(choose)}) for code, words, choose in (
        ("sees_of_row_0", "All rows see as many keys as row 0. " + ONE_LENGTH, _first),
        ("sees_of_longest", "All rows see as many keys as the longest. " + ONE_LENGTH, max))),
    ("place_0", "The new keys went to the front of the cache, over the old ones. They belong after them, from place "
     "lengths on.", {"place": lambda length, lengths, num_new: range(num_new)}),
    ("place_late", "The new keys were written one place too far. With lengths keys, the first free place is lengths.",
     {"place": _moved(1)}),
    ("place_early", "The new keys were written one place too early, over the last cached one.", {"place": _moved(-1)}),
    ("one_place", "All new tokens went to the place lengths, each over the one before. Token i has place lengths + i.",
     {"place": lambda length, lengths, num_new: [length] * num_new}),
    ("heads_modulo", "Query head h read key head h % num_kv_heads. Neighbouring heads share one: h // group.",
     {"shared": "modulo"}),
    ("k_for_v", "v_cache got the new keys.", {"written": ("k", "k")}),
    ("swapped", "The new keys went to v_cache and the new values to k_cache.", {"written": ("v", "k")}),
    ("scale_missing", "The scores are not scaled by 1/sqrt(head_dim).", {"scale": lambda head_dim: 1.0}),
    ("scale_twice", "The scores are scaled twice.", {"scale": lambda head_dim: 1.0 / head_dim}),
    ("scale_of_64", "The scores are scaled by 1/8, which is right for a head_dim of 64 alone.",
     {"scale": lambda head_dim: 0.125}),
)  # fmt: skip


def _neighbours(evidence):
    """Diagnosis where caches alone are wrong, and only in places that no new token has."""
    failing = [one for one in evidence.failing() if one.ran and one.comparisons]
    if not failing or len(failing) < len(evidence.failing()):
        return None
    for one in failing:
        new = torch.arange(one.case.sizes["capacity"]) - one.inputs["lengths"][:, None]
        new = ((new >= 0) & (new < one.case.sizes["num_new"]))[:, None, :, None]
        if not one.comparisons["out"].passed or any(bool((one.comparisons[n].wrong & new).any()) for n in CACHES):
            return None
    name, comparison = failing[0].first_wrong
    row, head, place, _ = comparison.index
    return Diagnosis(
        "neighbours_overwritten",
        f"In the case {failing[0].case.name!r} out is right, and place {place} of row {row}, head {head} of {name} was "
        f"changed: {comparison.expected:.5g} became {comparison.got:.5g}. Only lengths to lengths + num_new - 1 change "
        "in a row; all other places keep what they hold.",
    )


def diagnose(evidence):
    """Diagnosis of wrong numbers; an answer may read a row token by token, or all its places up to the last new one."""
    too_high = by_low_scores(evidence)
    if too_high:
        return too_high
    guesses = [(code, words, partial(_mistaken, options)) for code, words, options in MISTAKES]
    to_the_end = {"swept": lambda end, capacity: end}
    guesses += [
        (code, words, partial(_mistaken, options | to_the_end))
        for code, words, options in MISTAKES
        if "place" in options
    ]
    guesses.append(("caches_as_before", "The caches came back without the new keys and values.", _not_returned))
    return _neighbours(evidence) or by_guess(evidence, guesses) or _full_cache(evidence)


def _full_cache(evidence):
    """Diagnosis where only cases go wrong that fill a cache to its last place."""
    failing = [one for one in evidence.failing() if one.ran and one.comparisons]
    if not failing or len(failing) < len(evidence.failing()):
        return None
    sizes = [
        (max(one.case.options["lengths"]), one.case.sizes["num_new"], one.case.sizes["capacity"]) for one in failing
    ]
    if any(longest + num_new < capacity for longest, num_new, capacity in sizes):
        return None
    name, comparison = failing[0].first_wrong
    return Diagnosis(
        "full_cache",
        f"In the case {failing[0].case.name!r} {name}{list(comparison.index)} is {comparison.got:.5g} in place of "
        f"{comparison.expected:.5g}. Right where the cache has room left, wrong where a new token has its last place, "
        "capacity - 1: that one is written and seen like any other.",
    )


def _mistaken(options, _case, tensors):
    return step(tensors, **options)


def _not_returned(_case, tensors):
    return step(tensors) | {name: tensors[name] for name in CACHES}
