"""Diagnoses of tokens shared out to the ranks of a causal ring: the first promise that is broken, and where.

May import: verdict, torch.
"""

import torch

from course_lib.grading.report.verdict import Diagnosis


def read(numbers):
    """The positions of each rank, from the row of numbers of `shared`."""
    ranks, place = [], 0
    while place < len(numbers):
        end = place + 1 + numbers[place]
        ranks.append(numbers[place + 1 : end])
        place = end
    return ranks


def pairs(ranks):
    """(num_ranks, num_ranks) int64: visible pairs of rank r's queries at hop h, when it has block (r - h)."""
    num_ranks = len(ranks)
    positions = [torch.tensor(sorted(one), dtype=torch.int64) for one in ranks]
    found = torch.zeros(num_ranks, num_ranks, dtype=torch.int64)
    for rank in range(num_ranks):
        for hop in range(num_ranks):
            keys = positions[(rank - hop) % num_ranks]
            found[rank, hop] = torch.searchsorted(keys, positions[rank], right=True).sum()
    return found


def first_mistake(name, num_tokens, num_ranks, numbers):
    """Diagnosis of the first promise that the positions break, or None."""
    ranks = read(numbers)
    start = f"Case {name!r}, {num_tokens} token{'s' * (num_tokens > 1)}, {num_ranks} rank{'s' * (num_ranks > 1)}"
    if len(ranks) != num_ranks:
        return Diagnosis("wrong_number_of_ranks", f"{start}: {len(ranks)} lists came back, one for each rank is asked.")
    found = _by_token(ranks, num_tokens) or _by_memory(ranks, num_tokens) or _by_work(ranks, num_tokens)
    return found and Diagnosis(found[0], f"{start}: {found[1]}.")


def _by_token(ranks, num_tokens):
    """(code, words) of a token that is nowhere, twice or does not exist, or None."""
    owner = {}
    for rank, positions in enumerate(ranks):
        for position in positions:
            if not 0 <= position < num_tokens:
                return "no_such_token", f"rank {rank} has position {position}; there are 0 to {num_tokens - 1}"
            if position in owner:
                return "token_twice", f"position {position} is on rank {owner[position]} and again on rank {rank}"
            owner[position] = rank
    lost = next((position for position in range(num_tokens) if position not in owner), None)
    return (
        None
        if lost is None
        else ("token_lost", f"position {lost} is on no rank; {num_tokens - len(owner)} are missing")
    )


def _by_memory(ranks, num_tokens):
    """(code, words) of a rank with too many tokens, or None."""
    most, counts = 2 * -(-num_tokens // (2 * len(ranks))), [len(one) for one in ranks]
    if max(counts) <= most:
        return None
    work = pairs(ranks).sum(1)
    even = not _too_much(work, num_tokens)
    also = ". The work in all is even, but keys, values and the bytes of a hop are not" if even else ""
    busiest = counts.index(max(counts))
    return "too_many_tokens", (
        f"rank {busiest} has {counts[busiest]} tokens and rank {counts.index(min(counts))} {min(counts)}; "
        f"{most} are allowed{also}"
    )


def _by_work(ranks, num_tokens):
    """(code, words) of a rank with too much work in all or in a hop, or None."""
    work, num_ranks = pairs(ranks), len(ranks)
    total = work.sum(1)
    if _too_much(total, num_tokens):
        rank, mean = int(total.argmax()), total.double().mean().item()
        said = (
            f"rank {rank} computes {int(total[rank]):,} pairs of query and key in all, {int(total[rank]) / mean:.2f} "
            f"times the mean of {mean:,.0f}; the least busy rank has {int(total.min()):,}"
        )
        in_order = all(positions == list(range(positions[0], positions[-1] + 1)) for positions in ranks if positions)
        if in_order and num_ranks > 1:
            return "one_run_a_rank", f"{said}. Each rank has one run of neighbours: later tokens see more keys"
        return "uneven", said
    for hop in range(num_ranks):
        if _too_much(work[:, hop], num_tokens):
            rank, mean = int(work[:, hop].argmax()), work[:, hop].double().mean().item()
            return "uneven_hop", (
                f"the work in all is even, but at hop {hop} rank {rank} computes {int(work[rank, hop]):,} pairs, "
                f"{int(work[rank, hop]) / mean:.2f} times the mean of {mean:,.0f}, and the others wait for it"
            )
    return None


def _too_much(work, num_tokens):
    """Whether the busiest rank has more than 1.1 times the mean, or the mean and num_tokens where that is more."""
    most, total, num_ranks = int(work.max()), int(work.sum()), len(work)
    return 10 * num_ranks * most > 11 * total and num_ranks * (most - num_tokens) > total
