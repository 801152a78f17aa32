from itertools import pairwise
from typing import NamedTuple

import torch


class TimedRequest(NamedTuple):
    due: int  # microseconds: when the plan of arrivals says that it is sent
    sent: int  # when it was sent, perhaps later
    tokens: tuple  # when each token came; none of a request that failed


def report(requests, warm_up, percents, first_limit, gap_limit):
    """(times to first token, gaps between tokens, tokens a second, requests within the limits) of a run under load."""

    ### BEGIN SOLUTION
    def ranked(values):
        values = sorted(values)
        found = [values[-(-percent * len(values) // 100) - 1] if values else None for percent in percents]
        return [None if value == float("inf") else value for value in found]

    counted = [request for request in requests if request.due >= warm_up]
    firsts = [one.tokens[0] - one.due if one.tokens else float("inf") for one in counted]
    gaps = [[after - before for before, after in pairwise(one.tokens)] for one in counted]
    last = max((one.tokens[-1] for one in counted if one.tokens), default=None)
    num_tokens = sum(len(one.tokens) for one in counted)
    rate = None if last is None else num_tokens * 1_000_000 // (last - warm_up)
    pairs = zip(firsts, gaps, strict=True)
    good = sum(first <= first_limit and max(own, default=0) <= gap_limit for first, own in pairs)
    return ranked(firsts), ranked(sum(gaps, [])), rate, good
    ### END SOLUTION


def reports(calls):
    """The report of each call, as text. Given: the judge reads it."""
    found = []
    for requests, warm_up, percents, first_limit, gap_limit in calls:
        requests = tuple(TimedRequest(due, sent, tuple(tokens)) for due, sent, tokens in requests)
        found.append(report(requests, warm_up, tuple(percents), first_limit, gap_limit))
    return torch.tensor(list(repr(found).encode()), dtype=torch.uint8)
