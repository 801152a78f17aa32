"""Bounds check of interpreted launches without a ledger.

The interpreter dereferences whatever address a kernel computes: a read far out of bounds crashes the process, and the
notebook with it. A ledger reports such accesses; a plain launch stops at the first one, with its line.

May import: errors, numpy.
"""

from bisect import bisect_right

import numpy as np

from ..errors import KernelFault


class Guard:
    """The extents of the current launch's arguments; _private.py calls `check` before each access."""

    def __init__(self):
        self.begin_launch([])
        self.program = (0, 0, 0)

    def begin_launch(self, arguments):
        """Set the arguments of a new launch, as the interpreter holds them; each storage counts as a whole."""
        all_storages = [tensor.untyped_storage() for tensor in _tensors(arguments)]
        storages = {storage.data_ptr(): storage.nbytes() for storage in all_storages}
        self._starts = sorted(start for start, nbytes in storages.items() if nbytes)
        self._ends = [start + storages[start] for start in self._starts]

    def check(self, what, pointers, mask, size, author_line):
        """Check one access: addresses (uint64) under a boolean mask of the same shape, `size` bytes each.

        Raises
        ------
        KernelFault   an address lies in no argument; the message has the line, the program and how many
        """
        addresses = pointers[mask]
        if not addresses.size:
            return
        number = bisect_right(self._starts, int(addresses.min())) - 1
        if number >= 0 and int(addresses.max()) + size <= self._ends[number]:
            return
        starts, ends = (np.array([0, *edges], dtype=np.uint64) for edges in (self._starts, self._ends))
        number = np.searchsorted(starts, addresses, side="right") - 1
        outside = int((addresses + np.uint64(size) > ends[number]).sum())
        if outside:
            verb = {"load": "reads", "store": "writes", "atomic": "updates"}[what]
            line = author_line()[1]
            raise KernelFault(
                f"line {line}: program {self.program} {verb} {outside} of {addresses.size} elements outside every "
                f"argument of the launch, so it was stopped there. profile_triton names the tensor and carries on."
            )


def _tensors(values):
    """Yield the tensors among a launch's arguments: plain, wrapped, in a descriptor, in a tuple."""
    for value in values:
        if isinstance(value, tuple):
            yield from _tensors(value)
        elif hasattr(value, "untyped_storage"):
            yield value
        elif hasattr(getattr(value, "base", None), "untyped_storage"):
            yield value.base
