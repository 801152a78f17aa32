"""Synthetic, reproducible requests to a server: arrival, prompt length and output length.

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
    arrival : int, the step at which it arrives
    prompt_len, output_len : int, tokens, at least 1 each; the server knows output_len only once it is reached
    """

    arrival: int
    prompt_len: int
    output_len: int

    @property
    def total_len(self):
        return self.prompt_len + self.output_len


def random_trace(num_requests, *, seed=0, max_len=2048, median_prompt=160, median_output=240, requests_per_step=0.5):
    """Requests with log-normal lengths, as in chats: many short ones and a few very long ones.

    Parameters
    ----------
    num_requests : int
    seed : int; the same seed gives the same requests on every machine
    max_len : int, tokens; prompt and output together are truncated to it, as servers do
    median_prompt, median_output : tokens, medians of the two lengths before truncation
    requests_per_step : float, rate of arrival

    Returns
    -------
    requests : tuple of Request, in order of arrival
    """
    if max_len < 2 or num_requests < 0:
        raise ArgumentError(f"max_len is {max_len}, num_requests {num_requests}; at least 2 and 0 are needed.")
    generator, arrival, requests = random.Random(seed), 0.0, []
    for _ in range(num_requests):
        arrival += generator.expovariate(requests_per_step)
        prompt = min(max(1, round(generator.lognormvariate(0.0, 0.8) * median_prompt)), max_len - 1)
        output = min(max(1, round(generator.lognormvariate(0.0, 0.7) * median_output)), max_len - prompt)
        requests.append(Request(int(arrival), prompt, output))
    return tuple(requests)
