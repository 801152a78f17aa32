"""Records Triton launches on the interpreter: counts bytes, checks addresses, detects races.

May import: errors, notation, numpy, torch; triton only inside functions.
"""

import math
from contextlib import contextmanager

import numpy as np

from ..errors import ArgumentError, UnsupportedError
from ..notation import SECTOR_BYTES
from . import _private, memory, mode, races
from .findings import FindingCollector
from .report import Dot, Line, TritonReport
from .space import Space

SCHEDULES = ("forward", "reverse", "random")
_SECTOR_SHIFT = np.uint64(int(math.log2(SECTOR_BYTES)))


@contextmanager
def ledger(*tensors, outputs=(), schedule="forward", seed=0):
    """Record every Triton launch inside the ``with`` block; the launches themselves run checked.

        with ledger(outputs=("out",)) as report:
            kernel[grid](x, out, n, BLOCK=128)

    Tensors among the arguments are named after their parameters. An access out of bounds is not performed: a read gives
    NaN (the largest number for integers), a write does nothing, and the report has a finding.

    Parameters
    ----------
    tensors : further CPU tensors that the kernels may touch (reached through addresses stored in an argument)
    outputs : names or tensors that count as uninitialised before the first launch
    schedule : "forward", "reverse" or "random": the order in which the programs run
    seed : int, for "random"

    Returns
    -------
    report : TritonReport, complete when the block ends

    Raises
    ------
    ArgumentError      the schedule has another name
    UnsupportedError   Triton compiles for the GPU in this process (use profile_triton there)
    """
    if not mode.is_interpreted():
        raise UnsupportedError(
            "ledger() records launches on Triton's interpreter, and in this process Triton compiles for the GPU. "
            "Use profile_triton(fn, grid, *args), which runs the interpreter in a process of its own."
        )
    recorder = Recorder(tensors, outputs, schedule, seed)
    _private.start(recorder)
    try:
        yield recorder.report
    finally:
        _private.stop()
        recorder.finish()


class Recorder:
    """The state of one `ledger`; _private.py calls its methods during a launch."""

    def __init__(self, tensors, outputs, schedule, seed):
        if schedule not in SCHEDULES:
            raise ArgumentError(f"schedule is {schedule!r}; it must be one of {', '.join(SCHEDULES)}")
        self.report = TritonReport(schedule=schedule)
        self._extra = [memory.Argument(f"tensor {i}", t) for i, t in enumerate(tensors)]
        self._outputs, self._seed = tuple(outputs), seed
        self._lines, self._dots, self._undefined, self._findings = {}, {}, {}, FindingCollector()
        self._share = {"load": 0, "store": 0}  # bytes of the program that is running
        self._initialised = {}  # storage and span -> which cells earlier launches wrote

    # launches

    def begin_launch(self, fn, names, args, kwargs):
        """Copy the arguments between red zones; return the arguments for the interpreter to run on."""
        self.report.kernel, self.report.launches = fn.__name__, self.report.launches + 1
        named = [*zip(names, args, strict=False), *kwargs.items()]
        tensors = []
        for name, value in named:
            memory.each_tensor(name, value, lambda n, t: tensors.append(memory.Argument(n, t)))
        groups = memory.group(tensors)
        self._regions = [memory.relocate(arguments) for arguments in groups]
        copies = {
            id(a.tensor): memory.view(region, a.tensor)
            for arguments, region in zip(groups, self._regions, strict=True)
            for a in arguments
        }
        for region in self._regions:
            self._mark_outputs(region)
        self._space = Space([*self._regions, *(memory.in_place(a) for a in memory.group(self._extra))])
        swapped = [memory.map_tensors(value, lambda t: copies.get(id(t), t)) for _, value in named]
        return swapped[: len(args)], dict(zip(kwargs, swapped[len(args) :], strict=True))

    def begin_grid(self, grid):
        self.report.grid, self._grid = tuple(grid), grid
        order = np.arange(math.prod(grid))
        if self.report.schedule == "reverse":
            order = order[::-1]
        elif self.report.schedule == "random":
            np.random.default_rng(self._seed).shuffle(order)
        self._queue, self._order = iter(order.tolist()), races.Order(len(order))
        self._findings.begin_launch(self._order, self._grid)

    def begin_program(self):
        """Return the coordinates of the program that runs next."""
        program = next(self._queue)
        self.report.programs += 1
        self._order.begin_program(program)
        self._share = dict.fromkeys(self._share, 0)
        return unravel(program, self._grid)

    def end_launch(self):
        """Copy results back to the arguments."""
        for region in self._regions:
            memory.copy_back(region)
            if region.initialised is not None:
                self._initialised[region.key] = region.coarse(region.initialised)

    def finish(self):
        """Write lines, products, findings and remarks into the report."""
        self.report.lines[:] = [self._lines[key] for key in sorted(self._lines)]
        self.report.dots[:] = [self._dots[key] for key in sorted(self._dots)]
        self.report.undefined_loads[:] = [[line, self._undefined[_, line]] for _, line in sorted(self._undefined)]
        self.report.findings[:] = self._findings.findings()
        self.report.remarks[:] = self._findings.remarks()

    def _mark_outputs(self, region):
        if any(self._is_output(argument) for argument in region.arguments):
            known = self._initialised.get(region.key)
            region.initialised = np.zeros(region.num_cells, dtype=bool) if known is None else known.copy()

    def _is_output(self, argument):
        return any(o == argument.name if isinstance(o, str) else o is argument.tensor for o in self._outputs)

    # accesses

    def load(self, pointers, mask, size, where):
        """Record a tl.load. Returns masks of (lanes that load, lanes that may): the same array when all may."""
        addresses, stamp = pointers[mask], self._order.stamp(where)
        if (region := self._space.unwritten(addresses, size)) is not None:
            races.postpone_read(region, addresses, size, self._order, stamp)
            self._count("load", addresses, size, where)
            return mask, mask
        addresses, allowed, pieces = self._check("load", addresses, mask, size, where)
        for region, cells in pieces:
            if region.initialised is not None:
                self._findings.uninitialised(where, region, cells[~region.initialised[cells]])
            races.settle_reads(region, self._order)
            racing, own = races.record_read(region, cells, self._order, stamp)
            self._findings.race("read", where, region, cells, racing, "wrote")
            self._findings.own_store(where, region, cells, own)
        self._count("load", addresses, size, where)
        return mask, allowed

    def undefined(self, count, where):
        """Record `count` masked elements of a tl.load of floats without `other`."""
        if count:
            self._undefined[where] = self._undefined.get(where, 0) + count

    def store(self, pointers, mask, size, where, values):
        """Record a tl.store; `values` is broadcast to the pointers' shape."""
        addresses, allowed, pieces = self._check("store", pointers[mask], mask, size, where)
        stamp = self._order.stamp(where)
        for region, cells in pieces:
            region.dirty = True
            self._write(region, cells, where, stamp)
        self._findings.collision(where, pieces, addresses, values[allowed])
        self._count("store", addresses, size, where)
        return mask, allowed

    def atomic(self, pointers, mask, size, where, semantics):
        """Record an atomic read-modify-write or compare-and-swap."""
        addresses, allowed, pieces = self._check("atomic", pointers[mask], mask, size, where)
        self._order.synchronise(addresses, semantics)
        stamp = self._order.stamp(where, atomic=True)
        for region, cells in pieces:
            region.dirty = True
            if region.initialised is not None:
                self._findings.uninitialised(where, region, cells[~region.initialised[cells]])
            self._write(region, cells, where, stamp, atomic=True)
        self._count("atomic", addresses, size, where)
        return mask, allowed

    def dot(self, types, input_precision, shape, where):
        """Record a tl.dot: `types` of the operands and of the accumulator, `shape` (..., M, N, K)."""
        key = (*where, *types, input_precision, shape)
        self._dots.setdefault(key, Dot(*key)).count += 1
        self._findings.dot(types[0], input_precision, where)

    def barrier(self):
        """Record a tl.debug_barrier: it orders the threads of the current program."""
        self._order.barrier = self._order.count - 1

    def _write(self, region, cells, where, stamp, atomic=False):
        races.settle_reads(region, self._order)
        writes, reads = races.record_write(region, cells, self._order, stamp, atomic)
        self._findings.race("write", where, region, cells, writes, "wrote")
        self._findings.race("write", where, region, cells, reads, "read")
        if region.initialised is not None:
            region.initialised[cells] = True

    def _check(self, what, addresses, mask, size, where):
        pieces, bad = self._space.find(addresses, size)
        if bad is None:
            return addresses, mask, pieces
        self._findings.bad_addresses(what, where, self._space, addresses[bad], size)
        allowed = mask.copy()
        allowed[mask] = ~bad
        return addresses[~bad], allowed, pieces

    def _count(self, what, addresses, size, where):
        if where not in self._lines:
            self._lines[where] = Line(*where)
        sectors, nbytes = count_sectors(addresses), len(addresses) * size
        for holder in (self.report, self._lines[where]):
            getattr(holder, what).add(len(addresses), nbytes, sectors)
        if what in self._share:
            self._share[what] += nbytes
            most = self.report.largest_share
            most[f"global_{what}"] = max(most[f"global_{what}"], self._share[what])


def unravel(program, grid):
    """Return the coordinates (x, y, z) of a program number; the interpreter counts z fastest."""
    x, rest = divmod(program, grid[1] * grid[2])
    return (x, *divmod(rest, grid[2]))


def count_sectors(addresses):
    """Count the distinct 32-byte sectors that the addresses (uint64) touch; elements are naturally aligned."""
    if len(addresses) < 2:
        return len(addresses)
    sectors = (addresses >> _SECTOR_SHIFT).view(np.int64)
    steps = sectors[1:] - sectors[:-1]
    if np.minimum.reduce(steps) < 0:
        sectors.sort()  # several times faster than np.unique
        steps = sectors[1:] - sectors[:-1]
    return 1 + int(np.count_nonzero(steps))
