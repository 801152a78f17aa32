"""The engine: a scheduler, a runner, and the loop around the two.

    engine = ServingEngine(model)
    engine.add(Request("a", prompt, max_new_tokens=16))
    while engine.has_work:
        for output in engine.step(): …

With `overlap` a step is scheduled and started while the one before still runs; its tokens come a call later. With
`speculate` the model looks at what followed the same tokens before, and may accept several in a step; the tokens are
those without speculation, drawn ones too, since each is chosen from the model's own logits by its own noise.

May import: errors, expect, model, its own modules, torch.
"""

import dataclasses
import time
from collections import deque
from dataclasses import dataclass

import torch

from .. import expect
from ..errors import ArgumentError, BusyError, RefusedError
from ..model import NgramDraft, Transformer
from .config import ServingConfig
from .paged_forward import Pools
from .request import checked_requests, require_request
from .runner import Runner
from .scheduled import Scheduled
from .scheduler import Scheduler

GPU_SHARE = 0.85  # of the free memory that the pages take; the rest is for activations and graphs
CPU_TOKENS = 8192  # that the pages of a CPU's default pool hold
_FIELDS = tuple(field.name for field in dataclasses.fields(ServingConfig))


@dataclass(frozen=True)
class Stats:
    """What an engine does and did.

    Attributes
    ----------
    num_running, num_waiting : int, requests
    kv_usage : float, share of the pages that running requests hold, 0 to 1
    prefix_queries, prefix_hits : int, prompt tokens that were looked up, and found
    num_preemptions, num_steps, num_output_tokens : int, since the start
    num_computed_tokens : int, tokens that went through the model, prompts, repetitions and drafts included
    num_drafts, num_accepted : int, tokens for which a draft had room, and those that the model accepted
    host_s : float, seconds in `step` but for the wait for tokens; wait_s : that wait
    """

    num_running: int
    num_waiting: int
    kv_usage: float
    prefix_queries: int
    prefix_hits: int
    num_preemptions: int
    num_steps: int
    num_output_tokens: int
    num_computed_tokens: int
    num_drafts: int
    num_accepted: int
    host_s: float
    wait_s: float


class ServingEngine(Scheduled):
    """Serves requests on one model; not for several threads at once.

    Parameters
    ----------
    model : Transformer
    tokenizer : tokenizers.Tokenizer or None, for those who serve text; the engine itself has tokens only
    config : ServingConfig or None: `default_config`
    warm_up : bool; on a GPU, compile the kernels and record the graphs now, which takes seconds

    Attributes
    ----------
    scheduler : Scheduler
    runner : Runner
    """

    def __init__(self, model, tokenizer=None, config=None, *, warm_up=True):
        expect.kind("model", model, Transformer, how="Transformer.load(folder) makes one")
        config = default_config(model) if config is None else expect.kind("config", config, ServingConfig)
        longest = min(config.max_model_len or model.config.max_positions, model.config.max_positions)
        self.config = dataclasses.replace(config, max_model_len=longest)
        self.model, self.tokenizer = model, tokenizer
        self.scheduler, self.runner = Scheduler(self.config), Runner(model, self.config)
        if warm_up:
            self.runner.warm_up()
        self._in_flight, self._draft = deque(), NgramDraft()
        self._num_output_tokens, self._host_s, self._wait_s = 0, 0.0, 0.0

    def add(self, request):
        """Queue a Request; RefusedError, BusyError or ServingError as `Scheduler.add`."""
        require_request(request)
        largest, vocab_size = max(request.prompt, default=0), self.model.config.vocab_size
        if largest >= vocab_size:
            raise RefusedError(
                f"{request.name!r} can never be served: its prompt has the token {largest}; the vocabulary has the "
                f"tokens 0 to {vocab_size - 1}."
            )
        return super().add(request)

    def step(self):
        """Start the next step, and wait for the oldest one as far as the overlap wants. -> list of Output"""
        start, waited = time.perf_counter(), self._wait_s
        most, outputs = self.config.max_in_flight, []
        step = self.scheduler.schedule() if len(self._in_flight) < most else None
        if step is not None:
            self._in_flight.append((step, self.runner.run(step, self._drafts(step))))
        if self._in_flight and (step is None or len(self._in_flight) == most):
            oldest, result = self._in_flight.popleft()
            outputs = self.scheduler.commit(oldest, self._wait(result))
            self._num_output_tokens += sum(len(output.tokens) for output in outputs)
        self._host_s += time.perf_counter() - start - (self._wait_s - waited)
        return outputs

    def _wait(self, result):
        start = time.perf_counter()
        tokens = result.tokens(lists=self.config.speculate > 0)
        self._wait_s += time.perf_counter() - start
        return tokens

    def _drafts(self, step):
        """name -> what followed a sequence's last tokens when they came before, at most num_drafts of its piece."""
        return {
            piece.sequence.name: self._draft.propose(piece.sequence.tokens[:-1], piece.num_drafts, None)[0]
            for piece in step.pieces
            if piece.num_drafts
        }

    def run(self, requests):
        """Serve requests and nothing else. -> dict, name -> list of tokens"""
        requests, tokens = deque(checked_requests(requests)), {}
        while requests or self.has_work:
            while requests:
                try:
                    self.add(requests[0])
                except BusyError:
                    break
                tokens[requests.popleft().name] = []
            for output in self.step():
                tokens[output.name] += output.tokens
        return tokens

    def stats(self):
        """Stats as of now."""
        scheduler, cache, counters = self.scheduler, self.scheduler.cache, self.scheduler.stats
        return Stats(
            len(scheduler.running), len(scheduler.waiting), scheduler.kv_usage, cache.queries, cache.hits,
            counters.num_preempted, counters.num_steps, self._num_output_tokens, counters.num_tokens,
            counters.num_drafts, counters.num_accepted, self._host_s, self._wait_s,
        )  # fmt: skip


def default_config(model, **options):
    """A ServingConfig whose pool takes the free memory of the GPU, or has CPU_TOKENS on a CPU.

    options : fields of ServingConfig in place of the defaults
    """
    expect.kind("model", model, Transformer, how="Transformer.load(folder) makes one")
    unknown = [name for name in options if name not in _FIELDS]
    if unknown:
        raise ArgumentError(f"{unknown[0]!r} is no field of a ServingConfig; there are {', '.join(_FIELDS)}.")
    page_size = expect.whole("page_size", options.setdefault("page_size", 16), 1)
    if "num_pages" not in options:
        num_pages = CPU_TOKENS // page_size
        if model.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(model.device)
            num_pages = int(GPU_SHARE * free) // Pools.page_bytes(model, page_size)
        options["num_pages"] = max(1, num_pages)
    return ServingConfig(**options)


def agreement(tokens, wanted):
    """Share of the tokens before the first that differs, over all requests; both dicts, name -> list of tokens."""
    for name, value in (("tokens", tokens), ("wanted", wanted)):
        expect.kind(name, value, dict, how="name -> list of tokens, as ServingEngine.run gives it")
    missing = [name for name in wanted if name not in tokens]
    if missing:
        raise ArgumentError(f"tokens has no request {missing[0]!r}, which wanted has; it must hold all of them.")
    same = total = 0
    for name, right in wanted.items():
        right, got = (list(expect.tokens(f"tokens of {name!r}", each)) for each in (right, tokens[name]))
        pairs = zip(got, right, strict=False)
        same += next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(got), len(right)))
        total += len(right)
    return same / total if total else 1.0
