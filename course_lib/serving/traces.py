"""Workloads: lists of requests that a seed decides, and when they arrive.

May import: errors, expect, request.
"""

import dataclasses
import random

from .. import expect
from ..errors import ArgumentError
from .request import Request, checked_requests

MOST = 1 << 24  # requests, or tokens of one; more would fill the memory
MOST_THINK = 1e9  # seconds; after more, a step is less than the rounding of the clock
BENCH_IDS = 10_000  # the field's workload draws its tokens below this number


def request(number, prompt, max_new_tokens, **more):
    """A Request named by its number."""
    return Request(f"r{number}", tuple(prompt), max_new_tokens, **more)


def _counts(**given):
    """The arguments as whole numbers, each with its least."""
    return [expect.whole(name, value, least, MOST) for name, (value, least) in given.items()]


def _seed(name, value):
    return expect.whole(name, value, most=None)


def uniform_trace(num_requests=256, low=100, high=1024, *, seed=0, vocab_size=BENCH_IDS + 1, content=None, **more):
    """Prompts and outputs with lengths uniform in low to high, drawn in the order of nano-vllm's bench.py.

    With the defaults it is that workload, 142,827 tokens in and 133,966 out.

    Parameters
    ----------
    content : int or None; another seed for the tokens alone, so that a further run of the same lengths finds nothing
        in a prefix cache
    more : further fields of each Request

    Source: X. Yu, nano-vllm, bench.py, https://github.com/GeeeekExplorer/nano-vllm
    """
    num_requests, low, high = _counts(num_requests=(num_requests, 0), low=(low, 1), high=(high, 1))
    vocab_size = expect.whole("vocab_size", vocab_size, 1)
    if low > high:
        raise ArgumentError(f"low is {low} and high {high}; lengths go from low to high.")
    draw = random.Random(_seed("seed", seed))
    other = random.Random(0 if content is None else _seed("content", content))
    prompts = [_ids(draw, draw.randint(low, high), vocab_size) for _ in range(num_requests)]
    lengths = [draw.randint(low, high) for _ in range(num_requests)]
    if content is not None:
        prompts = [_ids(other, len(prompt), vocab_size) for prompt in prompts]
    return [request(i, *pair, **more) for i, pair in enumerate(zip(prompts, lengths, strict=True))]


def _ids(draw, count, vocab_size):
    return [draw.randint(0, vocab_size - 1) for _ in range(count)]


def fixed_trace(num_requests, prompt_len, output_len, *, seed=0, vocab_size=BENCH_IDS + 1, **more):
    """Random prompts of one length and outputs of one length."""
    sizes = _counts(num_requests=(num_requests, 0), prompt_len=(prompt_len, 1), output_len=(output_len, 1))
    num_requests, prompt_len, output_len = sizes
    vocab_size, draw = expect.whole("vocab_size", vocab_size, 1), random.Random(_seed("seed", seed))
    return [request(i, _ids(draw, prompt_len, vocab_size), output_len, **more) for i in range(num_requests)]


def shared_prefix_trace(num_requests, shared_len, own_len, output_len, *, seed=0, vocab_size=BENCH_IDS + 1, **more):
    """Prompts of shared_len tokens that all have in common, as a system prompt, and own_len of their own."""
    sizes = {"num_requests": (num_requests, 0), "shared_len": (shared_len, 0), "own_len": (own_len, 0)}
    num_requests, shared_len, own_len, output_len = _counts(**sizes, output_len=(output_len, 1))
    vocab_size, draw = expect.whole("vocab_size", vocab_size, 1), random.Random(_seed("seed", seed))
    shared = _ids(draw, shared_len, vocab_size)
    return [request(i, shared + _ids(draw, own_len, vocab_size), output_len, **more) for i in range(num_requests)]


def arriving(requests, rate, *, seed=0):
    """The same requests as a Poisson process of `rate` requests a second: gaps are exponential and independent."""
    rate, draw, now, found = expect.real("rate", rate, above=0), random.Random(_seed("seed", seed)), 0.0, []
    for item in checked_requests(requests):
        now += draw.expovariate(rate)
        found.append(dataclasses.replace(item, arrival=now))
    return found


@dataclasses.dataclass(frozen=True)
class Conversation:
    """Turns of one user: each sends the whole conversation so far, answers included, and new tokens of the user.

    Attributes
    ----------
    name : str; turn i is the request name.i
    turns : tuple of tuple of int, the user's tokens of each turn
    max_new_tokens : int, of each answer
    think : float, seconds between an answer and the next turn
    arrival : float, of the first turn
    """

    name: str
    turns: tuple
    max_new_tokens: int
    think: float = 0.0
    arrival: float = 0.0

    def request(self, turn, history=(), arrival=None):
        """The Request of a turn, after the tokens of `history`."""
        arrival = self.arrival if arrival is None else arrival
        prompt = (*history, *self.turns[turn])
        return Request(f"{self.name}.{turn}", prompt, self.max_new_tokens, arrival=arrival)


def conversations(num_users, num_turns, turn_len, output_len, *, think=0.0, seed=0, vocab_size=BENCH_IDS + 1):
    """Users whose turns grow: a multi-turn trace, for which a prefix cache is made."""
    sizes = {"num_users": (num_users, 0), "num_turns": (num_turns, 1), "turn_len": (turn_len, 1)}
    num_users, num_turns, turn_len, output_len = _counts(**sizes, output_len=(output_len, 1))
    vocab_size, think = expect.whole("vocab_size", vocab_size, 1), expect.real("think", think, 0, MOST_THINK)
    draw = random.Random(_seed("seed", seed))
    found = []
    for number in range(num_users):
        turns = tuple(tuple(_ids(draw, turn_len, vocab_size)) for _ in range(num_turns))
        found.append(Conversation(f"u{number}", turns, output_len, think))
    return found
