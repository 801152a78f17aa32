"""Collects findings and remarks of launches as sentences, one for each cause, with its count.

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


class FindingCollector:
    """Findings and remarks of all launches in one ledger, keyed so that a loop reports a cause once."""

    def __init__(self):
        self._cases, self._remarks = {}, {}
        self._order, self._grid = None, (1, 1, 1)

    def begin_launch(self, order, grid):
        self._order, self._grid = order, grid

    def findings(self):
        """Return the findings, in the order of their first occurrence."""
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
        """Add addresses (uint64) outside every argument, or not a multiple of the element size."""
        misaligned = (addresses % np.uint64(size)).astype(bool)
        if misaligned.any():
            message = (
                f"line {where[1]}: program {self._current()} uses {{count}} addresses that are no multiple of the "
                f"element size, {size} bytes"
            )
            self._add("misaligned", where, "", int(misaligned.sum()), message)
        outside = addresses[~misaligned]
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}[what]
        for name, number, description in space.explain(outside, size):
            message = (
                f"line {where[1]}: program {self._current()} {verb} outside {description}; {{count}} elements in all"
            )
            self._add("out_of_bounds", where, name, number, message)

    def uninitialised(self, where, region, cells):
        """Add reads of cells of an output that have not been written."""
        if len(cells):
            message = (
                f"line {where[1]}: program {self._current()} reads {region.locate(cells[0])}, which nothing has "
                "written; {count} elements in all"
            )
            self._add("uninitialised_read", where, region.name_of(cells[0]), len(cells), message)

    def race(self, verb, where, region, cells, stamps, other_verb):
        """Add races with accesses of other programs, given by stamp (0: none)."""
        if stamps is None or not stamps.any():
            return
        for stamp in np.unique(stamps[stamps != 0])[:8]:
            hit = cells[stamps == stamp]
            other = self._order.lines[stamp]
            other_program = self._coordinates(self._order.program[stamp])
            message = (
                f"program {self._current()} {verb}s {region.locate(hit[0])} at line {where[1]}, and program "
                f"{other_program} {other_verb} it at line {other[1]}; programs run in no fixed order "
                "({count} elements seen)"
            )
            self._add("race", where, region.name_of(hit[0]), len(hit), message, other[1])

    def own_store(self, where, region, cells, stamps):
        """Add a remark about a read of what the same program stored, with no barrier between."""
        if stamps is None or not stamps.any():
            return
        hit = int(np.argmax(stamps > 0))
        line = self._order.lines[stamps[hit]][1]
        self._remarks[where, line] = (
            f"line {where[1]}: a program reads {region.name_of(cells[hit])} where it stored at line {line}. On a GPU a "
            "program is many threads, and only tl.debug_barrier() orders one thread's store before another's load."
        )

    def collision(self, where, pieces, addresses, values):
        """Add a race when lanes of one tl.store write different values to the same address."""
        if len(addresses) < 2 or (addresses[1:] > addresses[:-1]).all():
            return
        order = np.argsort(addresses, kind="stable")
        sorted_addresses, sorted_values = addresses[order], values[order]
        same = sorted_addresses[1:] == sorted_addresses[:-1]
        differ = same & (sorted_values[1:].view() != sorted_values[:-1])
        if differ.any():
            region, cells = pieces[0]
            message = (
                f"line {where[1]}: one tl.store of program {self._current()} writes different values to one address, "
                f"for instance in {region.name_of(cells[0])}; which one stays is not defined ({{count}} elements)"
            )
            self._add("race", where, region.name_of(cells[0]), int(differ.sum()), message, where[1])

    def dot(self, dtype, input_precision, where):
        """Add a remark about a tl.dot on float32 that is TF32 on a GPU."""
        if dtype == "fp32" and input_precision == "tf32":
            self._remarks[where] = (
                f"line {where[1]}: tl.dot on float32 without input_precision='ieee' keeps 10 bits of each factor on a "
                "GPU (TF32) and all 23 here; say which one you mean."
            )

    def _add(self, kind, where, tensor, count, message, other_line=None):
        key = (kind, *where, other_line, tensor)
        if key in self._cases:
            self._cases[key].count += count
        else:
            self._cases[key] = _Case(count, self._current(), message)

    def _current(self):
        return self._coordinates(self._order.current)

    def _coordinates(self, program):
        x, rest = divmod(int(program), self._grid[1] * self._grid[2])
        return (x, *divmod(rest, self._grid[2]))
