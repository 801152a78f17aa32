"""Ranks of an answer as processes that speak gloo: what passed on threads, once more over torch.distributed.

The ranks are forked from the child, which has torch loaded, meet over a file and the loopback device, and end with it:
the zygote ends every process that an answer has started. One that dies closes its connections, so the others learn of
it; one that only waits does so for SECONDS.

May import: faults, ranks, wire, world, torch.
"""

import contextlib
import os
import sys
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist

from . import wire
from .faults import Problem
from .ranks import problem_of
from .world import World, require_contiguous

SECONDS = 8.0  # that a rank waits for another one


class GlooWorld(World):
    """A rank that is a process of its own; the methods of World."""

    def __init__(self, rank, num_ranks):
        self.rank, self.num_ranks, self.device = rank, num_ranks, torch.device("cpu")

    def all_reduce(self, x, op="sum", *, label=""):
        require_contiguous(x, "all_reduce")
        with self._waits("all_reduce"):
            dist.all_reduce(x, op={"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}[op])
        return x

    def all_gather(self, x, dim=0, *, label=""):
        require_contiguous(x, "all_gather")
        parts = [torch.empty_like(x) for _ in range(self.num_ranks)]
        with self._waits("all_gather"):
            dist.all_gather(parts, x)
        return torch.cat(parts, dim)

    def reduce_scatter(self, x, dim=0, *, label=""):
        if x.shape[dim] % self.num_ranks:
            raise ValueError(f"x has {x.shape[dim]} along dim {dim}; {self.num_ranks} ranks need a multiple of it")
        return self.all_reduce(x.clone()).chunk(self.num_ranks, dim)[self.rank].clone()

    def all_to_all(self, x, send_sizes=None, recv_sizes=None, *, label=""):
        sizes = self._sizes(x, send_sizes)
        found = self.all_gather(torch.tensor(sizes)).view(self.num_ranks, -1)[:, self.rank].tolist()
        if recv_sizes is not None and [int(size) for size in recv_sizes] != found:
            raise ValueError(f"recv_sizes is {[int(size) for size in recv_sizes]}, but the ranks send {found} rows")
        parts, outs = x.split(sizes), [x.new_empty(size, *x.shape[1:]) for size in found]
        outs[self.rank].copy_(parts[self.rank])
        others = [rank for rank in range(self.num_ranks) if rank != self.rank]
        sends = [(parts[rank].contiguous(), rank) for rank in others if sizes[rank]]
        self._start(sends, [(outs[rank], rank) for rank in others if found[rank]], "all_to_all").wait()
        return torch.cat(outs)

    def barrier(self, *, label=""):
        with self._waits("barrier"):
            dist.barrier()

    def _start(self, sends, recvs, operation, single=False):
        for x, _ in (*sends, *recvs):
            require_contiguous(x, operation)
        with self._waits(operation):
            works = [dist.isend(x, to) for x, to in sends] + [dist.irecv(out, source) for out, source in recvs]
        return _Pending(self, works, tuple(out for out, _ in recvs), single, operation)

    @contextlib.contextmanager
    def _waits(self, operation):
        """Turn what gloo says of a rank that does not answer into a sentence."""
        try:
            yield
        except RuntimeError as error:
            text = f"Rank {self.rank} waits in {operation}, and another rank ended or did not answer for {SECONDS:g} s"
            raise Problem("deadlock", f"{text} (two processes over gloo).", detail=str(error)) from None


class _Pending:
    """Messages under way."""

    def __init__(self, world, works, outs, single, operation):
        self.world, self.works, self.outs, self.single, self.operation = world, works, outs, single, operation

    def wait(self):
        with self.world._waits(self.operation):
            for work in self.works:
                work.wait()
        return self.outs[0] if self.single else self.outs


def call(function, num_ranks, arguments, constants):
    """What `take(function(world, …))` gave on each rank: a list of {name: tensor}.

    Parameters
    ----------
    function : (world, *arguments, **constants) -> {name: tensor}

    Raises
    ------
    Problem  a rank failed, the one that did so by itself before those that waited for it
    """
    folder = tempfile.mkdtemp(prefix="gloo-")
    pipes = []
    for rank in range(num_ranks):
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            _rank_main(function, rank, num_ranks, (arguments, constants), f"{folder}/store", write_end)
        os.close(write_end)
        pipes.append((pid, read_end))
    answers = [_answer(*pipe) for pipe in pipes]
    failed = [wire.fault_from(answer["fault"]) for answer in answers if "fault" in answer]
    if failed:
        fault = min(failed, key=lambda fault: fault.kind in ("deadlock", "not_verified_here"))
        raise Problem(fault.kind, fault.message, fault.line, fault.detail)
    return [answer["outputs"] for answer in answers]


def _rank_main(function, rank, num_ranks, given, store, write_end):
    """What the process of a rank does. Never returns."""
    if sys.platform == "linux":
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        _join(rank, num_ranks, store)
        answer = {"outputs": function(GlooWorld(rank, num_ranks), *given[0], **given[1])}
        with contextlib.suppress(RuntimeError):
            dist.barrier()  # no rank ends while another one still receives
    except BaseException as error:
        answer = {"fault": vars(problem_of(rank, error).fault)}
    try:
        data = memoryview(wire.pack(answer))
        while data:
            data = data[os.write(write_end, data) :]
    finally:
        os._exit(0)


def _join(rank, num_ranks, path):
    """Meet the other ranks; no rank begins, and may leave, while another one still connects to it."""
    limit = timedelta(seconds=SECONDS)
    try:
        store = dist.FileStore(path, num_ranks)
        dist.init_process_group("gloo", store=store, timeout=limit, world_size=num_ranks, rank=rank)
        store.set(f"joined {rank}", "")
        store.wait([f"joined {other}" for other in range(num_ranks)], limit)
    except Exception as error:
        raise Problem("not_verified_here", f"Two processes cannot meet over gloo here: {error}") from None


def _answer(pid, read_end):
    """The record of a rank; a fault where it ended without one."""
    with os.fdopen(read_end, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    try:
        return wire.unpack(data)[0]
    except wire.WireError:
        fault = {"kind": "exited", "message": "A rank ended its process before it was finished; return instead."}
        return {"fault": fault | {"line": None, "other_line": None, "detail": ""}}
