"""A world of threads in one process: deterministic, quick to start, and a deadlock is a sentence.

One thread runs at a time and hands its turn on only where it must wait, so a run has one order and one result. When no
rank can go on, every rank ends with a sentence that says who waits for whom. `send` returns when its message was taken,
as NCCL may do: a ring in which every rank sends before it receives stands still here, not only with large messages.

Times are those of a simulated machine: a rank's clock counts its own CPU time, and a message takes LATENCY plus its
bytes over BANDWIDTH from the moment when all who take part are there.

May import: errors, parallel.world, torch.
"""

import ctypes
import sys
import threading
import time
import traceback
from collections import defaultdict, deque
from dataclasses import dataclass, field

import torch

from ..errors import WorldError
from .world import World

LATENCY, BANDWIDTH = 10e-6, 10e9  # seconds; bytes a second


class _Ended(BaseException):
    """Raised in a waiting rank when the run is over because of another; no `except Exception` catches it."""


class Turns:
    """Whose turn it is. A rank waits with a condition and a sentence; the turn goes round to the next that can run."""

    def __init__(self, num_ranks):
        self.num_ranks, self.turn, self.failure = num_ranks, 0, None
        self.changed, self.waiting, self.done = threading.Condition(), {}, set()

    def begin(self, rank):
        """Wait for the first turn."""
        with self.changed:
            self._sleep(rank)

    def wait(self, rank, ready, sentence):
        """Let others run until ready() is true; `sentence` says what this rank waits for."""
        with self.changed:
            while not ready():
                self.waiting[rank] = (ready, sentence)
                self._pass_on(rank)
                self._sleep(rank)
                del self.waiting[rank]

    def finish(self, rank):
        """This rank has returned."""
        with self.changed:
            self.done.add(rank)
            self.waiting.pop(rank, None)
            if self.failure is None:
                self._pass_on(rank)

    def fail(self, error):
        """End the run; the first error is kept."""
        with self.changed:
            self.failure = self.failure or error
            self.changed.notify_all()

    def sentences(self):
        """What each rank does, one clause a rank."""
        names = {rank: f"rank {rank} {sentence}" for rank, (_, sentence) in self.waiting.items()}
        names |= {rank: f"rank {rank} has returned" for rank in self.done}
        names.setdefault(self.turn, f"rank {self.turn} computes")
        return "; ".join(names.get(rank, f"rank {rank} could go on") for rank in range(self.num_ranks))

    def _sleep(self, rank):
        while self.turn != rank and self.failure is None:
            self.changed.wait()
        if self.failure is not None:
            raise _Ended

    def _pass_on(self, rank):
        for step in range(1, self.num_ranks + 1):
            other = (rank + step) % self.num_ranks
            if other not in self.done and (other not in self.waiting or self.waiting[other][0]()):
                self.turn = other
                self.changed.notify_all()
                return
        if len(self.done) < self.num_ranks:
            self.failure = WorldError(f"no rank can go on: {self.sentences()}.")
            self.changed.notify_all()


@dataclass
class _Meeting:
    """One collective: what each rank brought, and the result of all once the last has come."""

    name: str
    tensors: dict = field(default_factory=dict)
    clocks: dict = field(default_factory=dict)
    results: object = None


@dataclass
class _Post:
    """One side of a message."""

    tensor: torch.Tensor
    clock: float
    end: float | None = None  # when it was carried over


class Threads(World):
    """One rank of a world of threads; `run` makes them."""

    def __init__(self, rank, num_ranks, turns, shared):
        super().__init__(rank, num_ranks)
        self._turns, self._meetings, self._channels = turns, shared["meetings"], shared["channels"]
        self._calls, self._clock, self._mark = 0, 0.0, None

    def _now(self):
        """The simulated clock, with the CPU time since the last look."""
        now = time.thread_time()
        self._clock += 0.0 if self._mark is None else now - self._mark
        self._mark = now
        return self._clock

    def _arrive_at(self, end):
        """Set the clock to the end of a wait."""
        self._clock, self._mark = max(self._clock, end), time.thread_time()

    def _meet(self, name, tensor, combine, num_bytes):
        """Bring a tensor to this rank's next collective; returns combine(tensors by rank), made once for all ranks."""
        self._calls += 1
        meeting = self._meetings.setdefault(self._calls, _Meeting(name))
        if meeting.name != name:
            first = min(meeting.tensors)
            raise WorldError(
                f"collective {self._calls} is {meeting.name} on rank {first} and {name} on rank {self.rank}; every "
                "rank must call the same collectives, with the same shapes, in the same order.", self.rank
            )  # fmt: skip
        meeting.tensors[self.rank], meeting.clocks[self.rank] = tensor, self._now()
        everyone = range(self.num_ranks)
        if len(meeting.tensors) == self.num_ranks:
            meeting.results = combine([meeting.tensors[rank] for rank in everyone])
        missing = lambda: [rank for rank in everyone if rank not in meeting.tensors]  # noqa: E731
        here = _Waits(f"waits in {name} (its collective {self._calls}) for rank", missing)
        self._turns.wait(self.rank, lambda: not missing(), here)
        self._arrive_at(max(meeting.clocks.values()) + LATENCY + num_bytes / BANDWIDTH)
        return meeting.results

    def _all_reduce(self, x, op):
        def combine(tensors):
            stacked = torch.stack(tensors)
            return stacked.sum(0) if op == "sum" else stacked.amax(0)

        x.copy_(self._meet(f"all_reduce {op} of {_described(x)}", x, combine, 2 * x.nbytes))

    def _all_gather(self, out, x):
        out.copy_(self._meet(f"all_gather of {_described(x)}", x, torch.stack, out.nbytes))

    def _reduce_scatter(self, out, parts):
        combine = lambda tensors: torch.stack(tensors).sum(0)  # noqa: E731
        total = self._meet(f"reduce_scatter of {_described(parts)}", parts, combine, parts.nbytes)
        out.copy_(total[self.rank])

    def _all_to_all(self, out, x, send_sizes, recv_sizes, _equal):
        combine = lambda given: [rows.split(sizes) for rows, sizes in given]  # noqa: E731
        name = f"all_to_all of rows {tuple(x.shape[1:])} {str(x.dtype).removeprefix('torch.')}"
        parts = self._meet(name, (x, send_sizes), combine, x.nbytes)
        for source, expected in enumerate(recv_sizes):
            found = len(parts[source][self.rank])
            if found != expected:
                raise WorldError(
                    f"rank {self.rank} expects {expected} rows of rank {source} in all_to_all, which sends {found}; "
                    "recv_sizes must be what the others send.", self.rank
                )  # fmt: skip
        torch.cat([parts[source][self.rank] for source in range(self.num_ranks)], out=out)

    def _barrier(self):
        self._meet("barrier", None, lambda _: True, 0)

    def _start(self, sends, recvs):
        posts = []
        for side, pairs in (("send", sends), ("recv", recvs)):
            for tensor, other in pairs:
                source, to = (self.rank, other) if side == "send" else (other, self.rank)
                post = _Post(tensor, self._now())
                self._channels[source, to, side].append(post)
                posts.append((post, f"{side} {'to' if side == 'send' else 'from'} rank {other}"))
                self._deliver(source, to)
        return posts

    def _deliver(self, source, to):
        """Carry over the oldest message of a channel when both of its sides are there."""
        sent, wanted = (self._channels[source, to, side] for side in ("send", "recv"))
        if sent and wanted:
            send, recv = sent.popleft(), wanted.popleft()
            if _described(send.tensor) != _described(recv.tensor):
                raise WorldError(
                    f"rank {source} sends {_described(send.tensor)} to rank {to}, which receives it into "
                    f"{_described(recv.tensor)}; shape and dtype must be the same.", self.rank
                )  # fmt: skip
            recv.tensor.copy_(send.tensor)
            send.end = recv.end = max(send.clock, recv.clock) + LATENCY + send.tensor.nbytes / BANDWIDTH

    def _finish(self, posts):
        self._now()
        for post, name in posts:
            self._turns.wait(self.rank, lambda post=post: post.end is not None, f"waits in {name}")
            self._arrive_at(post.end)


class _Waits:
    """A sentence whose end, the ranks that are missing, is known when it is asked for."""

    def __init__(self, text, missing):
        self.text, self.missing = text, missing

    def __str__(self):
        return f"{self.text} {', '.join(map(str, self.missing()))}"


def _described(x):
    return f"{tuple(x.shape)} {str(x.dtype).removeprefix('torch.')}"


def run_threads(function, num_ranks, arguments, seconds):
    """(results, events) of function(world, *arguments) on `num_ranks` threads; WorldError from what a rank raised."""
    turns, shared = Turns(num_ranks), {"meetings": {}, "channels": defaultdict(deque)}
    worlds = [Threads(rank, num_ranks, turns, shared) for rank in range(num_ranks)]
    results, threads = [None] * num_ranks, []
    for world in worlds:
        target = (function, world, arguments, results)
        threads.append(threading.Thread(target=_body, args=target, name=f"rank {world.rank}", daemon=True))
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # a rank's CPU time is its own, and one order of sums
    try:
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    finally:
        torch.set_num_threads(before)
    alive = [rank for rank, thread in enumerate(threads) if thread.is_alive()]
    if alive:
        turns.fail(WorldError(f"after {seconds:g} s: {turns.sentences()}{_where(threads[turns.turn])}.", turns.turn))
        for rank in alive:  # ends a loop of Python at its next line
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threads[rank].ident), ctypes.py_object(_Ended))
    if turns.failure is not None:
        raise turns.failure from turns.failure.__cause__
    return results, [event for world in worlds for event in world.events]


def _body(function, world, arguments, results):
    """What the thread of a rank runs."""
    turns = world._turns
    try:
        turns.begin(world.rank)
        world._now()
        results[world.rank] = function(world, *arguments)
        world.require_nothing_pending()
        turns.finish(world.rank)
    except _Ended:
        pass
    except WorldError as error:
        turns.fail(error)
    except BaseException as error:
        failure = WorldError(f"rank {world.rank} raised {type(error).__name__}: {error}", world.rank)
        failure.__cause__ = error
        turns.fail(failure)


def _where(thread):
    """The line that a thread is at, as a clause."""
    frame = sys._current_frames().get(thread.ident)
    if frame is None:
        return ""
    last = traceback.extract_stack(frame)[-1]
    return f", at line {last.lineno} of {last.name} in {last.filename.rpartition('/')[2]}"
