"""The scheduler under random calls: tiny pools, every policy, both prefix caches, aborts between any two calls.

The device is `PagedModel`, whose tokens are right only if every table has the right pages; it also checks every slot
that a piece reads. A step is run at any time between its schedule() and the next one.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from course_lib.errors import BusyError, RefusedError
from course_lib.serving import PENDING, Request, Scheduler, ServingConfig
from course_lib.serving.trace import PagedModel, made_up_tokens, next_value

VOCAB = 3  # so that prompts share prefixes and outputs meet their EOS
CONFIGS = st.builds(
    lambda seqs, more, **options: ServingConfig(max_num_seqs=seqs, max_num_tokens=seqs + more, **options),
    seqs=st.integers(1, 4),
    more=st.integers(0, 6),
    num_pages=st.integers(2, 8),
    page_size=st.integers(1, 4),
    max_chunk=st.sampled_from((None, 1, 3)),
    max_waiting=st.integers(3, 6),
    admission=st.sampled_from(("watermark", "reserve", "optimistic")),
    prefix=st.sampled_from(("radix", "hash", None)),
    preempt=st.sampled_from(("recompute", "swap")),
    num_swap_pages=st.integers(1, 4),
    chunked=st.sampled_from((True, True, False)),
    overlap=st.sampled_from((True, True, False)),
    speculate=st.sampled_from((0, 0, 0, 2)),
)
REQUESTS = st.fixed_dictionaries(
    {
        "shared": st.integers(0, 12),  # tokens of a prefix that all prompts have in common
        "own": st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=6),
        "max_new_tokens": st.integers(1, 12),
        "eos": st.sampled_from((None, None, 0)),
        "priority": st.sampled_from((0, 0, 1)),
        "arrival": st.integers(0, 2),
        "salt": st.sampled_from(("", "", "", "other")),
        "fits": st.sampled_from((True, True, True, False)),  # cut to the pool, so that it is served
    }
)


class Device(PagedModel):
    """Checks every slot that a piece reads."""

    def _compute(self, piece):
        chosen = super()._compute(piece)
        sequence, value = piece.sequence, 0
        for position, token in enumerate(sequence.tokens[: piece.stop - piece.num_drafts]):
            page, slot = divmod(position, self.page_size)
            found = self.pages[sequence.pages[page]][slot]
            assert token == PENDING or found == next_value(value, token), f"{sequence.name} reads a foreign slot"
            value = found
        return chosen


class Traffic(RuleBasedStateMachine):
    """Adds, aborts, schedules, runs and commits in any order that is allowed."""

    @initialize(config=CONFIGS)
    def start(self, config):
        self.config, self.serving, self.device = config, Scheduler(config), Device(config, VOCAB)
        self.requests, self.got, self.number = {}, {}, 0
        self.step, self.results = None, []  # the step that was not run yet; (step, tokens) of those in flight

    @rule(batch=st.lists(REQUESTS, min_size=1, max_size=5))
    def add(self, batch):
        for values in batch:
            self.add_one(**values)

    def add_one(self, shared, own, max_new_tokens, fits, **values):
        capacity = self.config.num_pages * self.config.page_size
        prompt = [*[1, 0, 2] * 4][:shared] + own
        if fits:
            prompt = prompt[:capacity]
            max_new_tokens = min(max_new_tokens, capacity - len(prompt) + 1)
        request = Request(f"r{self.number}", prompt, max_new_tokens, **values)
        self.number += 1
        try:
            self.serving.add(request)
        except BusyError:
            assert len(self.serving.waiting) >= self.config.max_waiting
        except RefusedError:
            assert not fits or not self.config.chunked
        else:
            assert len(prompt) + max_new_tokens - 1 <= capacity
            self.requests[request.name], self.got[request.name] = request, []

    @precondition(lambda self: self.requests)
    @rule(pick=st.integers(0, 1 << 20), luck=st.integers(0, 2))
    def abort(self, pick, luck):
        if luck:
            return
        name = list(self.requests)[pick % len(self.requests)]
        assert self.serving.abort(name).finish_reason == "abort"
        assert self.serving.abort(name) is None
        del self.requests[name]

    @precondition(lambda self: self.serving.has_work)
    @rule(rounds=st.integers(1, 12))
    def serve(self, rounds):
        """As an engine does."""
        for _ in range(rounds):
            if len(self.serving.in_flight) < self.config.max_in_flight:
                self.schedule()
            if len(self.serving.in_flight) == self.config.max_in_flight or (self.serving.in_flight and not self.step):
                self.commit()
            self.serving.audit()

    @precondition(lambda self: self.serving.has_work and len(self.serving.in_flight) < self.config.max_in_flight)
    @rule()
    def schedule(self):
        self.run()
        before = list(self.serving.running)
        self.step = step = self.serving.schedule()
        if step is None:
            assert self.serving.in_flight or not self.serving.has_work
            return
        moved = [piece.sequence for piece in step.pieces]
        assert 0 < step.num_tokens <= self.config.max_num_tokens and len(set(moved)) == len(moved)
        assert not step.preempted or set(moved) <= set(before), "nobody new in a step that preempted"
        assert self.config.admission != "reserve" or not step.preempted
        if self.config.chunked and len(self.serving.in_flight) == 1:  # no one only waits for its last token
            assert set(before) <= {*moved, *step.preempted}, "everyone who runs moves"

    @precondition(lambda self: self.step)
    @rule()
    def run(self):
        if self.step:
            self.results.append((self.step, self.device.run(self.step)))
            self.step = None

    @precondition(lambda self: self.serving.in_flight)
    @rule()
    def commit(self):
        self.run()
        for output in self.serving.commit(*self.results.pop(0)):
            request, got = self.requests[output.name], self.got[output.name]
            got += output.tokens
            expected = made_up_tokens(request, VOCAB)
            assert got == expected[: len(got)] and bool(output.finish_reason) == (got == expected)
            assert 0 <= output.num_cached_tokens < output.num_prompt_tokens
            if output.finish_reason:
                assert output.finish_reason == ("stop" if got[-1] == request.eos else "length")
                del self.requests[output.name]

    @invariant()
    def nothing_is_lost(self):
        if hasattr(self, "serving"):
            self.serving.audit()

    def teardown(self):
        """Everyone ends, and the oldest first of all within the steps that those before it and itself need."""
        oldest, start, limit = None, 0, 0
        while hasattr(self, "serving") and self.serving.has_work:
            live = [*self.serving.waiting, *self.serving.running]
            if live and min(live, key=lambda each: each.key) is not oldest:
                oldest, start = min(live, key=lambda each: each.key), self.serving.stats.num_steps
                total = sum(each.request.max_computed for each in live)
                limit = self.config.max_in_flight + (total if self.config.chunked else 2 * total + len(live))
            self.serve(1)
            assert not live or self.serving.stats.num_steps - start <= limit, f"{oldest.name} waits for ever"
        if hasattr(self, "serving"):
            assert not self.requests and self.serving.cache.num_available == self.config.num_pages


Traffic.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTraffic = Traffic.TestCase
