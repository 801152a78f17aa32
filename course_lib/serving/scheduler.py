"""Who computes which tokens in the next step: continuous batching with chunked prefill.

    step = scheduler.schedule()          # None: nothing to run now
    tokens = runner.run(step).tokens()   # dict: name -> token
    outputs = scheduler.commit(step, tokens)

Overlap. schedule() may be called once more before commit(): the token of a sampling piece is then in `tokens` as PENDING,
and counts as computed by the step after. A runner takes a PENDING token of its input from the device, where the step
before left it. Steps must run on the device in the order of schedule(), because a page that is given up goes to a later
step without waiting. Nobody is preempted while a step is in flight: schedule() returns None, commit and ask again.

May import: errors, kv, config, prefix, request.
"""

from bisect import insort
from collections import deque
from dataclasses import dataclass, field

from ..errors import BusyError, ServingError
from ..kv import PageAllocator
from .prefix import PrefixCache
from .request import PENDING, Sequence, State


@dataclass(frozen=True)
class Piece:
    """Tokens start .. start + num_tokens of a sequence are computed in a step.

    Attributes
    ----------
    sequence : Sequence
    start, num_tokens : int
    samples : bool; the last of them is the sequence's last token, so that a token is chosen after it
    num_drafts : int; this many of num_tokens, the last, are not known: a draft proposes them in the step
    """

    sequence: Sequence
    start: int
    num_tokens: int
    samples: bool
    num_drafts: int = 0

    @property
    def stop(self):
        return self.start + self.num_tokens


@dataclass(frozen=True)
class Step:
    """One step of the model.

    Attributes
    ----------
    number : int, counted from 0
    pieces : tuple of Piece, one a sequence
    preempted : tuple of Sequence that went back to the queue
    swaps_out, swaps_in : tuple of (page, host page), copied before the model runs, swaps_out first
    """

    number: int
    pieces: tuple
    preempted: tuple = ()
    swaps_out: tuple = ()
    swaps_in: tuple = ()

    @property
    def num_tokens(self):
        return sum(piece.num_tokens for piece in self.pieces)

    @property
    def is_decode(self):
        """Whether every piece is one token: the shape that CUDA graphs are recorded for."""
        return all(piece.num_tokens == 1 for piece in self.pieces)


@dataclass(frozen=True)
class Output:
    """What a step made for one request.

    Attributes
    ----------
    name : str
    tokens : tuple of int, new in this step
    finish_reason : None, "stop", "length" or "abort"
    num_prompt_tokens, num_cached_tokens : int; cached ones were found in the prefix cache
    """

    name: str
    tokens: tuple
    finish_reason: str | None
    num_prompt_tokens: int
    num_cached_tokens: int


@dataclass
class Plan:
    """A step while it is made up."""

    budget: int
    pieces: list = field(default_factory=list)
    preempted: list = field(default_factory=list)
    swaps_out: list = field(default_factory=list)
    swaps_in: list = field(default_factory=list)


class Scheduler:
    """Requests in, steps out, tokens in, outputs out. Holds the page tables, never a tensor.

    Attributes
    ----------
    waiting, running : list of Sequence, both in order of (priority, arrival)
    """

    def __init__(self, config):
        self.config = config
        self.allocator = PageAllocator(config.num_pages)
        self.cache = PrefixCache(self.allocator, config.page_size)
        self.waiting, self.running = [], []
        self._sequences, self._in_flight, self._leaving = {}, deque(), []
        self._num_added = self._num_steps = 0

    @property
    def has_work(self):
        return bool(self.waiting or self.running or self._in_flight)

    def add(self, request):
        """Queue a request. -> Sequence

        Raises
        ------
        RefusedError  it can never be served
        BusyError     the queue is full
        ServingError  a request of this name is being served
        """
        self.config.check(request)
        if request.name in self._sequences:
            raise ServingError(f"A request {request.name!r} is being served; give the new one another name.")
        if len(self.waiting) >= self.config.max_waiting:
            raise BusyError(f"{len(self.waiting)} requests wait and max_waiting is {self.config.max_waiting}.")
        sequence = self._sequences[request.name] = Sequence(request, self._num_added)
        self._num_added += 1
        insort(self.waiting, sequence, key=_key)
        return sequence

    def abort(self, name, reason="abort"):
        """End a request in any state. -> its last Output, or None where no such request is being served

        Pages of a step in flight are given up when that step is committed.
        """
        sequence = self._sequences.get(name)
        if sequence is None:
            return None
        self._finish(sequence, reason)
        return _output(sequence, ())

    def schedule(self):
        """The next step, or None when there is nothing to run before a commit or a new request."""
        if len(self._in_flight) >= self.config.max_in_flight:
            raise ServingError(f"{len(self._in_flight)} steps are in flight; commit the oldest before the next one.")
        if self._in_flight and not self._running_fits():
            return None  # somebody must be preempted: wait for the step in flight, which may free pages
        plan = Plan(self.config.max_num_tokens)
        self._continue(plan)
        if not plan.preempted:
            self._admit(plan)
        if not plan.pieces:
            return None
        parts = plan.pieces, plan.preempted, plan.swaps_out, plan.swaps_in
        step = Step(self._num_steps, *map(tuple, parts))
        self._num_steps += 1
        self._in_flight.append(step)
        return step

    def commit(self, step, tokens):
        """Take the tokens of the oldest step in flight.

        Parameters
        ----------
        step : Step
        tokens : dict, name -> token chosen, or list of tokens with speculation; one for each piece that samples

        Returns
        -------
        outputs : list of Output, one for each piece that sampled and whose request has not been aborted
        """
        self._check_commit(step, tokens)
        self._in_flight.popleft()
        outputs = []
        for piece in step.pieces:
            sequence = piece.sequence
            sequence.num_in_flight -= 1
            if sequence.state is State.FINISHED:
                self._free(sequence)
                continue
            if piece.samples:
                outputs.append(self._take(piece, tokens[sequence.name]))
        return outputs

    def _running_fits(self):
        """Whether every running sequence gets the pages of its next piece."""
        needed = sum(
            self._pages_needed(sequence, min(self._wanted(sequence), self.config.max_num_tokens))
            for sequence in self.running
        )
        return needed <= self.cache.num_available

    def _continue(self, plan):
        """Everyone who runs: one token or the rest of the prompt, in order, and at least one token each."""
        index = 0
        while index < len(self.running):
            sequence = self.running[index]
            index += 1
            later = len(self.running) - index  # each of them gets a token too
            count = min(self._wanted(sequence), plan.budget - later)
            if count > 0 and self._make_room(sequence, count, plan):
                self._add_piece(sequence, count, plan)

    def _admit(self, plan):
        """Those who wait, in order, until the budget, the seats or the pages run out; no one is skipped."""
        while self.waiting and len(self.running) < self.config.max_num_seqs and plan.budget > 0:
            sequence = self.waiting[0]
            count = min(self._wanted(sequence), plan.budget)
            if self._pages_needed(sequence, count) > self.cache.num_available:
                return
            self.waiting.pop(0)
            sequence.admit([], 0)
            insort(self.running, sequence, key=_key)
            self._make_room(sequence, count, plan)
            self._add_piece(sequence, count, plan)

    def _wanted(self, sequence):
        """Tokens of the sequence that the next step may compute."""
        if sequence.num_produced >= sequence.request.max_new_tokens:
            return 0  # its last token is chosen in a step in flight
        return min(sequence.num_new, self.config.max_chunk or sequence.num_new)

    def _pages_needed(self, sequence, count):
        return self.config.pages_for(sequence.num_computed + count) - len(sequence.pages)

    def _make_room(self, sequence, count, plan):
        """Pages for `count` more tokens; preempts the last in order until they are there. -> False: itself was last"""
        needed = self._pages_needed(sequence, count)
        while needed > self.cache.num_available:
            victim = self.running.pop()
            self._preempt(victim, plan)
            if victim is sequence:
                return False
        sequence.pages += self.cache.allocate(needed)
        return True

    def _preempt(self, sequence, plan):
        self.cache.release(sequence.preempt())
        insort(self.waiting, sequence, key=_key)
        plan.preempted.append(sequence)

    def _add_piece(self, sequence, count, plan):
        samples = count == sequence.num_new
        plan.pieces.append(Piece(sequence, sequence.num_computed, count, samples))
        plan.budget -= count
        sequence.num_computed += count
        sequence.num_in_flight += 1
        if samples:
            sequence.tokens.append(PENDING)

    def _take(self, piece, token):
        """Put the chosen token in the place of PENDING. -> Output"""
        sequence, request = piece.sequence, piece.sequence.request
        sequence.tokens[piece.stop] = token
        if token == request.eos:
            self._finish(sequence, "stop")
        elif piece.stop + 1 - len(request.prompt) >= request.max_new_tokens:
            self._finish(sequence, "length")
        return _output(sequence, (token,))

    def _finish(self, sequence, reason):
        (self.running if sequence.state is State.RUNNING else self.waiting).remove(sequence)
        del self._sequences[sequence.name]
        sequence.finish(reason)
        self._leaving.append(sequence)
        self._free(sequence)

    def _free(self, sequence):
        """Release the pages of a finished sequence, once no step in flight computes it."""
        if sequence.num_in_flight == 0:
            self._leaving.remove(sequence)
            self.cache.release(sequence.drop_pages())

    def _check_commit(self, step, tokens):
        if not self._in_flight or self._in_flight[0] is not step:
            raise ServingError(f"Step {step.number} is not the oldest in flight; commit each step once, in order.")
        for piece in step.pieces:
            if piece.samples and piece.sequence.name not in tokens:
                raise ServingError(f"Step {step.number} chose a token for {piece.sequence.name!r}; it was not given.")


def _key(sequence):
    return sequence.key


def _output(sequence, tokens):
    request = sequence.request
    return Output(request.name, tokens, sequence.finish_reason, len(request.prompt), sequence.num_cached)
