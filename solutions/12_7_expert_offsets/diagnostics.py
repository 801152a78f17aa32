"""What wrong offsets, orders and tiles of 12.7 look like."""

import torch

from course_lib.grading.report.verdict import Diagnosis

NAMES = ("offsets", "order", "places", "tiles")


def right(case, tensors):
    """{"offsets", "order", "places", "tiles"}, int64, by a plain loop."""
    return _sorted(case, tensors["experts"])


def _sorted(case, experts, *, key=lambda pair: pair):
    """The right result; `key` puts the pairs of an expert into another order."""
    _, top_k, num_experts, block_m = case.sizes.values()
    pairs = experts.flatten().tolist()
    lists = [sorted((p for p, e in enumerate(pairs) if e == expert), key=key) for expert in range(num_experts)]
    order = torch.tensor([pair for pairs_of in lists for pair in pairs_of])
    offsets = torch.tensor([0] + [len(pairs_of) for pairs_of in lists]).cumsum(0)
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order))
    starts = offsets.tolist()
    rows = [[e, first] for e in range(num_experts) for first in range(starts[e], starts[e + 1], block_m)]
    tiles = _table(rows, case)
    return {"offsets": offsets, "order": order, "places": places.view(-1, top_k), "tiles": tiles}


def _table(rows, case):
    most = case.options["max_tiles"]
    return torch.tensor((rows + [[-1, -1]] * most)[:most])


def _counts(case, made):
    """offsets that are counts, or ends."""
    counts = made["offsets"].diff()
    return torch.cat((counts, counts.sum()[None]))


def _tiles(case, made, rows):
    """`made` with the tiles that `rows` (expert, start, end, block_m) gives for each expert."""
    starts, block_m = made["offsets"].tolist(), case.sizes["block_m"]
    found = [row for e in range(case.sizes["num_experts"]) for row in rows(e, starts[e], starts[e + 1], block_m)]
    return made | {"tiles": _table(found, case)}


def _straddling(case, made):
    """Tiles of block_m pairs, one after the other, whatever their experts."""
    starts, block_m = made["offsets"], case.sizes["block_m"]
    firsts = torch.arange(0, int(starts[-1]), block_m)
    experts = torch.searchsorted(starts, firsts, right=True) - 1
    return made | {"tiles": _table(torch.stack((experts, firsts), 1).tolist(), case)}


# code, words, outputs that are looked at, mistake (case, right result, experts) -> {output: tensor}
_TABLE = (
    ("counts_for_offsets", "offsets holds the counts themselves: add up those of all experts before",
     ("offsets",), lambda c, made, e: {"offsets": _counts(c, made)}),
    ("offsets_are_ends", "offsets[e] is the end of expert e: it is the start, and begins with 0",
     ("offsets",), lambda c, made, e: {"offsets": torch.cat((made["offsets"][1:], made["offsets"][-1:]))}),
    ("exchanged", "order holds the place of each pair and places the pair at each place: they are exchanged",
     ("order", "places"), lambda c, made, e: {
         "order": made["places"].flatten(), "places": made["order"].view(made["places"].shape)}),
    ("tokens_for_pairs", "order holds tokens; it holds pairs, token * top_k + choice",
     ("order",), lambda c, made, e: {"order": made["order"] // c.sizes["top_k"]}),
    ("not_stable", "the pairs of an expert are in falling order: the first of them comes first",
     ("order", "places"), lambda c, made, e: _sorted(c, e, key=lambda pair: -pair)),
    ("choice_first", "the pairs of an expert are ordered by their choice, and then by the token",
     ("order", "places"), lambda c, made, e: _sorted(
         c, e, key=lambda pair: (pair % c.sizes["top_k"], pair // c.sizes["top_k"]))),
    ("rank_from_one", "the places are one too large: the rank of the first pair of an expert is 0",
     ("places",), lambda c, made, e: {"places": made["places"] + 1}),
    ("rank_alone", "places holds the rank among the pairs of the expert; add the expert's offset",
     ("places",), lambda c, made, e: {"places": made["places"] - made["offsets"][e]}),
    ("tiles_straddle", "tiles begin every block_m places, and some have rows of two experts: each expert begins a tile",
     ("tiles",), lambda c, made, e: _straddling(c, made)),
    ("tiles_relative", "a tile's first row is counted from the start of its expert; add the expert's offset",
     ("tiles",), lambda c, made, e: _tiles(
         c, made, lambda e, a, b, m: [[e, first - a] for first in range(a, b, m)])),
    ("tiles_of_empty", "an expert without tokens has a tile",
     ("tiles",), lambda c, made, e: _tiles(
         c, made, lambda e, a, b, m: [[e, first] for first in range(a, max(b, a + 1), m)])),
    ("tiles_rounded_down", "the last tile of an expert is missing where it is not full: round up",
     ("tiles",), lambda c, made, e: _tiles(
         c, made, lambda e, a, b, m: [[e, first] for first in range(a, b - m + 1, m)])),
    ("one_tile_each", "an expert with tokens has one tile, however many rows there are",
     ("tiles",), lambda c, made, e: _tiles(c, made, lambda e, a, b, m: [[e, a]] * (b > a))),
    ("tile_too_many", "an expert whose rows fill its tiles has one more: round up, do not add 1",
     ("tiles",), lambda c, made, e: _tiles(
         c, made, lambda e, a, b, m: [[e, first] for first in range(a, b + 1, m)] if b > a else [[e, a]])),
)  # fmt: skip


def diagnose(evidence):
    """Diagnosis of wrong numbers, or None."""
    failing = evidence.failing_by_values()
    if not failing:
        return None
    wrong = [name for name in NAMES if any(not case.comparisons[name].passed for case in failing)]
    start = _say(failing[0])
    for code, words, names, mistake in _TABLE:
        if wrong[0] in names and all(_fits(case, names, mistake) for case in evidence.cases):
            return Diagnosis(code, f"{start} It is what comes when {words}.")
    if wrong == ["tiles"] and all(_fits_before_end(case) for case in evidence.cases):
        return Diagnosis("tiles_not_ended", f"{start} Every tile is right; the rows after the last one are -1, -1.")
    return Diagnosis("wrong_numbers", f"{start} Wrong in {len(failing)} cases: {', '.join(wrong)}.")


def no_value_leaves(case, ledger):
    """Diagnosis or None: no number of a tensor becomes one of Python or numpy."""
    if not ledger["object_bytes"]:
        return None
    return Diagnosis(
        "value_on_host",
        f"Every number is right (case {case.name!r}), but a value of a tensor was read by Python: item, int, bool, "
        "tolist, numpy or one_hot. On a GPU the host would wait there for all that was launched; a CUDA graph cannot "
        "hold it.",
    )


def _fits(case, names, mistake):
    made = mistake(case.case, right(case.case, case.inputs), case.inputs["experts"])
    return all(torch.equal(made[name], case.first.outputs[name]) for name in names)


def _fits_before_end(case):
    wanted = right(case.case, case.inputs)["tiles"]
    exists = wanted[:, 0] >= 0
    return torch.equal(wanted[exists], case.first.outputs["tiles"][exists])


def _say(case):
    """The first wrong number of a case."""
    name = next(name for name in NAMES if not case.comparisons[name].passed)
    one, experts = case.comparisons[name], case.inputs["experts"]
    given = f"experts {experts.tolist()}" if experts.numel() <= 24 else f"{experts.numel()} pairs"
    return (
        f"Case {case.case.name!r} ({given}, tiles of {case.case.sizes['block_m']}): {name}{list(one.index)} is "
        f"{one.got:.0f}, expected {one.expected:.0f}."
    )
