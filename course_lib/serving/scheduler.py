"""Who computes which tokens in the next step: continuous batching with chunked prefill.

    step = scheduler.schedule()          # None: nothing to run before a commit or a new request
    tokens = runner.run(step).tokens()   # dict: name -> token
    outputs = scheduler.commit(step, tokens)

Overlap. schedule() may be called once more before commit(). The token that the first step chooses is then PENDING in
`sequence.tokens`, and the second step computes it as if it were known: the runner takes it from the device, where the
step just before left it. The device must run the steps in the order of schedule(), because a page that is given up goes
to a later step at once. While a step is in flight nobody is preempted (schedule() returns None: commit and ask again),
and a sequence that ends keeps its pages until its last step is committed.

No starvation. No one overtakes the first who waits, and the first who runs is never preempted, so that the oldest
request of the most urgent priority always ends; less urgent ones wait as long as more urgent ones keep coming.

May import: errors, expect, admission, audit, config, request, step, tables.
"""

from bisect import insort
from collections import deque
from dataclasses import replace

from .. import expect
from ..errors import BusyError, ServingError
from .admission import may_start
from .audit import audit
from .config import ServingConfig
from .request import PENDING, Sequence, State, require_request
from .step import Counters, Output, Piece, Plan, Step
from .tables import PageTables


class Scheduler:
    """Requests in, steps out, tokens in, outputs out. Holds the page tables, never a tensor.

    Attributes
    ----------
    waiting, running : list of Sequence in order of (priority, arrival); swapped ones wait
    leaving : list of Sequence that have finished and are computed by a step in flight
    in_flight : deque of Step, scheduled and not committed, oldest first
    tables : PageTables; `cache`, its PrefixCache
    stats : Counters
    """

    def __init__(self, config):
        expect.kind("config", config, ServingConfig)
        self.config, self.tables, self.stats = config, PageTables(config), Counters()
        self.cache = self.tables.cache
        self.waiting, self.running, self.leaving, self.in_flight = [], [], [], deque()
        self._sequences, self._num_added = {}, 0

    @property
    def has_work(self):
        return bool(self._sequences or self.in_flight)

    @property
    def kv_usage(self):
        """Share of the pages that tables hold, 0 to 1."""
        return 1 - self.cache.num_available / self.config.num_pages

    def audit(self):
        """Check all invariants; ServingError or PageError when one is broken."""
        audit(self)

    def add(self, request):
        """Queue a request. -> Sequence

        Raises
        ------
        RefusedError  it can never be served
        BusyError     the queue is full
        ServingError  a request of this name is being served
        """
        require_request(request)
        self.config.check(request)
        if request.name in self._sequences:
            raise ServingError(f"A request {request.name!r} is being served; give the new one another name.")
        if len(self.waiting) >= self.config.max_waiting:
            raise BusyError(f"{len(self.waiting)} requests wait; max_waiting is {self.config.max_waiting}. Try later.")
        sequence = self._sequences[request.name] = Sequence(request, self._num_added)
        self._num_added += 1
        insort(self.waiting, sequence, key=_key)
        return sequence

    def abort(self, name, reason="abort"):
        """End a request in any state, at any time. -> its last Output, or None where no such request is being served"""
        sequence = self._sequences.get(expect.word("name", name, error=ServingError))
        if sequence is None:
            return None
        self._finish(sequence, reason)
        return Output.of(sequence)

    # region: schedule
    def schedule(self):
        """The next step, or None when there is nothing to run before a commit or a new request."""
        if len(self.in_flight) >= self.config.max_in_flight:
            raise ServingError(f"{len(self.in_flight)} steps are in flight; commit the oldest before the next one.")
        plan = Plan(self.config.max_num_tokens)
        first, then = (self._continue, self._admit) if self.config.chunked else (self._admit, self._continue)
        if first(plan):
            then(plan)
        self._add_drafts(plan)
        return self._start(plan) if plan.pieces else None

    # endregion
    # region: continue
    def _continue(self, plan):
        """Those who run: one token or the rest of the prompt, in order. -> whether new ones may join them"""
        if self.in_flight and not self._running_fits():
            return False
        index = 0
        while index < len(self.running):
            sequence = self.running[index]
            index += 1
            later = len(self.running) - index  # each of them gets a token too
            count = self._next_count(sequence, plan.budget - later)
            if count > 0 and self._make_room(sequence, count, plan):
                self._add_piece(sequence, count, plan)
        return not plan.preempted

    # endregion
    # region: admit
    def _admit(self, plan):
        """Those who wait, in order, while budget, seats and pages last; no one is passed over. -> whether none came"""
        while self.waiting and len(self.running) < self.config.max_num_seqs and plan.budget > 0:
            sequence = self.waiting[0]
            bring_in = self._swap_in if sequence.state is State.SWAPPED else self._start_or_resume
            count = bring_in(sequence, plan)
            if not count:
                break
            self.waiting.pop(0)
            insort(self.running, sequence, key=_key)
            self._add_piece(sequence, count, plan)
            self.stats.num_admitted += 1
        return not plan.pieces

    # endregion
    def commit(self, step, tokens):
        """Take the tokens of the oldest step in flight.

        Parameters
        ----------
        step : Step
        tokens : dict, name -> the token chosen; with speculation the list of accepted drafts and one token more

        Returns
        -------
        outputs : list of Output, one for each piece that sampled and whose request had not ended before
        """
        expect.kind("step", step, Step, error=ServingError)
        expect.kind("tokens", tokens, dict, how="name -> the token chosen", error=ServingError)
        if not self.in_flight or self.in_flight[0] is not step:
            raise ServingError(f"Step {step.number} is not the oldest in flight; commit each step once, in order.")
        chosen = step.chosen(tokens)
        self.in_flight.popleft()
        outputs = []
        for piece in step.pieces:
            sequence = piece.sequence
            sequence.num_in_flight -= 1
            if sequence.state is State.FINISHED:
                self._free(sequence)
            elif piece.samples:
                outputs.append(self._take(piece, chosen[sequence]))
            else:
                self.tables.remember(sequence, piece.start, piece.stop)
        return outputs

    def _start(self, plan):
        parts = plan.pieces, plan.preempted, plan.swaps_out, plan.swaps_in
        step = Step(self.stats.num_steps, *map(tuple, parts))
        self.in_flight.append(step)
        self.stats.note(step)
        return step

    def _next_count(self, sequence, budget):
        """Tokens of a running sequence that the next step computes."""
        if sequence.num_produced >= sequence.request.max_new_tokens:
            return 0  # its last token is chosen in a step in flight
        return self._cut(sequence.num_new, budget)

    def _cut(self, num_new, budget):
        """How many of num_new tokens fit in a step: a chunk of them, or without chunks all or none."""
        if not self.config.chunked:
            return num_new if num_new <= budget else 0
        return min(num_new, budget, self.config.max_chunk or num_new)

    def _add_drafts(self, plan):
        """Let a draft propose tokens after those that decode, in what budget and pages the others have left."""
        for index, piece in enumerate(plan.pieces if self.config.speculate else ()):
            sequence = piece.sequence
            if piece.start >= len(sequence.request.prompt) and piece.samples and piece.num_tokens == 1:
                left = sequence.request.max_new_tokens - sequence.num_produced
                room = (len(sequence.pages) + self.cache.num_available) * self.config.page_size - piece.stop
                count = min(self.config.speculate, left, room, plan.budget)
                plan.pieces[index] = replace(piece, num_tokens=1 + count, num_drafts=count)
                self._take_up(sequence, count, plan)

    def _running_fits(self):
        """Whether all who run get their next pages without a preemption."""
        budget, available = self.config.max_num_tokens, self.cache.num_available
        if len(self.running) + budget // self.config.page_size <= available:
            return True  # more than they can need
        return available >= sum(self.tables.needed(each, self._next_count(each, budget)) for each in self.running)

    # region: preempt
    def _make_room(self, sequence, count, plan):
        """Pages for `count` more tokens, taken from the last in order if need be. -> False where that was itself"""
        while self.tables.needed(sequence, count) > self.cache.num_available:
            victim = self.running.pop()  # lowest priority, then youngest: it has no piece in this step yet
            plan.swaps_out += self.tables.preempt(victim)
            plan.preempted.append(victim)
            insort(self.waiting, victim, key=_key)
            if victim is sequence:
                return False
        return True

    # endregion
    def _start_or_resume(self, sequence, plan):
        """Admit a waiting sequence with what the prefix cache has of it. -> tokens of its first piece, 0: not now"""
        pages = self.cache.match(sequence.tokens, sequence.request.salt)
        num_cached = len(pages) * self.config.page_size
        count = self._cut(sequence.num_tokens - num_cached, plan.budget)
        if not count or not self._may_start(sequence, num_cached + count, len(pages)):
            self.cache.release(pages)
            return 0
        if not sequence.num_preemptions:
            self.cache.count(sequence.num_tokens, num_cached)
        sequence.admit(pages, num_cached)
        return count

    def _swap_in(self, sequence, plan):
        """Bring a sequence back from the host. -> tokens of its next piece, 0: not now"""
        count = self._cut(sequence.num_new, plan.budget)
        if not count or not self._may_start(sequence, sequence.num_computed + count, 0):
            return 0
        plan.swaps_in += self.tables.swap_in(sequence)
        return count

    def _may_start(self, sequence, num_tokens, num_pages):
        first, whole = (self.config.pages_for(n) - num_pages for n in (num_tokens, sequence.num_tokens))
        available = self.cache.num_available
        return may_start(self.config, sequence, self.running, first=first, whole=whole, available=available)

    def _add_piece(self, sequence, count, plan):
        samples = count == sequence.num_new
        plan.pieces.append(Piece(sequence, sequence.num_computed, count, samples))
        self._take_up(sequence, count, plan)
        sequence.num_in_flight += 1
        if samples:
            sequence.tokens.append(PENDING)

    def _take_up(self, sequence, count, plan):
        self.tables.grow(sequence, count)
        sequence.num_computed += count
        plan.budget -= count

    # region: take
    def _take(self, piece, chosen):
        """Put the chosen tokens in the place of PENDING, up to the end of the sequence. -> Output"""
        sequence, request = piece.sequence, piece.sequence.request
        known = piece.stop - piece.num_drafts  # tokens before the chosen ones
        left = len(request.prompt) + request.max_new_tokens - known
        ends = request.eos is not None and request.eos in chosen[:left]
        kept = chosen[: chosen.index(request.eos) + 1] if ends else chosen[:left]
        sequence.tokens[known : known + 1] = kept
        computed = known + len(kept) - 1  # the last one has no keys and values yet
        if piece.num_drafts:
            self.tables.roll_back(sequence, computed)
            self.stats.num_drafts += piece.num_drafts
            self.stats.num_accepted += len(chosen) - 1
        self.tables.remember(sequence, piece.start, computed)
        if ends or len(kept) == left:
            self._finish(sequence, "stop" if ends else "length")
        return Output.of(sequence, kept)

    # endregion
    def _finish(self, sequence, reason):
        self.stats.num_aborted += reason == "abort"
        self.stats.num_finished += reason != "abort"
        (self.running if sequence.state is State.RUNNING else self.waiting).remove(sequence)
        del self._sequences[sequence.name]
        sequence.finish(reason)
        self.leaving.append(sequence)
        self._free(sequence)

    def _free(self, sequence):
        """Release the pages of a finished sequence, unless a step in flight computes it."""
        if sequence.num_in_flight == 0:
            self.leaving.remove(sequence)
            self.tables.leave(sequence)


def _key(sequence):
    return sequence.key
