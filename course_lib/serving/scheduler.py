"""Who computes which tokens in the next step: continuous batching with chunked prefill.

    step = scheduler.schedule()          # None: nothing to run before a commit or a new request
    tokens = runner.run(step).tokens()   # dict: name -> token
    outputs = scheduler.commit(step, tokens)

Overlap. schedule() may be called once more before commit(). The token that the first step chooses is then PENDING in
`sequence.tokens`, and the second step computes it as if it were known: the runner takes it from the device, where the
first step left it. The device must run the steps in the order of schedule(), because a page that is given up goes to a
later step at once. While a step is in flight, nobody is preempted (schedule() returns None: commit and ask again), and
a sequence that ends keeps its pages until its last step is committed.

May import: errors, kv, admission, audit, config, prefix, radix, request, step.
"""

from bisect import insort
from collections import deque

from ..errors import BusyError, ServingError
from ..kv import PageAllocator
from .admission import may_start
from .audit import audit
from .prefix import HashPrefixCache, PrefixCache
from .radix import RadixPrefixCache
from .request import PENDING, Sequence, State
from .step import Counters, Output, Piece, Plan, Step

CACHES = {None: PrefixCache, "hash": HashPrefixCache, "radix": RadixPrefixCache}


class Scheduler:
    """Requests in, steps out, tokens in, outputs out. Holds the page tables, never a tensor.

    Attributes
    ----------
    waiting, running : list of Sequence in order of (priority, arrival); swapped ones wait
    leaving : list of Sequence that have finished and are computed by a step in flight
    in_flight : deque of Step, scheduled and not committed, oldest first
    cache : PrefixCache
    host : PageAllocator of the host's pages, or None
    stats : Counters
    """

    def __init__(self, config):
        self.config, self.stats = config, Counters()
        self.cache = CACHES[config.prefix](PageAllocator(config.num_pages), config.page_size)
        self.host = PageAllocator(config.num_swap_pages) if config.num_swap_pages else None
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
        sequence = self._sequences.get(name)
        if sequence is None:
            return None
        self.stats.num_aborted += 1
        self._finish(sequence, reason)
        return _output(sequence, ())

    # region: schedule
    def schedule(self):
        """The next step, or None when there is nothing to run before a commit or a new request."""
        if len(self.in_flight) >= self.config.max_in_flight:
            raise ServingError(f"{len(self.in_flight)} steps are in flight; commit the oldest before the next one.")
        plan = Plan(self.config.max_num_tokens)
        phases = (self._continue, self._admit) if self.config.chunked else (self._admit, self._continue)
        if phases[0](plan):
            phases[1](plan)
        return self._start(plan) if plan.pieces else None

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
                self._add_piece(sequence, count, plan, self._num_drafts(sequence, plan.budget - later - count))
        return not plan.preempted

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
        self._check_commit(step, tokens)
        self.in_flight.popleft()
        outputs = []
        for piece in step.pieces:
            sequence = piece.sequence
            sequence.num_in_flight -= 1
            if sequence.state is State.FINISHED:
                self._free(sequence)
            elif piece.samples:
                outputs.append(self._take(piece, _listed(tokens[sequence.name])))
            else:
                self._remember(piece, piece.stop)
        return outputs

    def _start(self, plan):
        parts = plan.pieces, plan.preempted, plan.swaps_out, plan.swaps_in
        step = Step(self.stats.num_steps, *map(tuple, parts))
        self.in_flight.append(step)
        self.stats.num_steps += 1
        self.stats.num_tokens += step.num_tokens
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

    def _num_drafts(self, sequence, budget):
        """Tokens that a draft may propose after the sequence's last one: as budget and pages allow, no page by force"""
        if not self.config.speculate or sequence.num_new > 1 or not sequence.num_produced:
            return 0
        left = sequence.request.max_new_tokens - sequence.num_produced - 1
        room = (len(sequence.pages) + self.cache.num_available) * self.config.page_size - sequence.num_tokens
        return max(0, min(self.config.speculate, left, budget, room))

    def _pages_needed(self, sequence, count):
        """Pages beyond its own for `count` more tokens."""
        return self.config.pages_for(sequence.num_computed + count) - len(sequence.pages)

    def _running_fits(self):
        """Whether all who run get their next pages without a preemption."""
        counts = ((each, self._next_count(each, self.config.max_num_tokens)) for each in self.running)
        return sum(self._pages_needed(each, count) for each, count in counts) <= self.cache.num_available

    # region: preempt
    def _make_room(self, sequence, count, plan):
        """Pages for `count` more tokens, taken from the last in order if need be. -> False where that was itself"""
        needed = self._pages_needed(sequence, count)
        while needed > self.cache.num_available:
            victim = self.running.pop()  # lowest priority, then youngest: it has no piece in this step yet
            self._preempt(victim, plan)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence, plan):
        if self.config.preempt == "swap" and len(sequence.pages) <= self.host.num_free:
            host_pages = self.host.allocate(len(sequence.pages))
            plan.swaps_out += zip(sequence.pages, host_pages, strict=True)
            pages = sequence.swap_out(host_pages)
            self.stats.num_swapped += 1
        else:
            pages = sequence.preempt()
        self.cache.release(pages)
        insort(self.waiting, sequence, key=_key)
        plan.preempted.append(sequence)
        self.stats.num_preempted += 1

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
        pages = self.cache.allocate(len(sequence.host_pages))
        host_pages = sequence.swap_in(pages)
        plan.swaps_in += zip(pages, host_pages, strict=True)
        self.host.release(host_pages)
        return count

    def _may_start(self, sequence, num_tokens, num_pages):
        first, whole = (self.config.pages_for(n) - num_pages for n in (num_tokens, sequence.num_tokens))
        available = self.cache.num_available
        return may_start(self.config, sequence, self.running, first=first, whole=whole, available=available)

    def _add_piece(self, sequence, count, plan, num_drafts=0):
        samples = count == sequence.num_new
        sequence.pages += self.cache.allocate(self._pages_needed(sequence, count + num_drafts))
        plan.pieces.append(Piece(sequence, sequence.num_computed, count + num_drafts, samples, num_drafts))
        plan.budget -= count + num_drafts
        sequence.num_computed += count + num_drafts
        sequence.num_in_flight += 1
        if samples:
            sequence.tokens.append(PENDING)

    # region: take
    def _take(self, piece, chosen):
        """Put the chosen tokens in the place of PENDING, up to the end of the sequence. -> Output"""
        sequence, request = piece.sequence, piece.sequence.request
        known = piece.stop - piece.num_drafts  # tokens before the chosen ones
        left = len(request.prompt) + request.max_new_tokens - known
        ends = request.eos is not None and request.eos in chosen[:left]
        kept = chosen[: chosen.index(request.eos) + 1] if ends else chosen[:left]
        sequence.tokens[known : known + 1] = kept
        if piece.num_drafts:
            self._roll_back(sequence, known + len(kept) - 1)
            self.stats.num_drafts += piece.num_drafts
            self.stats.num_accepted += len(chosen) - 1
        self._remember(piece, known + len(kept) - 1)
        if ends or len(kept) == left:
            self.stats.num_finished += 1
            self._finish(sequence, "stop" if ends else "length")
        return _output(sequence, tuple(kept))

    def _roll_back(self, sequence, num_computed):
        """Forget keys and values of rejected drafts, and give their pages back."""
        sequence.num_computed = num_computed
        keep = self.config.pages_for(num_computed)
        sequence.pages, extra = sequence.pages[:keep], sequence.pages[keep:]
        self.cache.release(extra)

    # endregion
    def _remember(self, piece, stop):
        """Make the pages findable that the piece filled; stop : tokens with keys and values after the piece."""
        full = stop // self.config.page_size
        if full > piece.start // self.config.page_size:
            sequence = piece.sequence
            pages = self.cache.insert(sequence.tokens, sequence.pages[:full], sequence.request.salt)
            sequence.pages[:full] = pages

    def _finish(self, sequence, reason):
        (self.running if sequence.state is State.RUNNING else self.waiting).remove(sequence)
        del self._sequences[sequence.name]
        sequence.finish(reason)
        self.leaving.append(sequence)
        self._free(sequence)

    def _free(self, sequence):
        """Release the pages of a finished sequence, unless a step in flight computes it."""
        if sequence.num_in_flight == 0:
            self.leaving.remove(sequence)
            pages, host_pages = sequence.leave()
            self.cache.release(pages)
            if host_pages:
                self.host.release(host_pages)

    def _check_commit(self, step, tokens):
        if not self.in_flight or self.in_flight[0] is not step:
            raise ServingError(f"Step {step.number} is not the oldest in flight; commit each step once, in order.")
        for piece in step.pieces:
            chosen = _listed(tokens.get(piece.sequence.name, ())) if piece.samples else (0,)
            if not 1 <= len(chosen) <= piece.num_drafts + 1:
                raise ServingError(
                    f"Step {step.number} has {len(chosen)} tokens for {piece.sequence.name!r}; with "
                    f"{piece.num_drafts} drafts it must be 1 to {piece.num_drafts + 1}."
                )


def _key(sequence):
    return sequence.key


def _listed(chosen):
    return [chosen] if isinstance(chosen, int) else list(chosen)


def _output(sequence, tokens):
    request = sequence.request
    return Output(request.name, tokens, sequence.finish_reason, len(request.prompt), sequence.num_cached)
