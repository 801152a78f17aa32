"""A request, and the sequence of tokens that serving it produces.

    WAITING --admit--> RUNNING --finish--> FINISHED        finish (also an abort) is possible from every state
    WAITING <-preempt- RUNNING
    SWAPPED --swap_in-> RUNNING, RUNNING -swap_out-> SWAPPED

May import: errors, expect, model.
"""

from dataclasses import dataclass, field
from enum import Enum

from .. import expect
from ..errors import RefusedError, ServingError
from ..model import Sampling

PENDING = -1  # a token that a step in flight chooses: known on the device, not yet on the host


@dataclass(frozen=True)
class Request:
    """What a client asks for; RefusedError where a field is of another type. Whether it fits is the engine's question.

    Attributes
    ----------
    name : str, unique among the requests that are being served
    prompt : tuple of int, at least one token
    max_new_tokens : int, at least 1
    sampling : model.Sampling
    eos : int or None; the sequence ends with this token. None: it goes on to max_new_tokens
    stop : tuple of str; the text ends before the first of them. The detokeniser looks for them, not the scheduler
    priority : int; smaller is served first
    arrival : float, s; among equal priorities the earlier one is served first
    salt : str; prefixes are shared between requests of one salt only
    """

    name: str
    prompt: tuple
    max_new_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    eos: int | None = None
    stop: tuple = ()
    priority: int = 0
    arrival: float = 0.0
    salt: str = ""

    def __post_init__(self):
        checked = {
            "name": _checked(expect.word, "name", self.name),
            "prompt": tuple(_checked(expect.tokens, "prompt", self.prompt)),
            "max_new_tokens": _checked(expect.whole, "max_new_tokens", self.max_new_tokens),
            "sampling": _checked(expect.kind, "sampling", self.sampling, Sampling),
            "eos": None if self.eos is None else _checked(expect.whole, "eos", self.eos, 0),
            "stop": _checked(expect.words, "stop", self.stop),
            "priority": _checked(expect.whole, "priority", self.priority, most=None),
            "arrival": _checked(expect.real, "arrival", self.arrival),
            "salt": _checked(expect.word, "salt", self.salt),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def max_computed(self):
        """The most tokens whose keys and values are ever kept: the last token that is produced needs none."""
        return len(self.prompt) + self.max_new_tokens - 1


def _checked(check, name, *value, **limits):
    return check(f"a request's {name}", *value, **limits, error=RefusedError)


def require_request(request):
    """Raise where this is no Request."""
    expect.kind("request", request, Request, how="Request(name, prompt, max_new_tokens) makes one", error=RefusedError)


def checked_requests(requests):
    """Requests as a list; RefusedError where one is none."""
    if isinstance(requests, str | bytes | dict) or not hasattr(requests, "__iter__"):
        raise RefusedError(f"requests is {expect.shown(requests)}; expected a list of Request.")
    requests = list(requests)
    for request in requests:
        require_request(request)
    return requests


class State(Enum):
    """Where a sequence is: in the queue (WAITING, SWAPPED), in the batch, or done."""

    WAITING = "waiting"
    RUNNING = "running"
    SWAPPED = "swapped"
    FINISHED = "finished"


class Sequence:
    """The tokens of a request and the pages of their keys and values.

    There is no prefill phase: a sequence has `num_tokens`, of which `num_computed` have keys and values in the cache.
    A decoding sequence has one new token, a prompt many.

    Attributes
    ----------
    request : Request
    tokens : list of int, prompt and produced; PENDING where a step in flight chooses the token
    num_computed : int, tokens whose keys and values are in the cache, those of the steps in flight included
    pages : list of int, pages of the KV pool, ceil(num_computed / page_size) while it is RUNNING
    host_pages : list of int, the same while it is SWAPPED
    state : State
    num_cached : int, prompt tokens taken from the prefix cache at the first admission
    num_preemptions : int
    num_in_flight : int, steps that compute it and are not committed
    finish_reason : None, "stop", "length" or "abort"
    """

    def __init__(self, request, number=0):
        """number : int, order of arrival at the scheduler: decides between equal priorities and arrivals"""
        self.request, self.tokens, self.state = request, list(request.prompt), State.WAITING
        self.key = (request.priority, request.arrival, number)
        self.num_computed = self.num_cached = self.num_preemptions = self.num_in_flight = 0
        self.pages, self.host_pages, self.finish_reason = [], [], None

    @property
    def name(self):
        return self.request.name

    @property
    def num_tokens(self):
        return len(self.tokens)

    @property
    def num_new(self):
        """Tokens that are still to be computed."""
        return len(self.tokens) - self.num_computed

    @property
    def num_produced(self):
        """Tokens after the prompt, PENDING ones included."""
        return len(self.tokens) - len(self.request.prompt)

    @property
    def produced(self):
        """The tokens after the prompt that are known on the host."""
        return [token for token in self.tokens[len(self.request.prompt) :] if token != PENDING]

    def admit(self, pages, num_computed):
        """Start to run on `pages` of the prefix cache, which hold the first num_computed tokens."""
        self._move("admit", State.WAITING, State.RUNNING)
        self.pages, self.num_computed = list(pages), num_computed
        if self.num_preemptions == 0:
            self.num_cached = num_computed

    def preempt(self):
        """Go back to the queue without keys and values: prompt and produced tokens are computed again. -> pages"""
        self._move("preempt", State.RUNNING, State.WAITING)
        self.num_preemptions, self.num_computed = self.num_preemptions + 1, 0
        return self._drop_pages()

    def swap_out(self, host_pages):
        """Go back to the queue with keys and values kept in `host_pages`. -> pages"""
        self._move("swap out", State.RUNNING, State.SWAPPED)
        self.num_preemptions, self.host_pages = self.num_preemptions + 1, list(host_pages)
        return self._drop_pages()

    def swap_in(self, pages):
        """Run again on `pages`, into which the host pages are copied. -> host pages"""
        self._move("swap in", State.SWAPPED, State.RUNNING)
        self.pages, host_pages, self.host_pages = list(pages), self.host_pages, []
        return host_pages

    def finish(self, reason):
        """End; pages and PENDING tokens stay until `leave`, because a step in flight may read them."""
        if self.state is State.FINISHED:
            raise ServingError(f"{self.name!r} has finished ({self.finish_reason}) and cannot finish again ({reason}).")
        self.state, self.finish_reason = State.FINISHED, reason

    def leave(self):
        """No step in flight computes it any more. -> pages, host pages"""
        self.tokens = [*self.request.prompt, *self.produced]
        host_pages, self.host_pages = self.host_pages, []
        return self._drop_pages(), host_pages

    def _drop_pages(self):
        pages, self.pages = self.pages, []
        return pages

    def _move(self, verb, needed, following):
        if self.state is not needed or self.num_in_flight:
            raise ServingError(
                f"{self.name!r} is {self.state.value} with {self.num_in_flight} steps in flight; to {verb}, it must be "
                f"{needed.value} with none."
            )
        self.state = following
