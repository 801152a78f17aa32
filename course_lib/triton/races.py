"""Race detection between the programs of a launch, with vector clocks.

Programs of one launch run in no order that a kernel may rely on. The interpreter runs them one after the other, so
every access gets a stamp (program, line, epoch), and a shadow cell holds the stamps of its last write and last two
readers. Two accesses of different programs to one cell, at least one a write and not both atomic, are a race, unless
one happened before the other: a release stores the program's vector clock at the atomic's address, an acquire joins it.
So "the last program to finish reduces the partial results" is no race, and the same without its atomic is.

May import: numpy.
"""

import numpy as np

_MAX_READS_HELD = 1 << 19  # addresses of a region's postponed reads: 4 MiB
_MAX_SYNC_ADDRESSES = 32  # an atomic on more addresses counts as arithmetic, not as synchronisation


class Order:
    """Stamps of accesses, and the vector clock of the current program. Programs run one at a time.

    A vector clock is an int32 array by program: accesses of that program in an epoch below the entry happened before.
    """

    def __init__(self, num_programs):
        self.num_programs = num_programs
        self.count = 1  # stamp 0: no access
        self.program = np.full(1024, -1, dtype=np.int32)
        self.epoch = np.zeros(1024, dtype=np.int32)
        self.atomic = np.zeros(1024, dtype=bool)
        self.lines = [None]
        self.current = -1
        self.barrier = 0  # the last stamp before the current program's last tl.debug_barrier
        self._released = {}  # address -> the vector clock released there

    def begin_program(self, program):
        self.current, self._now, self._acquired = program, 0, None

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

    def unordered(self, stamps):
        """Return a mask: stamps of other programs that did not happen before the current access."""
        owner = self.program[stamps]
        mask = (owner != self.current) & (stamps != 0)
        if self._acquired is not None and mask.any():
            mask &= self._acquired[owner] <= self.epoch[stamps]
        return mask

    def synchronise(self, addresses, semantics):
        """Acquire and release through an atomic on `addresses`; semantics as in triton ("ACQUIRE_RELEASE", …)."""
        if len(addresses) > _MAX_SYNC_ADDRESSES:
            return
        for address in addresses.tolist():
            released = self._released.get(address)
            if "ACQUIRE" in semantics and released is not None:
                self._acquired = released.copy() if self._acquired is None else np.maximum(self._acquired, released)
            if "RELEASE" in semantics:
                clock = np.zeros(self.num_programs, np.int32) if self._acquired is None else self._acquired.copy()
                clock[self.current] = self._now + 1
                self._released[address] = clock if released is None else np.maximum(released, clock)
        if "RELEASE" in semantics:
            self._now += 1


def postpone_read(region, addresses, size, order, stamp):
    """Note a read of a region that the launch has not written: its cells matter once the region is written."""
    region.reads.append((addresses, size, stamp))
    region.reads_held += len(addresses)
    if region.reads_held > _MAX_READS_HELD:
        settle_reads(region, order)


def settle_reads(region, order):
    """Record the postponed reads in their shadow cells, in their order."""
    for addresses, size, stamp in region.reads:
        cells = region.wide(region.cells(addresses), size)
        _mark_read(region, cells, order, stamp)
    region.reads, region.reads_held = [], 0


def record_read(region, cells, order, stamp):
    """Record a read in its shadow cells.

    Returns
    -------
    racing : stamps of other programs' writes that it races with, one per cell, 0 for none; or None
    own : the same of the plain writes of its own program since the last barrier
    """
    writes, racing, own = region.written[cells], None, None
    if writes.any():
        racing = np.where(order.unordered(writes), writes, 0)
        own_writes = (order.program[writes] == order.current) & (writes > order.barrier) & ~order.atomic[writes]
        own = np.where(own_writes, writes, 0)
    _mark_read(region, cells, order, stamp)
    return racing, own


def _mark_read(region, cells, order, stamp):
    last = region.read_a[cells]
    moved = order.program[last] != order.program[stamp]
    if moved.any():
        region.read_b[cells[moved]] = last[moved]
    region.read_a[cells], region.was_read = stamp, True


def record_write(region, cells, order, stamp, atomic=False):
    """Record a write in its shadow cells.

    Returns
    -------
    writes, reads : stamps of other programs' writes and reads that it races with, one per cell, 0 for none; or None
    """
    written, writes, reads = region.written[cells], None, None
    if written.any():
        other_writes = order.unordered(written)
        if atomic:
            other_writes &= ~order.atomic[written]
        writes = np.where(other_writes, written, 0)
    if region.was_read:
        last, before = region.read_a[cells], region.read_b[cells]
        reads = np.where(order.unordered(last), last, np.where(order.unordered(before), before, 0))
    region.written[cells] = stamp
    return writes, reads
