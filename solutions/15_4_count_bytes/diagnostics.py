"""Bytes that four schemes send, and the usual mistakes in counting them.

May import: verdict, torch.
"""

import torch

from course_lib.grading.report.verdict import Diagnosis

NAMES = ("tensor", "pipeline", "expert", "context")


def _of_tokens(s, experts):
    return torch.arange(s["num_tokens"])[:, None] // (s["num_tokens"] // s["num_ranks"])


def _of_experts(s, experts):
    return experts // (s["num_experts"] // s["num_ranks"])


def _away(s, experts):
    """(num_tokens, top_k) bool: the expert is on another rank than the token."""
    return _of_experts(s, experts) != _of_tokens(s, experts)


def _row(s):
    """Bytes of the hidden state of all tokens."""
    return s["num_tokens"] * s["hidden_size"] * s["itemsize"]


def _kv(s):
    """Bytes of the keys and values of all tokens in one layer."""
    return s["num_tokens"] * 2 * s["num_kv_heads"] * s["head_dim"] * s["itemsize"]


def _pair(s):
    return s["hidden_size"] * s["itemsize"]


_RIGHT = {
    "tensor": lambda s, e: s["num_layers"] * 2 * 2 * (s["num_ranks"] - 1) * _row(s),
    "pipeline": lambda s, e: (s["num_ranks"] - 1) * _row(s),
    "expert": lambda s, e: 2 * int(_away(s, e).sum()) * _pair(s),
    "context": lambda s, e: s["num_layers"] * (s["num_ranks"] - 1) * _kv(s),
}


def right(case, tensors):
    """{name: int64}: bytes that all ranks send."""
    return {name: torch.tensor(count(case.sizes, tensors["experts"])) for name, count in _RIGHT.items()}


def _ranks_reached(s, experts):
    """Other ranks that each token has experts on, added up."""
    ranks, home = _of_experts(s, experts), _of_tokens(s, experts)
    reached = torch.zeros(s["num_tokens"], s["num_ranks"], dtype=torch.bool).scatter_(1, ranks, True)
    return int(reached.scatter(1, home, False).sum())


def _strided(s, experts):
    return int((experts % s["num_ranks"] != _of_tokens(s, experts)).sum())


# output -> [(code, words, (sizes, experts) -> bytes)]; each sentence goes on from "It is what comes when"
_MISTAKES = {
    "tensor": (
        ("one_way_all_reduce", "an all-reduce is counted one way, n - 1 parts a rank: the sums have to come back, "
         "n - 1 parts again", lambda s, e: _RIGHT["tensor"](s, e) // 2 if s["num_ranks"] > 1 else 0),
        ("one_rank_for_all", "one rank's bytes are counted, 2 (n - 1) / n of an all-reduce: all ranks together send n "
         "times that", lambda s, e: s["num_layers"] * 2 * (2 * (s["num_ranks"] - 1) * _row(s) // s["num_ranks"])),
        ("whole_tensor_to_all", "every rank sends its whole tensor to every other one. A ring sends parts of 1/n",
         lambda s, e: s["num_layers"] * 2 * s["num_ranks"] * (s["num_ranks"] - 1) * _row(s)),
        ("times_n_not_n_minus_1", "an all-reduce is counted as 2 n parts a rank; there are 2 (n - 1)",
         lambda s, e: s["num_layers"] * 2 * 2 * s["num_ranks"] * _row(s)),
        ("one_layer", "one layer is counted", lambda s, e: 2 * 2 * (s["num_ranks"] - 1) * _row(s)),
        ("three_all_reduces", "three all-reduces a layer are counted: there is one after attention and one after "
         "the MLP",
         lambda s, e: s["num_layers"] * 3 * 2 * (s["num_ranks"] - 1) * _row(s)),
    ),
    "pipeline": (
        ("every_stage_sends", "the last stage sends as well: between n stages there are n - 1 borders",
         lambda s, e: s["num_ranks"] * _row(s)),
        ("every_layer_sends", "every layer sends its output: only those at a border between ranks do",
         lambda s, e: (s["num_layers"] - 1) * _row(s)),
        ("every_layer_sends", "every layer sends its output over every border: a border is crossed once",
         lambda s, e: s["num_layers"] * (s["num_ranks"] - 1) * _row(s)),
        ("one_border", "one border is counted", lambda s, e: _row(s) * (s["num_ranks"] > 1)),
        ("there_and_back", "the hidden states come back: a forward pass goes one way",
         lambda s, e: 2 * (s["num_ranks"] - 1) * _row(s)),
        ("shared_out", "the hidden states are shared out over the ranks: a stage has all columns of its layers",
         lambda s, e: (s["num_ranks"] - 1) * _row(s) // s["num_ranks"]),
    ),
    "expert": (
        ("own_rank_counted", "pairs whose expert is on the token's own rank are counted: these send nothing",
         lambda s, e: 2 * e.numel() * _pair(s)),
        ("dispatch_alone", "the way back is missing: the expert's output comes to the token's rank",
         lambda s, e: int(_away(s, e).sum()) * _pair(s)),
        ("once_a_rank", "a token with two experts on one rank is sent there once: the contract sends each pair",
         lambda s, e: 2 * _ranks_reached(s, e) * _pair(s)),
        ("experts_dealt_out", "expert e is on rank e % num_ranks: neighbours are on one rank, "
         "e * num_ranks // num_experts",
         lambda s, e: 2 * _strided(s, e) * _pair(s)),
        ("tokens_dealt_out", "token t is on rank t % num_ranks: neighbours are on one rank",
         lambda s, e: 2 * int((_of_experts(s, e) != torch.arange(len(e))[:, None] % s["num_ranks"]).sum()) * _pair(s)),
        ("as_if_even", "a share of (n - 1) / n of the pairs is taken to be sent away. These are the experts that were "
         "chosen: count them", lambda s, e: 2 * e.numel() * (s["num_ranks"] - 1) // s["num_ranks"] * _pair(s)),
        ("first_choice_alone", "only the first expert of each token is counted",
         lambda s, e: 2 * int(_away(s, e)[:, 0].sum()) * _pair(s)),
        ("expert_for_rank", "the number of an expert is compared with that of a rank",
         lambda s, e: 2 * int((e != _of_tokens(s, e)).sum()) * _pair(s)),
    ),
    "context": (
        ("keys_alone", "keys are counted and no values", lambda s, e: _RIGHT["context"](s, e) // 2),
        ("n_hops", "n hops are counted; after n - 1 every rank has seen every block",
         lambda s, e: s["num_layers"] * s["num_ranks"] * _kv(s)),
        ("one_hop", "one hop is counted; there are n - 1",
         lambda s, e: s["num_layers"] * _kv(s) * (s["num_ranks"] > 1)),
        ("one_rank_for_all", "one rank's bytes are counted: all ranks together send n times that",
         lambda s, e: s["num_layers"] * (s["num_ranks"] - 1) * (_kv(s) // s["num_ranks"])),
        ("whole_sequence_each", "every rank sends the keys of all tokens at each hop: it has 1/n of them",
         lambda s, e: s["num_layers"] * s["num_ranks"] * (s["num_ranks"] - 1) * _kv(s)),
        ("one_layer", "one layer is counted", lambda s, e: (s["num_ranks"] - 1) * _kv(s)),
    ),
}  # fmt: skip


def diagnose(evidence):
    """Diagnosis of wrong counts, or None."""
    case = evidence.smallest_by_values()
    if case is None:
        return None
    name, one = case.first_wrong
    sizes = case.case.sizes
    start = (
        f"Case {case.case.name!r}, ranks: {sizes['num_ranks']}, tokens: {sizes['num_tokens']}: {name} is "
        f"{one.got:,.0f} bytes, expected {one.expected:,.0f}"
    )
    for code, words, mistake in _MISTAKES[name]:
        if all(mistake(c.case.sizes, c.inputs["experts"]) == int(c.first.outputs[name]) for c in evidence.cases):
            return Diagnosis(f"{name}_{code}", f"{start}. It is what comes when {words}.")
    times = one.got / one.expected if one.expected else 0.0
    words = f", {times:.4g} times as many." if times > 0 else "."
    if 0.999 < times < 1.001:
        words = ". The digits agree at first: float32 holds whole numbers up to 2^24, Python's are exact."
    elif one.expected > 2**31 and (one.expected - one.got) % 2**32 == 0:
        words = ". Is a sum or a product of 32 bits? Such a number begins again after 2^31."
    return Diagnosis(f"{name}_wrong", start + words)
