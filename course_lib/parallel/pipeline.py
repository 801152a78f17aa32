"""Pipeline parallelism: each rank has some layers, and micro-batches pass through the ranks one after the other.

A stage's order is a list of (kind, micro): "F" runs a micro-batch forward, "B" backward. With p stages and m
micro-batches a stage waits (p - 1) / (m + p - 1) of the time in both orders; all forwards first keeps m micro-batches
in memory, one forward and one backward in turn (1F1B) at most p - s on stage s.

Source: Y. Huang et al., "GPipe", 2019, arXiv:1811.06965
Source: D. Narayanan et al., "PipeDream", 2019, arXiv:1806.03377

May import: errors, expect, parallel.checked, parallel.world, torch.
"""

from dataclasses import dataclass

import torch

from .. import expect
from ..errors import WorldError
from .checked import counted
from .world import require_world


@dataclass(frozen=True)
class Entry:
    """One forward or backward on the timetable."""

    stage: int
    kind: str
    micro: int
    begin: float
    end: float


# region: orders
@counted
def order_1f1b(stage, num_stages, num_micro):
    """As many forwards as there are stages after this one, then one forward and one backward in turn."""
    warm = min(num_micro, num_stages - 1 - stage)
    order = [("F", micro) for micro in range(warm)]
    for micro in range(num_micro - warm):
        order += [("F", warm + micro), ("B", micro)]
    return order + [("B", micro) for micro in range(num_micro - warm, num_micro)]


@counted
def order_gpipe(stage, num_stages, num_micro):
    """All forwards, then all backwards."""
    return [(kind, micro) for kind in "FB" for micro in range(num_micro)]


# endregion


def _require_order(order):
    """Raise where this is no list of ("F" or "B", micro-batch), each of them once."""
    expect.kind("an order", order, (list, tuple), how="[('F', 0), ('B', 0)], as order_1f1b gives it", error=WorldError)
    for entry in order:
        if not isinstance(entry, tuple) or len(entry) != 2 or entry[0] not in ("F", "B") or type(entry[1]) is not int:
            raise WorldError(f"an order has the entry {entry!r:.60}; expected ('F', micro) or ('B', micro).")
    if len(set(order)) != len(order):
        raise WorldError("an order has an entry twice; a stage runs each micro-batch forward and backward once.")


def timetable(orders, forward=1, backward=2):
    """When each entry runs if every stage follows its order and waits for nothing but its inputs: a list of Entry.

    A forward needs that of the stage before, a backward its own forward and the backward of the next stage. WorldError
    where no stage can go on: the orders wait for each other.
    """
    forward, backward = (expect.real("a duration", each, above=0, error=WorldError) for each in (forward, backward))
    expect.kind("orders", orders, (list, tuple), error=WorldError)
    if not orders:
        raise WorldError("there is no order; a timetable has at least one stage.")
    for order in orders:
        _require_order(order)
    num_stages, ends, free = len(orders), {}, [0] * len(orders)
    remaining, entries = [list(order) for order in orders], []
    while any(remaining):
        ready = [
            stage for stage, order in enumerate(remaining) if order and _inputs(stage, *order[0], num_stages, ends)
        ]
        if not ready:
            waiting = ", ".join(f"stage {s} for the inputs of {o[0][0]}{o[0][1]}" for s, o in enumerate(remaining) if o)
            raise WorldError(f"no stage can go on: {waiting}.")
        for stage in ready:
            kind, micro = remaining[stage].pop(0)
            begin = max(free[stage], *_inputs(stage, kind, micro, num_stages, ends))
            free[stage] = begin + (forward if kind == "F" else backward)
            ends[stage, kind, micro] = free[stage]
            entries.append(Entry(stage, kind, micro, begin, free[stage]))
    return entries


def _inputs(stage, kind, micro, num_stages, ends):
    """The times at which an entry's inputs are there, at least one; an empty list where one is not yet known."""
    needed = [(stage - 1, "F", micro)] if kind == "F" else [(stage, "F", micro), (stage + 1, "B", micro)]
    needed = [entry for entry in needed if 0 <= entry[0] < num_stages]
    return [0, *(ends[entry] for entry in needed)] if all(entry in ends for entry in needed) else []


def bubble(entries):
    """Share of the time that the stages wait, from the first begin to the last end."""
    expect.kind("entries", entries, (list, tuple), how="timetable(orders) gives them", error=WorldError)
    for entry in entries:
        expect.kind("an entry", entry, Entry, error=WorldError)
    if not entries:
        raise WorldError("the timetable is empty; a bubble is a share of the time of at least one entry.")
    num_stages, whole = 1 + max(entry.stage for entry in entries), max(entry.end for entry in entries)
    return 1 - sum(entry.end - entry.begin for entry in entries) / (num_stages * whole)


@counted
def bubble_formula(num_stages, num_micro):
    """(p - 1) / (m + p - 1)."""
    return (num_stages - 1) / (num_micro + num_stages - 1)


def most_held(order):
    """The largest number of micro-batches that a stage has run forward and not yet backward: its memory."""
    _require_order(order)
    held = [sum(1 if kind == "F" else -1 for kind, _ in order[: end + 1]) for end in range(len(order))]
    return max(held, default=0)


def _require_step(world, micro_batches, **functions):
    """Raise where these are not a world, a list of at least one micro-batch, and functions."""
    require_world(world)
    expect.kind("micro_batches", micro_batches, (list, tuple), how="a list of x", error=WorldError)
    for name, value in functions.items():
        expect.function(name, value, error=WorldError)
    if not micro_batches:
        raise WorldError("there is no micro-batch; a step trains on at least one.")


def train_step(world, stage, micro_batches, loss_of, shape, *, order=order_1f1b, dtype=torch.float32):
    """One training step; gradients are added to the stage's parameters. Returns the mean loss on the last rank.

    Parameters
    ----------
    stage : function(x) -> y of this rank, differentiable; y of a stage has the shape of the next one's x
    micro_batches : list of x; their number on every rank, their values on rank 0
    loss_of : function(y, micro) -> loss of a micro-batch, for the last rank
    shape, dtype : of what passes between two stages

    Notes
    -----
    On the wire  an x forward and its gradient backward for each micro-batch and border between stages
    Order        what an entry sends and what the next one receives is one exchange: a stage that sends an activation
                 forward while its neighbour sends a gradient back would wait for it, and it for the stage
    """
    _require_step(world, micro_batches, stage=stage, loss_of=loss_of, order=order)
    links = _Links(world, order(world.rank, world.num_ranks, len(micro_batches)), shape, dtype)
    first, last, kept, loss = world.rank == 0, world.rank == world.num_ranks - 1, {}, 0.0
    incoming = links.swap(0, None)
    # region: step
    for index, (kind, micro) in enumerate(links.entries):
        with world.span(f"{kind}{micro}"):
            if kind == "F":
                x = micro_batches[micro] if first else incoming.requires_grad_()
                y = stage(x)
                if last:
                    y = loss_of(y, micro) / len(micro_batches)
                    loss += y.item()
                kept[micro], made = (x, y), y.detach()
            else:
                x, y = kept.pop(micro)
                y.backward(None if last else incoming)
                made = x.grad
        incoming = links.swap(index + 1, made)
    # endregion
    return loss if last else None


class _Links:
    """The neighbours of a stage: where an entry's result goes, and where its input comes from."""

    def __init__(self, world, entries, shape, dtype):
        self.world, self.entries, self.shape, self.dtype = world, entries, shape, dtype

    def _rank(self, index, step):
        """The neighbour an entry receives from (step -1) or sends to (1), or None."""
        if not 0 <= index < len(self.entries):
            return None
        other = self.world.rank + (step if self.entries[index][0] == "F" else -step)
        return other if 0 <= other < self.world.num_ranks else None

    def swap(self, index, made):
        """Send what the entry before `index` made, and receive what this one needs, or None."""
        to, source = self._rank(index - 1, 1), self._rank(index, -1)
        sends = [] if to is None else [(made.contiguous(), to)]
        out = torch.empty(self.shape, dtype=self.dtype, device=self.world.device)
        recvs = [] if source is None else [(out, source)]
        if sends or recvs:
            self.world.exchange(sends, recvs, label=f"before {index}")
        return out if recvs else None


@counted
def step_bytes(rank, num_ranks, num_micro, micro_bytes):
    """Bytes that a rank sends in a step: activations to the next stage, gradients to the one before."""
    return num_micro * micro_bytes * ((rank < num_ranks - 1) + (rank > 0))
