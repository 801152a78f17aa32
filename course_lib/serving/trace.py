"""Play requests through a scheduler without a GPU: a made-up model, a simulated clock, every step recorded.

    trace = play(ServingConfig(num_pages=8, page_size=4, max_num_tokens=16, max_num_seqs=4), requests)
    trace.frames[3].pieces      # who runs in step 3, on which pages, and the tokens chosen
    trace.served["a"].ttft      # s

May import: errors, expect, config, request, scheduler.
"""

from dataclasses import dataclass, field
from zlib import crc32

from .. import expect
from ..errors import ServingError
from .config import ServingConfig
from .request import PENDING, checked_requests, require_request
from .scheduler import Scheduler


class PagedModel:
    """A made-up model: the next token is a function of all tokens before it, read from the pages of the table.

    A slot holds, in place of keys and values, the check sum of the tokens up to its own. So a table with a wrong page,
    a page given away too early or a prompt cut in the wrong place leads to other tokens than those of `made_up_tokens`.

    Parameters
    ----------
    config : ServingConfig
    vocab_size : int, tokens are 0 to vocab_size - 1
    """

    def __init__(self, config, vocab_size=1000):
        self.page_size, self.vocab_size = config.page_size, vocab_size
        self.pages = [[0] * config.page_size for _ in range(config.num_pages)]
        self.host = [()] * config.num_swap_pages
        self._last = {}  # sequence -> token that the step before chose: what PENDING stands for, always

    def run(self, step):
        """Compute a step. -> dict, name -> list of tokens: the accepted drafts, and one more"""
        for page, host_page in step.swaps_out:
            self.host[host_page] = tuple(self.pages[page])
        for page, host_page in step.swaps_in:
            self.pages[page] = list(self.host[host_page])
        chosen = {piece.sequence: self._compute(piece) for piece in step.pieces}
        self._last = {sequence: tokens[-1] for sequence, tokens in chosen.items()}
        return {piece.sequence.name: chosen[piece.sequence] for piece in step.pieces if piece.samples}

    def _compute(self, piece):
        sequence = piece.sequence
        known = sequence.tokens[piece.start : piece.stop - piece.num_drafts]
        for position, token in enumerate(known, piece.start):
            value = self._write(sequence.pages, position, self._last[sequence] if token == PENDING else token)
        chosen = [value % self.vocab_size]
        for position in range(piece.stop - piece.num_drafts, piece.stop):
            draft = (chosen[-1] + (value % 3 == 0)) % self.vocab_size  # one in three is wrong
            value = self._write(sequence.pages, position, draft)
            if draft != chosen[-1]:
                break
            chosen.append(value % self.vocab_size)
        return chosen

    def _write(self, table, position, token):
        page, slot = divmod(position - 1, self.page_size)
        before = self.pages[table[page]][slot] if position else 0
        page, slot = divmod(position, self.page_size)
        self.pages[table[page]][slot] = value = next_value(before, token)
        return value


def next_value(value, token):
    """The check sum of a prefix and one more token."""
    return crc32(token.to_bytes(4, "little"), value)


def made_up_tokens(request, vocab_size=1000):
    """The tokens that `PagedModel` gives a request when it is alone, whatever the scheduler does."""
    require_request(request)
    vocab_size = expect.whole("vocab_size", vocab_size, 1)
    value, tokens = 0, []
    for token in request.prompt:
        value = next_value(value, token)
    while len(tokens) < request.max_new_tokens and request.eos not in tokens[-1:]:
        tokens.append(value % vocab_size)
        value = next_value(value, tokens[-1])
    return tokens


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step: a + b * tokens computed + c * keys that they read."""

    a: float = 5e-3
    b: float = 1e-5
    c: float = 1e-8

    def __call__(self, step):
        return self.a + self.b * step.num_tokens + self.c * sum(piece.stop for piece in step.pieces)


@dataclass(frozen=True)
class Frame:
    """One step as a picture shows it.

    Attributes
    ----------
    start, seconds : float, s on the simulated clock
    pieces : tuple of (name, start, num_tokens, pages, tokens): pages of its table after scheduling, tokens chosen
    waiting, preempted : tuple of names
    swapped : tuple of names, of those that wait with pages on the host
    num_free, num_cached, num_held : int, pages; cached ones are in no table
    """

    number: int
    start: float
    seconds: float
    pieces: tuple
    waiting: tuple
    preempted: tuple
    swapped: tuple
    num_free: int
    num_cached: int
    num_held: int


@dataclass
class Served:
    """What one request got; times in s on the simulated clock, `times` has one for each token."""

    arrival: float
    tokens: list = field(default_factory=list)
    times: list = field(default_factory=list)
    finish_reason: str | None = None
    num_cached: int = 0
    num_preemptions: int = 0

    @property
    def ttft(self):
        """Time to first token."""
        return self.times[0] - self.arrival

    @property
    def tpot(self):
        """Mean time per token after the first; 0 for a single token."""
        return (self.times[-1] - self.times[0]) / max(1, len(self.times) - 1)


@dataclass(frozen=True)
class Trace:
    """frames : list of Frame; served : dict, name -> Served; refused : dict, name -> sentence; stats : Counters"""

    frames: list
    served: dict
    refused: dict
    stats: object
    hit_rate: float

    @property
    def seconds(self):
        return self.frames[-1].start + self.frames[-1].seconds if self.frames else 0.0


def play(config, requests, *, step_time=None, model=None, audit=False, scheduler=None):
    """Serve `requests` as they arrive, a step at a time.

    Parameters
    ----------
    config : ServingConfig
    requests : iterable of Request
    step_time : callable, Step -> s; default: StepTime()
    model : with run(step) -> dict, name -> token or tokens; default: PagedModel
    audit : bool; check all invariants after every step
    scheduler : with the methods of Scheduler, for one of your own; default: Scheduler(config)

    Returns
    -------
    trace : Trace

    Raises
    ------
    ServingError  requests wait and the scheduler plans no step
    """
    expect.kind("config", config, ServingConfig)
    step_time, model, scheduler = step_time or StepTime(), model or PagedModel(config), scheduler or Scheduler(config)
    expect.function("step_time", step_time)
    queue = sorted(checked_requests(requests), key=lambda request: request.arrival)[::-1]  # the next one last
    player, now = _Player(scheduler), 0.0
    while queue or scheduler.has_work:
        if not scheduler.has_work:
            now = max(now, queue[-1].arrival)
        while queue and queue[-1].arrival <= now:
            player.add(queue.pop())
        step = scheduler.schedule()
        if step is None and scheduler.has_work:
            raise ServingError(f"{len(scheduler.waiting)} requests wait at {now} s, and no step was planned.")
        if step is not None:
            seconds = step_time(step)
            player.commit(step, model.run(step), now, seconds)
            now += seconds
        if audit:
            scheduler.audit()
    return player.trace()


class _Player:
    """Notes what the steps do."""

    def __init__(self, scheduler):
        self.scheduler, self.frames, self.served, self.refused, self.sequences = scheduler, [], {}, {}, {}

    def add(self, request):
        try:
            self.sequences[request.name] = self.scheduler.add(request)
        except ServingError as error:
            self.refused[request.name] = str(error)
        else:
            self.served[request.name] = Served(request.arrival)

    def commit(self, step, tokens, now, seconds):
        cache = self.scheduler.cache
        pages = cache.allocator.num_free, cache.num_evictable
        pieces = [(each.sequence.name, each.start, each.num_tokens, tuple(each.sequence.pages)) for each in step.pieces]
        waiting = [(each.name, bool(each.host_pages)) for each in self.scheduler.waiting]
        new = {output.name: output.tokens for output in self.scheduler.commit(step, tokens)}
        frame = Frame(
            step.number,
            now,
            seconds,
            tuple((*piece, new.get(piece[0], ())) for piece in pieces),
            tuple(name for name, _ in waiting),
            tuple(sequence.name for sequence in step.preempted),
            tuple(name for name, on_host in waiting if on_host),
            *pages,
            cache.allocator.num_pages - sum(pages),
        )
        self.frames.append(frame)
        for name, chosen in new.items():
            self.served[name].tokens += chosen
            self.served[name].times += [now + seconds] * len(chosen)

    def trace(self):
        for name, sequence in self.sequences.items():
            served = self.served[name]
            served.finish_reason, served.num_cached = sequence.finish_reason, sequence.num_cached
            served.num_preemptions = sequence.num_preemptions
        cache = self.scheduler.cache
        return Trace(self.frames, self.served, self.refused, self.scheduler.stats, cache.hits / max(1, cache.queries))
