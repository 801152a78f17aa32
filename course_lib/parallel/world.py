"""What a rank can ask of the others: a few collectives, each counted in bytes on the wire.

A `World` is one rank's view. `Threads` and `Processes` implement the methods that begin with an underscore; what is
counted and recorded is written here, once, so that both report the same numbers.

May import: errors, expect, parallel.checked, parallel.events, torch.
"""

import math
from contextlib import contextmanager

import torch

from .. import expect
from ..errors import ShapeError, WorldError
from .checked import counted, require_dim
from .events import Event, ring_bytes_of


class World:
    """One rank among `num_ranks`; every method is called by all ranks in the same order, `exchange` by those concerned.

    Attributes
    ----------
    rank, num_ranks : int
    device : torch.device of this rank's tensors
    events : list of Event of this rank, in the order in which they ended
    products : Inbox of ops.all_reduce for products that end in an all-reduce, or None: a separate one follows them
    can_share : bool, whether `share` gives memory that all ranks can write
    """

    products = None
    can_share = False

    @counted
    def __init__(self, rank, num_ranks, device="cpu"):
        self.rank, self.num_ranks, self.device = rank, num_ranks, torch.device(device)
        self.events, self._started = [], []

    # region: collectives
    def all_reduce(self, x, op="sum", *, label=""):
        """x replaced by the sum, or with op="max" the maximum, of all ranks' x; returns x."""
        if not isinstance(op, str) or op not in ("sum", "max"):
            raise WorldError(f"op={op!r}; all_reduce knows sum and max.", self.rank)
        _require_contiguous(x, "all_reduce")
        if op == "max" and x.is_complex():
            raise ShapeError(f"x is {x.dtype}; complex numbers have no maximum.")
        one_shot = op == "sum" and self._takes_one_shot(x)
        kind, call = ("one_shot", self._one_shot) if one_shot else ("all_reduce", self._all_reduce)
        self._counted(kind, x.nbytes, label, call, x, op)
        return x

    def all_reduce_add(self, x, residual, *, label=""):
        """residual, of the shape and dtype of x, plus the sum of all ranks' x, in place; returns residual.

        x is used up: it may hold the sum afterwards. residual is the same on all ranks, and so is the result.
        """
        for tensor in (x, residual):
            _require_contiguous(tensor, "all_reduce_add")
        if x.shape != residual.shape or x.dtype != residual.dtype:
            raise ShapeError(
                f"x is {x.dtype} {tuple(x.shape)} and residual {residual.dtype} {tuple(residual.shape)}; all_reduce_add"
                " takes two alike."
            )
        if x.data_ptr() == residual.data_ptr():
            raise ShapeError(
                "x and residual of all_reduce_add are one tensor; x may be overwritten, so pass x.clone()."
            )
        if self._takes_one_shot(x) and self._takes_one_shot(residual):
            self._counted("one_shot", x.nbytes, label, self._one_shot, x, "sum", residual)
            return residual
        return residual.add_(self.all_reduce(x, label=label))

    def within_kernel(self, num_bytes, call, *, label=""):
        """Run call(), a kernel that ends in a one-shot all-reduce of `num_bytes` into the inbox `products`."""
        self._counted("one_shot", num_bytes, label, call)

    def all_gather(self, x, dim=0, *, label=""):
        """The x of all ranks, all of one shape, side by side along `dim` in the order of the ranks."""
        _require_tensor(x, "all_gather")
        x, dim = x.contiguous(), require_dim(x, dim)
        out = x.new_empty(self.num_ranks, *x.shape)
        self._counted("all_gather", x.nbytes, label, self._all_gather, out, x)
        if dim == 0:
            return out.view(self.num_ranks * x.shape[0], *x.shape[1:])
        return out.movedim(0, dim).flatten(dim, dim + 1)

    def reduce_scatter(self, x, dim=0, *, label=""):
        """This rank's part, along `dim`, of the sum of all ranks' x; num_ranks divides x.shape[dim]."""
        _require_tensor(x, "reduce_scatter")
        dim = require_dim(x, dim)
        if x.shape[dim] % self.num_ranks:
            raise ShapeError(f"x has {x.shape[dim]} along dim {dim}; {self.num_ranks} ranks need a multiple of it.")
        shape = (*x.shape[:dim], x.shape[dim] // self.num_ranks, *x.shape[dim + 1 :])
        parts = x.reshape(*shape[:dim], self.num_ranks, *shape[dim:])
        parts = parts.contiguous() if dim == 0 else parts.movedim(dim, 0).contiguous()
        out = x.new_empty(shape)
        self._counted("reduce_scatter", x.nbytes, label, self._reduce_scatter, out, parts)
        return out

    def all_to_all(self, x, send_sizes=None, recv_sizes=None, *, label=""):
        """Rows of x to the ranks, and the rows that they send to this one, in the order of the ranks.

        send_sizes : list of int, rows for each rank, in order; None, on all ranks: the same for each
        recv_sizes : list of int, rows from each rank; None: as many, or, with send_sizes, asked of the ranks first
        """
        _require_tensor(x, "all_to_all")
        if x.ndim == 0:
            raise ShapeError("x is a single number; all_to_all sends rows.")
        equal = send_sizes is None and recv_sizes is None
        send_sizes, recv_sizes = self._row_sizes(x, send_sizes, recv_sizes)
        x = x.contiguous()
        num_received = sum(recv_sizes)
        out = x.new_empty(num_received, *x.shape[1:])
        row = x.element_size() * math.prod(x.shape[1:])
        sent, received = row * (x.shape[0] - send_sizes[self.rank]), row * (num_received - recv_sizes[self.rank])
        arguments = (out, x, send_sizes, recv_sizes, equal)
        self._counted("all_to_all", sent, label, self._all_to_all, *arguments, received=received)
        return out

    def barrier(self, *, label=""):
        """Return when all ranks have come here."""
        self._counted("barrier", 0, label, self._barrier)

    # endregion

    # region: point_to_point
    def send(self, x, to, *, label=""):
        """Send x to a rank; returns when that rank has taken it."""
        self.start_exchange([(x, to)], [], label=label or f"send to {to}").wait()

    def recv(self, out, source, *, label=""):
        """Fill `out`, of the shape and dtype that `source` sends; returns out."""
        self.start_exchange([], [(out, source)], label=label or f"recv from {source}").wait()
        return out

    def exchange(self, sends, recvs, *, label=""):
        """Several at once, which cannot block each other: sends [(x, to)], recvs [(out, source)]; returns the outs."""
        return self.start_exchange(sends, recvs, label=label).wait()

    def ring_exchange(self, *tensors, label=""):
        """Tensors to the next rank, and those of the previous rank, of the same shapes: a tuple, or the only one."""
        return self.start_ring(*tensors, label=label).wait()

    def start_ring(self, *tensors, out=None, label=""):
        """`ring_exchange` that returns at once a Pending, whose `wait` gives the tensors; out: buffers for them."""
        out = [torch.empty_like(x) for x in tensors] if out is None else out
        after, before = (self.rank + 1) % self.num_ranks, (self.rank - 1) % self.num_ranks
        sends, recvs = [(x, after) for x in tensors], [(x, before) for x in out]
        return self.start_exchange(sends, recvs, label=label or "ring", single=len(tensors) == 1)

    def start_exchange(self, sends, recvs, *, label="", single=False):
        """`exchange` that returns at once a Pending; no tensor of it may be touched before its `wait` has returned."""
        for x, rank in (*sends, *recvs):
            _require_contiguous(x, "exchange")
            if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < self.num_ranks:
                raise WorldError(
                    f"rank {self.rank} names rank {expect.shown(rank)}; there are 0 to {self.num_ranks - 1}.", self.rank
                )
        pending = Pending(self, sends, recvs, label, single)
        self._started.append(pending)
        return pending

    # endregion

    # region: one_sided
    def share(self, shape, dtype):
        """Zeros of one shape on every rank, which all ranks can write: a list by rank; None where `can_share` is False.

        Every rank calls it. RuntimeError where the machine gives no access to the peers' memory.
        """
        if not self.can_share:
            return None
        own = math.prod(shape) * dtype.itemsize
        sizes = self.all_gather(torch.tensor([own], device=self.device), label="sizes").tolist()
        if len(set(sizes)) > 1:
            raise WorldError(
                f"the ranks share {sizes} bytes; every rank must share a tensor of the same shape and dtype: pages of "
                "the same number and size.", self.rank
            )  # fmt: skip
        return self._share(shape, dtype)

    def one_sided(self, call, *, sent=0, received=0, label=""):
        """Run call(), by which this rank writes into a peer's memory or learns that a peer has written into its own."""
        self._counted("exchange", sent, label, call, received=received)

    # endregion

    @contextmanager
    def span(self, label):
        """Records what runs inside as an event of the kind "compute"."""
        begin = self._now()
        yield
        self._record("compute", label, begin, 0, 0)

    def require_nothing_pending(self):
        """Raise where an exchange was started and never waited for: its tensors may be incomplete."""
        if self._started:
            first = self._started[0]
            raise WorldError(
                f"rank {self.rank} started {len(self._started)} exchange(s) that it never waited for, the first with "
                f"the label {first.label!r}; call wait() on what start_exchange or start_ring returned.", self.rank
            )  # fmt: skip

    def _takes_one_shot(self, x):
        """Whether every rank sends its x to all others at once, instead of passing parts round a ring."""
        return False

    def _counted(self, kind, num_bytes, label, call, *arguments, received=None):
        """Run one collective, count it and time it; num_bytes as `wire_bytes` takes it."""
        begin = self._now()
        self._say(kind)
        call(*arguments)
        self._say("")
        sent = ring_bytes_of(kind, num_bytes, self.num_ranks)
        kind = "all_reduce" if kind == "one_shot" else kind
        self._record(kind, label, begin, sent, sent if received is None else received)

    def _say(self, kind):
        """Note what this rank waits in, or with "" that it computes; for those who watch from outside."""

    def _record(self, kind, label, begin, sent, received):
        self.events.append(Event(self.rank, kind, label, begin, self._now(), sent, received))

    def _row_sizes(self, x, send_sizes, recv_sizes):
        """The two lists of all_to_all, checked; missing ones filled in."""
        if send_sizes is None:
            num_rows, left_over = divmod(x.shape[0], self.num_ranks)
            if left_over:
                raise ShapeError(f"x has {len(x)} rows; without send_sizes {self.num_ranks} ranks must divide them.")
            send_sizes = [num_rows] * self.num_ranks
            if recv_sizes is None:
                return send_sizes, send_sizes
        send_sizes = expect.tokens("send_sizes", send_sizes, least=None, of="size", error=ShapeError)
        if len(send_sizes) != self.num_ranks or sum(send_sizes) != len(x) or min(send_sizes) < 0:
            raise ShapeError(
                f"send_sizes={send_sizes} on rank {self.rank}; expected {self.num_ranks} numbers that sum to the "
                f"{len(x)} rows of x."
            )
        if recv_sizes is None:
            sizes = torch.tensor(send_sizes, device=self.device)
            recv_sizes = self.all_to_all(sizes, label="sizes").tolist()
        recv_sizes = expect.tokens("recv_sizes", recv_sizes, least=None, of="size", error=ShapeError)
        if len(recv_sizes) != self.num_ranks or min(recv_sizes) < 0:
            raise ShapeError(f"recv_sizes={recv_sizes} on rank {self.rank}; expected {self.num_ranks} numbers of rows.")
        return send_sizes, recv_sizes


class Pending:
    """An exchange under way; `wait` returns what came, in the order in which it was asked for."""

    def __init__(self, world, sends, recvs, label, single):
        self.world, self.label, self.single = world, label, single
        self.tensors = tuple(out for out, _ in recvs)
        self.sent, self.received = (
            sum(x.nbytes for x, other in pairs if other != world.rank) for pairs in (sends, recvs)
        )
        self.begin = world._now()
        self._handle = world._start(sends, recvs)

    def wait(self):
        """The received tensors, complete: a tuple, or the only one of a ring with one tensor."""
        if self in self.world._started:
            self.world._started.remove(self)
            self.world._finish(self._handle)
            self.world._record("exchange", self.label, self.begin, self.sent, self.received)
        return self.tensors[0] if self.single else self.tensors


def require_world(world):
    """Raise where this is no World, nor anything else with a rank among others."""
    if not all(hasattr(world, name) for name in ("rank", "num_ranks", "span")):
        raise WorldError(f"world is {expect.shown(world)}; expected what run(function, num_ranks) gives the function.")


def _require_tensor(x, name):
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.device.type not in ("cpu", "cuda"):
        place = f" on {x.device}, of layout {x.layout}" if isinstance(x, torch.Tensor) else ""
        raise ShapeError(f"{name} takes tensors in plain memory of CPU or CUDA; this is {expect.shown(x)}{place}.")


def _require_contiguous(x, name):
    _require_tensor(x, name)
    if not x.is_contiguous():
        raise ShapeError(f"{name} takes contiguous tensors; this one has the shape {tuple(x.shape)} and the strides "
                         f"{x.stride()}: call contiguous() on it.")  # fmt: skip
