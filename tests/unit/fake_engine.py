"""An engine without a model: the real scheduler, and tokens from a function."""

import threading
from dataclasses import dataclass

from course_lib.serving import Scheduler, ServingConfig
from course_lib.serving.scheduled import Scheduled


@dataclass(frozen=True)
class FakeStats:
    num_running: int = 0
    num_waiting: int = 0
    kv_usage: float = 0.0
    prefix_queries: int = 0
    prefix_hits: int = 0
    num_preemptions: int = 0


class FakeEngine(Scheduled):
    """next_token(sequence) -> int; before_step(): called at each step, to wait or to fail."""

    def __init__(self, next_token, before_step=lambda: None, **config):
        self.config = ServingConfig(**({"num_pages": 64, "page_size": 4, "overlap": False} | config))
        self.scheduler = Scheduler(self.config)
        self.next_token, self.before_step = next_token, before_step

    def step(self):
        self.before_step()
        step = self.scheduler.schedule()
        if step is None:
            return []
        chosen = {p.sequence.name: self.next_token(p.sequence) for p in step.pieces if p.samples}
        return self.scheduler.commit(step, chosen)

    def stats(self):
        scheduler = self.scheduler
        free = scheduler.cache.num_available
        return FakeStats(len(scheduler.running), len(scheduler.waiting), 1 - free / self.config.num_pages)


class Gate:
    """Lets a test decide when an engine steps: before_step=gate.wait."""

    def __init__(self):
        self.changed, self.permits, self.is_open, self.error = threading.Condition(), 0, False, None
        self.inside, self.passed = False, 0

    @property
    def may_pass(self):
        return self.permits > 0 or self.is_open or self.error is not None

    @property
    def waiting(self):
        """Whether a step has begun that may not pass."""
        with self.changed:
            return self.inside and not self.may_pass

    def wait(self):
        with self.changed:
            self.inside = True
            assert self.changed.wait_for(lambda: self.may_pass, 60)
            if self.error is not None:
                raise self.error
            self.inside, self.permits, self.passed = False, self.permits - 1, self.passed + 1

    def let(self, count):
        """Let `count` steps pass."""
        with self.changed:
            self.permits += count
            self.changed.notify_all()

    def open(self):
        """Let all steps pass from now on."""
        with self.changed:
            self.is_open = True
            self.changed.notify_all()

    def fail(self, error):
        """Raise `error` in the next step."""
        with self.changed:
            self.error = error
            self.changed.notify_all()
