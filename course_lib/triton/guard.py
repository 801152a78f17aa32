"""Stops an interpreted launch before it touches memory that is none of its arguments.

The interpreter carries out whatever address a kernel computes: a read far outside ends the process, and a notebook with
it. A ledger reports such accesses; a plain launch, without a ledger, is stopped at the first one with its line.

May import: errors, numpy.
"""

from bisect import bisect_right

import numpy as np

from ..errors import KernelFault


class Guard:
    """The extents of the arguments of the launch that runs now; _private.py asks before each access."""

    def __init__(self):
        self.begin_launch([])
        self.program = (0, 0, 0)

    def begin_launch(self, arguments):
        """Take the arguments of a new launch, as the interpreter holds them; whole storages count."""
        found = [tensor.untyped_storage() for tensor in _tensors(arguments)]
        storages = {storage.data_ptr(): storage.nbytes() for storage in found}
        self._starts = sorted(start for start, nbytes in storages.items() if nbytes)
        self._ends = [start + storages[start] for start in self._starts]

    def check(self, what, pointers, mask, size, author_line):
        """Check one access: addresses (uint64) under a boolean mask of the same shape, `size` bytes each.

        Raises
        ------
        KernelFault   an address lies in no argument; the message has the line, the program and how many
        """
        asked = pointers[mask]
        if not asked.size:
            return
        number = bisect_right(self._starts, int(asked.min())) - 1
        if number >= 0 and int(asked.max()) + size <= self._ends[number]:
            return
        starts, ends = (np.array([0, *edges], dtype=np.uint64) for edges in (self._starts, self._ends))
        number = np.searchsorted(starts, asked, side="right") - 1
        outside = int((asked + np.uint64(size) > ends[number]).sum())
        if outside:
            verb = {"load": "reads", "store": "writes", "atomic": "updates"}[what]
            line = author_line()[1]
            raise KernelFault(
                f"line {line}: program {self.program} {verb} {outside} of {asked.size} elements outside every argument "
                f"of the launch, so it was stopped there. profile_triton names the tensor and carries on."
            )


def _tensors(values):
    """The tensors among a launch's arguments: plain, wrapped, behind a descriptor, in a tuple."""
    for value in values:
        if isinstance(value, tuple):
            yield from _tensors(value)
        elif hasattr(value, "untyped_storage"):
            yield value
        elif hasattr(getattr(value, "base", None), "untyped_storage"):
            yield value.base
