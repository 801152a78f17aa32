"""Data parallel serving: every rank has the whole model, and a router gives each prompt to one of them.

Rank 0 routes and serves too. Nothing but prompts and answers is exchanged: data parallelism costs memory.

May import: errors, expect, parallel.checked, parallel.router, parallel.world, torch.
"""

import torch

from .. import expect
from ..errors import WorldError
from .checked import counted
from .world import require_world

TOKEN_BYTES = 8  # int64


def serve(world, answer, prompts, router):
    """The answer to each prompt, in order, on rank 0; None on the others.

    Parameters
    ----------
    answer : function(list of prompts) -> list of lists of int, what a replica does: generate
    prompts : list of lists of int, on rank 0
    router : as in `router`, on rank 0; the load of a replica is the tokens sent to it so far

    Notes
    -----
    On the wire  8 bytes a token of a prompt or answer whose replica is not rank 0, and 8 for each of them and each list
    """
    require_world(world)
    expect.function("answer", answer, error=WorldError)
    prompts = _prompts(prompts) if world.rank == 0 else None
    chosen = _chosen(world, prompts, router) if world.rank == 0 else None
    if world.rank == 0:
        for rank in range(1, world.num_ranks):
            _send(world, [p for p, number in zip(prompts, chosen, strict=True) if number == rank], rank, "prompts")
        own = [p for p, number in zip(prompts, chosen, strict=True) if number == 0]
    else:
        own = _recv(world, 0, "prompts")
    with world.span(f"{len(own)} requests"):
        answers = answer(own) if own else []
    if world.rank:
        _send(world, answers, 0, "answers")
        return None
    everyone = [iter(answers), *(iter(_recv(world, rank, "answers")) for rank in range(1, world.num_ranks))]
    return [next(everyone[number]) for number in chosen]


def _prompts(prompts):
    expect.kind("prompts", prompts, (list, tuple), how="a list of lists of tokens", error=WorldError)
    return [expect.tokens(f"prompt {row}", prompt, error=WorldError) for row, prompt in enumerate(prompts)]


def _chosen(world, prompts, router):
    loads, chosen = [0] * world.num_ranks, []
    for prompt in prompts:
        number = router.route(prompt, tuple(loads))
        if not 0 <= number < world.num_ranks:
            raise WorldError(f"the router chose replica {number}; there are 0 to {world.num_ranks - 1}.", world.rank)
        chosen.append(number)
        loads[number] += len(prompt)
    return chosen


def _send(world, lists, to, label):
    """Some lists of tokens: their number, their lengths, then all tokens."""
    lengths = torch.tensor([len(tokens) for tokens in lists], dtype=torch.int64, device=world.device)
    world.send(torch.tensor([len(lists)], device=world.device), to, label=f"{label}: count")
    if lists:
        world.send(lengths, to, label=f"{label}: lengths")
        tokens = torch.tensor([token for tokens in lists for token in tokens], dtype=torch.int64, device=world.device)
        world.send(tokens, to, label=label)


def _recv(world, source, label):
    def buffer(size):
        return torch.zeros(size, dtype=torch.int64, device=world.device)

    count = world.recv(buffer(1), source, label=f"{label}: count").item()
    if not count:
        return []
    lengths = world.recv(buffer(count), source, label=f"{label}: lengths").tolist()
    tokens = world.recv(buffer(sum(lengths)), source, label=label).tolist()
    ends = [sum(lengths[: index + 1]) for index in range(count)]
    return [tokens[end - length : end] for end, length in zip(ends, lengths, strict=True)]


@counted
def serve_bytes(prompts, answers, chosen, num_ranks):
    """Bytes on the wire in `serve`, of all ranks: tokens, a length and a count for each list that leaves its rank."""
    prompts, answers = _prompts(prompts), _prompts(answers)
    chosen = expect.tokens("chosen", chosen, 0, num_ranks - 1, of="rank", error=WorldError)
    if not len(prompts) == len(answers) == len(chosen):
        raise WorldError(f"{len(prompts)} prompts, {len(answers)} answers and {len(chosen)} ranks; expected as many.")
    away = [index for index, number in enumerate(chosen) if number]
    tokens = sum(len(prompts[index]) + len(answers[index]) for index in away)
    return TOKEN_BYTES * (tokens + 2 * len(away) + 2 * (num_ranks - 1))
