"""Requests that arrive at a server: when, with how long a prompt, and for how many tokens. Made up, and repeatable.

May import: errors.
"""

import random
from dataclasses import dataclass

from ..errors import ArgumentError


@dataclass(frozen=True)
class Request:
    """One request.

    Attributes
    ----------
    arrival : int, the step at which it comes
    prompt_len, output_len : int, tokens, at least 1 each; the server learns output_len only by reaching it
    """

    arrival: int
    prompt_len: int
    output_len: int

    @property
    def total_len(self):
        return self.prompt_len + self.output_len


def random_trace(num_requests, *, seed=0, max_len=2048, median_prompt=160, median_output=240, requests_per_step=0.5):
    """Requests with log-normal lengths, which is how chats look: many short ones, and a few that are very long.

    Parameters
    ----------
    num_requests : int
    seed : int; the same seed gives the same requests on every machine
    max_len : int, tokens; prompt and output together are cut to it, as servers cut them
    median_prompt, median_output : tokens, medians of the two lengths before the cut
    requests_per_step : float, rate of arrival

    Returns
    -------
    requests : tuple of Request, in order of arrival
    """
    if max_len < 2 or num_requests < 0:
        raise ArgumentError(f"max_len is {max_len}, num_requests {num_requests}; at least 2 and 0 are needed.")
    chance, at, requests = random.Random(seed), 0.0, []
    for _ in range(num_requests):
        at += chance.expovariate(requests_per_step)
        prompt = min(max(1, round(chance.lognormvariate(0.0, 0.8) * median_prompt)), max_len - 1)
        output = min(max(1, round(chance.lognormvariate(0.0, 0.7) * median_output)), max_len - prompt)
        requests.append(Request(int(at), prompt, output))
    return tuple(requests)
