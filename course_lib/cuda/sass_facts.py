"""What shows in the machine code whether Hopper's units are used: counts of wgmma, TMA, setmaxnreg, mbarrier.

Counted in the listing of nvdisasm (sass.py says where it comes from); registers and spills are ptxas's. An unrolled
loop holds copies of an instruction, and a loop executes one many times: these are instructions, not executions.

May import: sass.
"""

import re
from collections import Counter
from dataclasses import dataclass

from .sass import AsCompiled

# as nvdisasm begins an instruction -> what it is
COUNTED = {
    "HGMMA": "wgmma of 16-bit types",
    "QGMMA": "wgmma of 8-bit types",
    "WARPGROUP.ARRIVE": "wgmma.fence; before each wgmma when they run one after another",
    "UTMALDG": "TMA load of a tensor map's box",
    "UTMASTG": "TMA store of a tensor map's box",
    "USETMAXREG": "setmaxnreg",
    "SYNCS": "mbarrier",
}


@dataclass(frozen=True)
class Facts:
    """What a kernel's machine code shows.

    Attributes
    ----------
    name, arch : str
    registers : int, a thread
    spill_bytes : int, a thread, stores and loads together
    counts : dict of a name in COUNTED to a number of instructions
    """

    name: str
    arch: str
    registers: int
    spill_bytes: int
    counts: dict

    @property
    def is_serialised(self):
        """True when each of several wgmmas has a WARPGROUP.ARRIVE of its own, so that none overlap."""
        products = self.counts["HGMMA"] + self.counts["QGMMA"]
        return products > 1 and self.counts["WARPGROUP.ARRIVE"] >= products

    def row(self):
        """The facts as columns of a result: {"registers": 168, "spill_bytes": 0, "HGMMA": 32, …}."""
        return {"registers": self.registers, "spill_bytes": self.spill_bytes, **self.counts}


def opcode_counts(compiled: AsCompiled, *names: str) -> dict:
    """{name: how many instructions of the machine code have this opcode}, without modifiers: "R2UR", "IMAD"."""
    lines = (line.split() for line in compiled.machine_instructions())
    found = Counter(words[words[0].startswith("@")].split(".")[0] for words in lines)
    return {name: found[name] for name in names}


def facts(compiled: AsCompiled) -> Facts:
    """Count what `kernel.as_compiled("sm_90a")` holds of COUNTED.

    Parameters
    ----------
    compiled : AsCompiled

    Returns
    -------
    facts : Facts
    """
    found = Counter()
    for instruction in compiled.machine_instructions():
        opcode = re.sub(r"^@!?U?P\w+ ", "", instruction)  # without its predicate
        found.update(name for name in COUNTED if re.match(rf"{re.escape(name)}(?![A-Z0-9])", opcode))
    counts = {name: found[name] for name in COUNTED}
    return Facts(compiled.name, compiled.arch, compiled.registers, compiled.spill_bytes, counts)
