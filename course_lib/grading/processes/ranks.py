"""Ranks of an answer as threads: their calls are counted, and none waits for ever.

When no rank can go on, the run is over, and a sentence says who waits for what, in which line. A rank goes on as far as
it can when another one has failed, so the same answer always gets the same sentence.

May import: answer.loading, faults, world.
"""

import contextlib
import signal
import sys
import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace

from ..answer.loading import is_learners_file
from .faults import Problem, fault_of
from .world import World


class _Stopped(BaseException):
    """The run is over for this rank as well."""


@dataclass
class Hub:
    """What the ranks share; every field is read and written under `changed` alone."""

    num_ranks: int
    changed: threading.Condition = field(default_factory=threading.Condition)
    waiting: dict = field(default_factory=dict)  # rank -> (what for, line, ready)
    ended: set = field(default_factory=set)  # ranks that returned or failed
    failures: dict = field(default_factory=dict)  # rank -> what it raised; -1: no rank can go on
    over: bool = False
    posts: dict = field(default_factory=lambda: defaultdict(deque))  # (source, to, side) -> posts, the oldest first
    meetings: list = field(default_factory=list)  # of every collective, in order: rank -> (operation, what it gave)
    calls: list = field(default_factory=list)  # of each rank: [{"op", "peer", "shape", "bytes"}]

    def wait(self, rank, what, ready):
        """Wait until `ready()`; `changed` is held. Raises _Stopped when that will never be."""
        self.waiting[rank] = (what, _line(), ready)
        self._look()
        while not ready() and not self.over:
            _spare_waiting_thread(True)
            self.changed.wait()
            _spare_waiting_thread(False)
        if not ready():
            raise _Stopped
        del self.waiting[rank]

    def end(self, rank, error=None):
        """The rank has returned, or failed with `error`."""
        with self.changed:
            self.ended.add(rank)
            self.waiting.pop(rank, None)
            if error is not None:
                self.failures[rank] = error
            self._look()

    def _look(self):
        """End the run when no rank can go on."""
        stuck = {rank: wait for rank, wait in self.waiting.items() if not wait[2]()}
        if not stuck or len(stuck) + len(self.ended) < self.num_ranks:
            return
        if not self.failures:
            self.failures[-1] = Problem("deadlock", self._in_words(stuck), stuck[min(stuck)][1])
        self.over = True
        self.changed.notify_all()

    def _in_words(self, stuck):
        said = []
        for rank, (what, line, _) in sorted(stuck.items()):
            said.append(f"rank {rank} {what}" + (f" (line {line})" if line else ""))
        more = f"; and {len(said) - 4} more" if len(said) > 4 else ""
        ended = f"; rank{'s' * (len(self.ended) > 1)} {_and(sorted(self.ended))} returned" if self.ended else ""
        return f"No rank of {self.num_ranks} can go on: {'; '.join(said[:4])}{more}{ended}."


def call(function, num_ranks, arguments, constants, context=contextlib.nullcontext):
    """What `function(world, *arguments, **constants)` returned on each rank, and the calls that each one made.

    context : callable; each rank runs inside ``with context():``

    Returns
    -------
    (list of results, {"calls": of each rank a list of {"op", "peer", "shape", "bytes"}}); "peer" is -1 in a collective,
    and "bytes" what is handed over: of an all_to_all and of messages what other ranks get

    Raises
    ------
    Problem  a rank failed, or no rank could go on
    """
    hub, returned = Hub(num_ranks, calls=[[] for _ in range(num_ranks)]), [None] * num_ranks

    def rank_main(rank):
        _spare_waiting_thread(False)
        world = World(hub, rank)
        try:
            with context():
                returned[rank] = function(world, *arguments, **constants)
            world.require_nothing_under_way()
            hub.end(rank)
        except _Stopped:
            hub.end(rank)
        except BaseException as error:
            hub.end(rank, error)

    threads = [threading.Thread(target=rank_main, args=(rank,), daemon=True) for rank in range(num_ranks)]
    _spare_waiting_thread(True)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _spare_waiting_thread(False)
    if hub.failures:
        raise problem_of(*min(hub.failures.items()))
    return returned, {"calls": hub.calls}


def problem_of(rank, error):
    """A Problem that says of which rank it is; one of the world's own sentences is about several."""
    fault = fault_of(error)
    if not isinstance(error, Problem):
        fault = replace(fault, message=f"Rank {rank}: {fault.message}")
    return Problem(fault.kind, fault.message, fault.line, fault.detail)


def _line():
    """The innermost line of the learner's text that this thread is in, or None."""
    frame = sys._getframe()
    while frame is not None and not is_learners_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame.f_lineno if frame is not None else None


def _and(numbers):
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


def _spare_waiting_thread(waits):
    """Have the signal that asks for a line go to a thread that runs, not to one that waits."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        signal.pthread_sigmask(signal.SIG_BLOCK if waits else signal.SIG_UNBLOCK, {signal.SIGUSR1})
