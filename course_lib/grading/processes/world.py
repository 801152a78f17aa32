"""The world that a rank of an answer sees: collectives and messages between the threads of ranks.py.

Its methods are those of the chapter's own world, so that an answer runs on both. `send` returns when the other rank has
received, as NCCL may do.

May import: faults, wire, torch.
"""

from dataclasses import dataclass

import torch

from .faults import Problem
from .wire import dtype_name

_MOST_CALLS = 20_000  # of all ranks together: no exercise needs a twentieth of them


@dataclass
class _Post:
    """One side of a message."""

    tensor: torch.Tensor
    what: str  # the rank waits for this: "waits to send to rank 1"
    done: bool = False
    error: str = ""  # the other side has another shape or dtype


class World:
    """The ranks as one of them sees them.

    Attributes
    ----------
    rank : int, from 0 to num_ranks - 1
    num_ranks : int
    device : torch.device of the tensors
    """

    def __init__(self, hub, rank):
        self._hub, self.rank, self.num_ranks, self.device = hub, rank, hub.num_ranks, torch.device("cpu")
        self._under_way = set()  # exchanges that were started and not waited for

    def all_reduce(self, x, op="sum", *, label=""):
        """x replaced by the sum, or with op="max" the maximum, of all ranks' x; returns x."""
        if op not in ("sum", "max"):
            raise ValueError(f"op={op!r}; all_reduce knows sum and max")
        given = torch.stack(self._meet("all_reduce", x, x.clone()))
        return x.copy_(given.sum(0) if op == "sum" else given.amax(0))

    def all_gather(self, x, dim=0, *, label=""):
        """The x of all ranks, all of one shape, side by side along `dim` in the order of the ranks."""
        return torch.cat(self._meet("all_gather", x, x.clone()), dim)

    def reduce_scatter(self, x, dim=0, *, label=""):
        """This rank's part, along `dim`, of the sum of all ranks' x; num_ranks divides x.shape[dim]."""
        if x.shape[dim] % self.num_ranks:
            raise ValueError(f"x has {x.shape[dim]} along dim {dim}; {self.num_ranks} ranks need a multiple of it")
        total = torch.stack(self._meet("reduce_scatter", x, x.clone())).sum(0)
        return total.chunk(self.num_ranks, dim)[self.rank].clone()

    def all_to_all(self, x, send_sizes=None, recv_sizes=None, *, label=""):
        """Rows of x to the ranks, and the rows that they send to this one, in the order of the ranks.

        send_sizes : rows for each rank, in order; None: the same for each
        recv_sizes : rows from each rank; None: found out
        """
        sizes = self._sizes(x, send_sizes)
        parts = x.clone().split(sizes)
        to_others = [part for rank, part in enumerate(parts) if rank != self.rank]
        given = self._meet("all_to_all", x, parts, sum(part.nbytes for part in to_others), rows=True)
        received = [theirs[self.rank] for theirs in given]
        found = [len(part) for part in received]
        if recv_sizes is not None and [int(size) for size in recv_sizes] != found:
            raise ValueError(f"recv_sizes is {[int(size) for size in recv_sizes]}, but the ranks send {found} rows")
        return torch.cat(received)

    def barrier(self, *, label=""):
        """Return when all ranks have come here."""
        self._meet("barrier", torch.empty(0), None)

    def send(self, x, to, *, label=""):
        """Send x to a rank; returns when that rank has taken it."""
        self._start([(x, to)], [], "send").wait()

    def recv(self, out, source, *, label=""):
        """Fill `out`, of the shape and dtype that `source` sends; returns out."""
        self._start([], [(out, source)], "recv").wait()
        return out

    def exchange(self, sends, recvs, *, label=""):
        """Several at once, which cannot block each other: sends [(x, to)], recvs [(out, source)]; returns the outs."""
        return self._start(sends, recvs, "exchange").wait()

    def start_exchange(self, sends, recvs, *, label=""):
        """`exchange` that returns at once; wait() of what it returns gives the outs."""
        return self._start(sends, recvs, "exchange")

    def ring_exchange(self, *tensors, label=""):
        """Tensors to the next rank, and those of the previous rank, of the same shapes: a tuple, or the only one."""
        return self.start_ring(*tensors).wait()

    def start_ring(self, *tensors, out=None, label=""):
        """`ring_exchange` that returns at once; wait() of what it returns gives the tensors; out: buffers for them."""
        out = [torch.empty_like(x) for x in tensors] if out is None else out
        after, before = (self.rank + 1) % self.num_ranks, (self.rank - 1) % self.num_ranks
        pairs = [(x, after) for x in tensors], [(x, before) for x in out]
        return self._start(*pairs, "ring_exchange", single=len(tensors) == 1)

    def _start(self, sends, recvs, operation, single=False):
        hub, posts = self._hub, []
        for x, other in (*sends, *recvs):
            require_contiguous(x, operation)
            if type(other) is not int or not 0 <= other < self.num_ranks:
                raise ValueError(f"rank {self.rank} names rank {other}; there are 0 to {self.num_ranks - 1}")
        with hub.changed:
            for x, to in sends:
                self._count(operation, to, x.shape, x.nbytes)
                posts.append(self._post(x, self.rank, to, "send"))
            posts += [self._post(out, source, self.rank, "recv") for out, source in recvs]
        return _Pending(self, posts, tuple(out for out, _ in recvs), single)

    def _post(self, tensor, source, to, side):
        """One side of a message; delivers the oldest one of the channel when both of its sides are there."""
        hub = self._hub
        what = f"waits to send to rank {to}" if side == "send" else f"waits for a message of rank {source}"
        post = _Post(tensor, what)
        hub.posts[source, to, side].append(post)
        sent, wanted = hub.posts[source, to, "send"], hub.posts[source, to, "recv"]
        if sent and wanted:
            send, recv = sent.popleft(), wanted.popleft()
            if _described(send.tensor) != _described(recv.tensor):
                send.error = recv.error = (
                    f"Rank {source} sends {_described(send.tensor)} to rank {to}, which receives it into "
                    f"{_described(recv.tensor)}; shape and dtype must be the same."
                )
            else:
                recv.tensor.copy_(send.tensor)
            send.done = recv.done = True
            hub.changed.notify_all()
        return post

    def _meet(self, operation, x, given, size=None, *, rows=False):
        """What every rank gives to this collective, in their order; `rows`: these may differ in number."""
        require_contiguous(x, operation)
        hub, shape = self._hub, x.shape[1:] if rows else x.shape
        with hub.changed:
            number = sum(call["peer"] < 0 for call in hub.calls[self.rank])
            self._count(operation, -1, x.shape, x.nbytes if size is None else size)
            hub.meetings += [{} for _ in range(number + 1 - len(hub.meetings))]
            meeting = hub.meetings[number]
            meeting[self.rank] = f"{operation} of {'rows ' * rows}{tuple(shape)} {dtype_name(x.dtype)}", given
            hub.changed.notify_all()
            hub.wait(self.rank, f"waits in {operation} for all ranks", lambda: len(meeting) == self.num_ranks)
        _require_same(meeting, number)
        return [meeting[rank][1] for rank in range(self.num_ranks)]

    def _count(self, operation, peer, shape, size):
        hub = self._hub
        if peer != self.rank:
            hub.calls[self.rank].append({"op": operation, "peer": peer, "shape": list(shape), "bytes": size})
        if sum(map(len, hub.calls)) > _MOST_CALLS:
            raise Problem("timeout", f"The ranks called more than {_MOST_CALLS:,} collectives; is a loop without end?")

    def require_nothing_under_way(self):
        if self._under_way:
            count = len(self._under_way)
            text = f"Rank {self.rank} started {count} exchange{'s' * (count > 1)} whose wait() it never called"
            raise Problem("exception", f"{text}: the tensors may not be there yet.")

    def _sizes(self, x, send_sizes):
        """Rows for each rank, checked."""
        n = self.num_ranks
        if send_sizes is None:
            if len(x) % n:
                raise ValueError(f"x has {len(x)} rows, which {n} ranks do not divide: say send_sizes")
            return [len(x) // n] * n
        sizes = [int(size) for size in send_sizes]
        if len(sizes) != n or sum(sizes) != len(x) or min(sizes) < 0:
            raise ValueError(f"send_sizes is {sizes}: expected {n} numbers that sum to the {len(x)} rows of x")
        return sizes


class _Pending:
    """An exchange under way."""

    def __init__(self, world, posts, outs, single):
        self.world, self.posts, self.outs, self.single = world, posts, outs, single
        world._under_way.add(self)

    def wait(self):
        """What was received, complete: a tuple, or the only one of a ring with one tensor."""
        hub = self.world._hub
        self.world._under_way.discard(self)
        with hub.changed:
            for post in self.posts:
                hub.wait(self.world.rank, post.what, lambda post=post: post.done)
                if post.error:
                    raise Problem("exception", post.error)
        return self.outs[0] if self.single else self.outs


def require_contiguous(x, operation):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{operation} takes tensors, not a {type(x).__name__}")
    if not x.is_contiguous():
        raise ValueError(f"{operation} takes contiguous tensors; this one has the shape {tuple(x.shape)} and the "
                         f"strides {x.stride()}: call contiguous() on it")  # fmt: skip


def _described(x):
    return f"{tuple(x.shape)} {dtype_name(x.dtype)}"


def _require_same(meeting, number):
    """Problem when the ranks differ in what they call."""
    if len({words for words, _ in meeting.values()}) > 1:
        said = ", ".join(f"rank {rank} calls {meeting[rank][0]}" for rank in sorted(meeting))
        raise Problem("deadlock", f"The ranks differ in their collective {number + 1}: {said}.")
