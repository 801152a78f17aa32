"""The listings a, b and c as data: numbered instructions, and the loop over tiles of keys."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Listing:
    """Instructions by number, and the part from the first label of a loop with products to its branch back."""

    code: dict
    loop: dict

    def count(self, pattern, *, loop=True):
        """How many instructions of the loop (or of the listing) the pattern matches."""
        return len(self.lines(pattern, loop=loop))

    def lines(self, pattern, *, loop=True):
        """The numbers of those instructions, in order."""
        return [number for number, text in (self.loop if loop else self.code).items() if re.search(pattern, text)]


def read(name):
    """The Listing in `name`.sass.

    Parameters
    ----------
    name : str, "a", "b" or "c"
    """
    code, loop, label = {}, {}, None
    for line in (Path(__file__).parent / f"{name}.sass").read_text(encoding="utf-8").splitlines():
        if line.endswith(":"):
            label = line[:-1]
        if not (found := re.match(r"\s*(\d+): (.*)", line)):
            continue
        code[int(found[1])] = found[2]
        if label is not None and not loop.get("done"):
            loop[int(found[1])] = found[2]
            if label in found[2]:
                loop["done"] = True
    loop.pop("done", None)
    return Listing(code, loop)


def shape(text):
    """(m, n, k) of an HGMMA."""
    return tuple(map(int, re.search(r"HGMMA\.(\d+)x(\d+)x(\d+)", text).groups()))
