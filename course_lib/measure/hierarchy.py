"""The levels of a GPU's memory: size, rate, latency, scope; each number from a source, or None for unknown.

Derived from the row of `device.KNOWN_GPUS`: the clock is the one at which the fp32 peak is reached; registers deliver
three operands and take one result of 4 bytes for each multiply-add; shared memory has 32 banks of 4 bytes in each SM.

May import: device, tables.
"""

from dataclasses import dataclass

from ..device import KNOWN_GPUS
from .tables import Table

BYTES_PER_FLOP = 8  # registers: 16 bytes for a multiply-add, which counts as 2 FLOP
BANK_BYTES_PER_CYCLE = 32 * 4  # of one SM
FP32_LANES = {(7, 5): 64, (8, 0): 64, (8, 9): 128, (9, 0): 128}  # an SM; architecture whitepapers
NAMES = ("registers", "shared memory / L1", "L2", "device memory", "host over PCIe")
SCOPES = ("one thread", "one block (L1: one SM)", "the whole GPU", "the whole GPU", "the computer")

_PCIE = {  # GB/s in one direction: generation x 16 lanes after encoding; PCI-SIG base specifications 3.0, 4.0, 5.0
    "A100": 31.5,
    "H100": 63.0,
    "H200": 63.0,
    "RTX 4090": 31.5,
    "T4": 15.75,
    "L4": 31.5,
}
_L2_BYTES_PER_CYCLE = {"A100": 5120}  # read; NVIDIA A100 architecture whitepaper. Others: not published
_HOPPER = (
    'W. Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024, arXiv:2402.13499, '
    "table IV: one thread, one load after the other (its Hopper card is an H800, its A100 the PCIe card)"
)
_LATENCY = {  # clock cycles of shared memory, L2, device memory
    "A100": ((29.0, 261.5, 466.3), _HOPPER),
    "H100": ((29.0, 263.0, 478.8), _HOPPER),
    "RTX 4090": ((30.1, 273.0, 541.5), _HOPPER),
}


@dataclass(frozen=True)
class Level:
    """One level of one card.

    Attributes
    ----------
    name, scope : str
    size_bytes : of the whole card, None for the host
    gbps : 10^9 bytes per second at best, of the whole card; None when unknown
    cycles : clock cycles from a load to its number; None when unknown
    """

    name: str
    scope: str
    size_bytes: int | None
    gbps: float | None
    cycles: float | None


def clock_ghz(gpu):
    """The clock at which a card of KNOWN_GPUS reaches its fp32 peak, 10^9 cycles per second."""
    return gpu.fp32_tflops * 1e3 / (2 * FP32_LANES[gpu.capability] * gpu.num_sms)


def memory_levels(key, *, l2_gbps=None):
    """The five levels of the card KNOWN_GPUS[key], nearest first.

    Parameters
    ----------
    key : str, "H100"
    l2_gbps : measured rate of L2 in 10^9 bytes per second, where none is published
    """
    gpu = KNOWN_GPUS[key]
    clock = clock_ghz(gpu)
    if key in _L2_BYTES_PER_CYCLE:
        l2_gbps = _L2_BYTES_PER_CYCLE[key] * clock
    sizes = (4 * gpu.registers_per_sm * gpu.num_sms, gpu.shared_bytes_per_sm * gpu.num_sms, gpu.l2_bytes)
    shared_gbps = BANK_BYTES_PER_CYCLE * gpu.num_sms * clock
    rates = (BYTES_PER_FLOP * gpu.fp32_tflops * 1e3, shared_gbps, l2_gbps, gpu.memory_gbps, _PCIE[key])
    waits = (None, *_LATENCY.get(key, ((None, None, None), ""))[0], None)
    return [Level(*row) for row in zip(NAMES, SCOPES, (*sizes, gpu.memory_bytes, None), rates, waits, strict=True)]


def levels_table(key, *, l2_gbps=None):
    """A Table of the levels of one card."""
    rows = tuple(
        (one.name, one.scope, _bytes(one.size_bytes), _rounded(one.gbps), one.cycles)
        for one in memory_levels(key, l2_gbps=l2_gbps)
    )
    latency = f"Latency: {_LATENCY[key][1]}." if key in _LATENCY else "Latency: unknown."
    note = f"Sizes and peaks: {KNOWN_GPUS[key].source}. {latency}"
    return Table(("level", "shared by", "size", "GB/s at best", "cycles"), rows, KNOWN_GPUS[key].name, note)


def steps_table(quantity, *, l2_gbps=None):
    """A Table of the ratio of each level to the one above it, for every known card.

    Parameters
    ----------
    quantity : "size" (times larger), "rate" (times fewer GB/s) or "wait" (times more cycles)
    l2_gbps : dict, key of KNOWN_GPUS -> measured rate of L2, or None
    """
    cards = {key: memory_levels(key, l2_gbps=(l2_gbps or {}).get(key)) for key in KNOWN_GPUS}
    rows = []
    for number in range(1, len(NAMES)):
        steps = (_step(quantity, levels[number - 1], levels[number]) for levels in cards.values())
        rows.append((f"{NAMES[number - 1]} to {NAMES[number]}", *steps))
    kept = tuple(row for row in rows if any(value is not None for value in row[1:]))
    what = {"size": "times larger", "rate": "times fewer GB/s", "wait": "times the cycles"}[quantity]
    return Table((f"one level down: {what}", *cards), kept, note="A dash: one of the two numbers is not known.")


def _step(quantity, above, below):
    """One ratio, or None when either number is unknown."""
    first, second = {
        "size": (below.size_bytes, above.size_bytes),
        "rate": (above.gbps, below.gbps),
        "wait": (below.cycles, above.cycles),
    }[quantity]
    return float(f"{first / second:.2g}") if first and second else None


def _rounded(value):
    return None if value is None else float(f"{value:.3g}")


def _bytes(value):
    """ "26.4 MiB", "141 GB" (device memories are sold in powers of ten)."""
    if value is None:
        return None
    return f"{value / 1e9:.0f} GB" if value >= 10**10 else f"{value / 2**20:.3g} MiB"
