"""Which accesses of different programs are ordered, and which race.

Programs of one launch run in no order that a kernel may rely on. The interpreter runs them one after the other, so
every access gets a stamp (program, line, epoch) and a cell remembers the stamps of its last write and last two readers.
Two accesses of different programs to one cell, at least one a write and not both atomic, are a race, unless an atomic
ordered them: a program's release publishes what it did so far, and an acquire on the same address learns it. That makes
"the last program to finish reduces the partial results" clean, and the same without its atomic a race.

May import: numpy.
"""

import numpy as np

_FEW = 32  # an atomic on at most this many addresses counts as synchronisation; on more, as arithmetic


class Order:
    """Stamps of accesses and what each program knows of the others. Programs run one at a time."""

    def __init__(self, num_programs):
        self.num_programs = num_programs
        self.count = 1  # stamp 0: nobody
        self.program = np.full(1024, -1, dtype=np.int32)
        self.epoch = np.zeros(1024, dtype=np.int32)
        self.atomic = np.zeros(1024, dtype=bool)
        self.lines = [None]
        self.current = -1
        self.barrier = 0  # the last stamp before the current program's last tl.debug_barrier
        self._published = {}  # address -> per program: the epoch published there

    def begin_program(self, program):
        self.current, self._now, self._known = program, 0, None

    def stamp(self, line, atomic=False):
        """Number one tl.load, tl.store or atomic of the current program."""
        if self.count == len(self.program):
            for name in ("program", "epoch", "atomic"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        number, self.count = self.count, self.count + 1
        self.program[number], self.epoch[number], self.atomic[number] = self.current, self._now, atomic
        self.lines.append(line)
        return number

    def foreign(self, stamps):
        """Return a mask: where another program made the stamp and nothing orders it before the current program."""
        owner = self.program[stamps]
        strangers = (owner != self.current) & (stamps != 0)
        if self._known is not None and strangers.any():
            strangers &= self._known[owner] <= self.epoch[stamps]
        return strangers

    def synchronise(self, addresses, semantics):
        """An atomic of the current program on `addresses`; semantics as triton names them ("ACQUIRE_RELEASE", …)."""
        if len(addresses) > _FEW:
            return
        for address in addresses.tolist():
            there = self._published.get(address)
            if "ACQUIRE" in semantics and there is not None:
                self._known = there.copy() if self._known is None else np.maximum(self._known, there)
            if "RELEASE" in semantics:
                mine = np.zeros(self.num_programs, np.int32) if self._known is None else self._known.copy()
                mine[self.current] = self._now + 1
                self._published[address] = mine if there is None else np.maximum(there, mine)
        if "RELEASE" in semantics:
            self._now += 1


def read(region, cells, order, stamp):
    """Note a read; return the stamps (one per cell, 0: none; or None) of

    the writes of other programs that it races with, and the plain writes of its own program since the last barrier.
    """
    writes, clash, own = region.written[cells], None, None
    if writes.any():
        clash = np.where(order.foreign(writes), writes, 0)
        mine = (order.program[writes] == order.current) & (writes > order.barrier) & ~order.atomic[writes]
        own = np.where(mine, writes, 0)
    last = region.read_a[cells]
    moved = order.program[last] != order.current
    if moved.any():
        region.read_b[cells[moved]] = last[moved]
    region.read_a[cells] = stamp
    return clash, own


def write(region, cells, order, stamp, atomic=False):
    """Note a write; return (stamps of other programs' writes, of other programs' reads) that it races with."""
    writes, last, before = region.written[cells], region.read_a[cells], region.read_b[cells]
    other_writes = order.foreign(writes)
    if atomic:
        other_writes &= ~order.atomic[writes]
    reads = np.where(order.foreign(last), last, np.where(order.foreign(before), before, 0))
    region.written[cells] = stamp
    return np.where(other_writes, writes, 0), reads
