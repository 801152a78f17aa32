"""The regions of a recorded launch by address: which one an access falls into, and in which of its cells.

May import: numpy.
"""

from bisect import bisect_right

import numpy as np


def _elements(count):
    return "1 element" if count == 1 else f"{count} elements"


class Space:
    """All regions of a launch, by address."""

    def __init__(self, regions):
        self.regions = sorted(regions, key=lambda region: region.base)
        self._first = np.array([r.base - r.red_zone for r in self.regions], dtype=np.uint64)
        self._last = np.array([r.base + r.nbytes + r.red_zone for r in self.regions], dtype=np.uint64)
        self._bases = [r.base for r in self.regions]
        self._ends = [r.base + r.nbytes for r in self.regions]

    def unwritten(self, addresses, size):
        """The region of addresses that all are elements of it, if this launch has not written it yet; else None."""
        if not len(addresses) or (region := self._only(addresses, size)) is None:
            return None
        if region.dirty or region.owner is not None or region.initialised is not None:
            return None
        region.refine(size)
        return region

    def find(self, addresses, size):
        """Sort addresses (uint64) into regions.

        Returns
        -------
        pieces : list of (Region, cells), cells int64; an access wider than a cell has all of its cells
        bad : bool array over `addresses`, or None when every address is an element of an argument
        """
        if not len(addresses):
            return [], None
        if (region := self._only(addresses, size)) is not None:
            region.refine(size)
            cells = region.cells(addresses)
            if region.owner is None or region.owner[cells].all():
                return [(region, region.wide(cells, size))], None
        zone = self._zone(addresses)
        bad, pieces = (addresses % np.uint64(size)).astype(bool), []
        for number in np.unique(zone):
            in_zone = zone == number
            if number < 0:
                bad |= in_zone
                continue
            region = self.regions[number]
            region.refine(size)
            cells, inside = self._cells(region, addresses[in_zone], size)
            bad[in_zone] |= ~inside
            good = cells[~bad[in_zone]]
            if len(good):
                pieces.append((region, region.wide(good, size)))
        return pieces, bad if bad.any() else None

    def _only(self, addresses, size):
        """The region that holds every address, as most accesses have one, all elements aligned; else None."""
        if len(addresses) == 1:
            low = high = bits = int(addresses[0])
        else:
            low, high = int(np.minimum.reduce(addresses)), int(np.maximum.reduce(addresses))
            bits = int(np.bitwise_or.reduce(addresses))
        number = bisect_right(self._bases, low) - 1
        if number < 0 or high + size > self._ends[number]:
            return None
        return None if bits & (size - 1) else self.regions[number]

    def explain(self, addresses, size):
        """Yield (tensor name, how many, "x (shape …): the first one is 3 elements past its end") for bad addresses."""
        zone = self._zone(addresses)
        for number in np.unique(zone):
            in_zone = addresses[zone == number]
            if number < 0:
                yield "", len(in_zone), f"every argument (the first address is {int(in_zone[0]):#x})"
                continue
            region = self.regions[number]
            first = int(in_zone[0]) - region.base
            if first < 0:
                position = f"the first one is {_elements(-first // size)} before its start"
            elif first >= region.nbytes:
                position = f"the first one is {_elements((first - region.nbytes) // size + 1)} past its end"
            else:
                position = "the first one lies between its rows"
            names = " and ".join(f"{a.name} ({a.shape_text})" for a in region.arguments)
            yield region.names, len(in_zone), f"{names}: {position}"

    def _zone(self, addresses):
        """Number of the region whose zone (red zones included) holds each address; -1: none."""
        if not self.regions:
            return np.full(len(addresses), -1)
        number = np.searchsorted(self._first, addresses, side="right").astype(np.int64) - 1
        return np.where(addresses < self._last[number], number, -1)

    @staticmethod
    def _cells(region, addresses, size):
        offset = addresses.astype(np.int64) - region.base
        inside = (offset >= 0) & (offset + size <= region.nbytes)
        cells = offset // region.cell_bytes
        if region.owner is not None:
            inside &= region.owner[np.clip(cells, 0, region.num_cells - 1)]
        return cells, inside
