"""Gathers what is wrong with a launch and says it in sentences, each thing once with its count.

May import: numpy.
"""

from dataclasses import dataclass

import numpy as np

from .report import Finding


@dataclass
class _Case:
    count: int
    program: tuple
    message: str  # with {count}


class Evidence:
    """Findings and remarks of all launches in one ledger, keyed so that a loop does not repeat a sentence."""

    def __init__(self):
        self._cases, self._remarks = {}, {}
        self._order, self._grid = None, (1, 1, 1)

    def begin_launch(self, order, grid):
        self._order, self._grid = order, grid

    def findings(self):
        """Return the findings, in order of discovery."""
        return [
            Finding(
                kind,
                line,
                case.message.format(count=case.count),
                other_line=other,
                tensor=tensor,
                program=case.program,
                count=case.count,
                filename=filename,
            )
            for (kind, filename, line, other, tensor), case in self._cases.items()
        ]

    def remarks(self):
        return list(self._remarks.values())

    def bad_addresses(self, what, where, space, addresses, size):
        """Addresses (uint64) outside every argument, or not a multiple of the element size."""
        crooked = (addresses % np.uint64(size)).astype(bool)
        if crooked.any():
            message = (
                f"line {where[1]}: program {self._here()} uses {{count}} addresses that are no multiple of the "
                f"element size, {size} bytes"
            )
            self._add("misaligned", where, "", int(crooked.sum()), message)
        outside = addresses[~crooked]
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}[what]
        for name, number, place in space.explain(outside, size):
            message = f"line {where[1]}: program {self._here()} {verb} outside {place}; {{count}} elements in all"
            self._add("out_of_bounds", where, name, number, message)

    def uninitialised(self, where, region, cells):
        """Cells of an output that nothing has written yet."""
        if len(cells):
            message = (
                f"line {where[1]}: program {self._here()} reads {region.locate(cells[0])}, which nothing has written; "
                "{count} elements in all"
            )
            self._add("uninitialised_read", where, region.name_of(cells[0]), len(cells), message)

    def race(self, did, where, region, cells, stamps, they_did):
        """Accesses of other programs, by stamp (0: none), that nothing orders before this one."""
        if stamps is None or not stamps.any():
            return
        for stamp in np.unique(stamps[stamps != 0])[:8]:
            hit = cells[stamps == stamp]
            other = self._order.lines[stamp]
            them = self._coordinates(self._order.program[stamp])
            message = (
                f"program {self._here()} {did}s {region.locate(hit[0])} at line {where[1]}, and program {them} "
                f"{they_did} it at line {other[1]}; programs run in no fixed order ({{count}} elements seen)"
            )
            self._add("race", where, region.name_of(hit[0]), len(hit), message, other[1])

    def own_store(self, where, region, cells, stamps):
        """A read of what the same program stored, with no barrier between."""
        if stamps is None or not stamps.any():
            return
        hit = int(np.argmax(stamps > 0))
        line = self._order.lines[stamps[hit]][1]
        self._remarks[where, line] = (
            f"line {where[1]}: a program reads {region.name_of(cells[hit])} where it stored at line {line}. On a GPU a "
            "program is many threads, and only tl.debug_barrier() orders one thread's store before another's load."
        )

    def collision(self, where, pieces, addresses, values):
        """One tl.store whose lanes write different values to the same address."""
        if len(addresses) < 2 or (addresses[1:] > addresses[:-1]).all():
            return
        order = np.argsort(addresses, kind="stable")
        sorted_addresses, sorted_values = addresses[order], values[order]
        same = sorted_addresses[1:] == sorted_addresses[:-1]
        differ = same & (sorted_values[1:].view() != sorted_values[:-1])
        if differ.any():
            region, cells = pieces[0]
            message = (
                f"line {where[1]}: one tl.store of program {self._here()} writes different values to one address, "
                f"for instance in {region.name_of(cells[0])}; which one stays is not defined ({{count}} elements)"
            )
            self._add("race", where, region.name_of(cells[0]), int(differ.sum()), message, where[1])

    def dot(self, dtype, input_precision, where):
        """A tl.dot on float32 that would be TF32 on a GPU."""
        if dtype == "fp32" and input_precision.upper() == "TF32":
            self._remarks[where] = (
                f"line {where[1]}: tl.dot on float32 without input_precision='ieee' keeps 10 bits of each factor on a "
                "GPU (TF32) and all 23 here; say which one you mean."
            )

    def _add(self, kind, where, tensor, count, message, other_line=None):
        key = (kind, *where, other_line, tensor)
        if key in self._cases:
            self._cases[key].count += count
        else:
            self._cases[key] = _Case(count, self._here(), message)

    def _here(self):
        return self._coordinates(self._order.current)

    def _coordinates(self, program):
        x, rest = divmod(int(program), self._grid[1] * self._grid[2])
        return (x, *divmod(rest, self._grid[2]))
