"""What expert parallel gives, the usual mistakes as outcomes of their own, and what it may send.

May import: verdict, subjects.parallel, torch.
"""

import torch
import torch.nn.functional as F

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import first_mistake
from course_lib.grading.subjects.parallel.calls import in_words


def outcome(t, *, expert=lambda number, t: number, gates=lambda g, t: g, keep=None, put=None):
    """out (world, num_tokens, hidden_size); each option is a mistake.

    expert : (numbers of the chosen experts, tensors) -> numbers of those that are applied; -1: none, so 0
    gates : (gates, tensors) -> the gates that are used
    keep : (rank, pairs' experts) -> bool, the pairs that are not dropped
    put : (rank, rows of the pairs, weighted, pairs' experts) -> out, in place of adding them up at their tokens
    """
    world, num_tokens, top_k = t["experts"].shape
    weights = t["weights"].flatten(0, 1)
    weights = torch.cat((weights, torch.zeros_like(weights[:1])))  # -1
    used, found = gates(t["gates"], t), []
    for rank in range(world):
        chosen = t["experts"][rank].flatten()
        rows = F.gelu(t["x"][rank].repeat_interleave(top_k, 0)[:, None] @ weights[expert(chosen, t)])[:, 0]
        rows = rows * used[rank].flatten()[:, None]
        if keep is not None:
            rows = torch.where(keep(rank, chosen, t)[:, None], rows, 0.0)
        found.append(put(rows, chosen, t) if put else rows.view(num_tokens, top_k, -1).sum(1))
    return torch.stack(found)


def _each(t):
    return t["weights"].shape[1]


def _in_sorted_order(rows, chosen, t):
    """The rows as they come back, by expert, taken for the tokens' own order."""
    top_k = t["experts"].shape[2]
    return rows[chosen.argsort(stable=True)].view(-1, top_k, rows.shape[1]).sum(1)


def _in_token_order(gates, t):
    """Gate i, counted by tokens, for the row that comes back as number i."""
    used = torch.empty_like(gates).flatten(1)
    for rank, chosen in enumerate(t["experts"].flatten(1)):
        used[rank, chosen.argsort(stable=True)] = gates[rank].flatten()
    return used.view(gates.shape)


def _last_written(rows, chosen, t):
    """The choices of a token overwrite one another; the one with the largest expert is written last."""
    top_k = t["experts"].shape[2]
    chosen = chosen.view(-1, top_k)
    return rows.view(*chosen.shape, -1)[torch.arange(len(chosen)), chosen.argmax(1)]


def _capacity(rank, chosen, t):
    """As many pairs to each rank as an even split gives, the first in order; the others are dropped."""
    ranks, world = chosen // _each(t), t["experts"].shape[0]
    most = -(-len(chosen) // world)
    return torch.stack([(ranks[:i] == ranks[i]).sum() < most for i in range(len(ranks))])


def _first_choice(rank, chosen, t):
    top_k = t["experts"].shape[2]
    return torch.arange(len(chosen)) % top_k == 0


# code, words, options; each sentence goes on from "It is what comes when"
_MISTAKES = (
    ("order_lost", "the rows that come back are in the order of their experts, and are taken for that of the tokens: "
     "order says where each belongs", {"put": _in_sorted_order}),
    ("choices_overwrite", "the choices of a token overwrite one another: they are added up", {"put": _last_written}),
    ("gates_forgotten", "gates are not used", {"gates": lambda g, t: torch.ones_like(g)}),
    ("gates_normalised", "the gates of a token are divided by their sum: they are used as they are",
     {"gates": lambda g, t: g / g.sum(-1, keepdim=True)}),
    ("gates_in_token_order", "the rows that come back are in the order of their experts, and get the gates in the "
     "order of the tokens: take gates.flatten()[order]", {"gates": _in_token_order}),
    ("tokens_dropped", "a rank takes no more than an even share of the pairs, and the others are dropped without a "
     "word", {"keep": _capacity}),
    ("first_choice_alone", "only the first expert of each token is applied", {"keep": _first_choice}),
    ("first_expert_alone", "every row goes through the first expert of its rank: send the experts' numbers with the "
     "rows", {"expert": lambda n, t: n // _each(t) * _each(t)}),
    ("dealt_out", "expert e is looked for on rank e % num_ranks; neighbours are on one rank, e // experts_each",
     {"expert": lambda n, t: n % t["experts"].shape[0] * _each(t) + n // t["experts"].shape[0]}),
    ("global_numbers", "a rank compares its experts, 0 to experts_each - 1, with numbers that count those of all "
     "ranks", {"expert": lambda n, t: torch.where(n < _each(t), n, -1)}),
)  # fmt: skip


def diagnose(evidence):
    """Diagnosis of wrong values, or None."""
    case = evidence.smallest_by_values()
    if case is None:
        return None
    one, t = case.comparisons["out"], case.inputs
    rank, token, _ = one.index
    start = (
        f"Case {case.case.name!r}: out{list(one.index[1:])} of rank {rank} is {one.got:.5g}, expected "
        f"{one.expected:.5g}; token {token} chose experts {t['experts'][rank, token].tolist()}, "
        f"{_each(t)} on each rank."
    )
    return first_mistake(evidence, start, _MISTAKES, _fits)


def _fits(case, options):
    t = {name: x.double() if x.is_floating_point() else x for name, x in case.inputs.items()}
    return torch.allclose(case.first.outputs["out"].double(), outcome(t, **options), rtol=1e-3, atol=1e-3)


def rows_there_and_back(case, ledger):
    """Diagnosis or None: all_to_all alone, and at most a row there and back for each pair."""
    world, num_tokens, hidden, top_k, _ = case.sizes.values()
    pairs = world * num_tokens * top_k
    most = 2 * pairs * 4 * hidden + 32 * pairs + 64 * world * world
    sent = sum(call["bytes"] for calls in ledger["calls"] for call in calls)
    for rank, calls in enumerate(ledger["calls"]):
        if any(call["op"] != "all_to_all" for call in calls):
            return Diagnosis(
                "other_collective",
                f"Every value is right, but rank {rank} calls {in_words(calls)} (case {case.name!r}); rows go to their "
                "rank alone, by all_to_all.",
            )
    if sent <= most:
        return None
    return Diagnosis(
        "too_many_bytes",
        f"Every value is right, but the ranks send {sent:,} bytes (case {case.name!r}); {pairs} pairs of {hidden} "
        f"numbers there and back, and 32 bytes for each beside, are {most:,}. Send each rank its rows and no padding.",
    )
