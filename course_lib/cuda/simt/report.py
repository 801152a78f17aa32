"""The report of one launch on the SIMT machine: findings, and traffic by source line.

May import: by_kind.
"""

import html
from dataclasses import dataclass, field

from ...by_kind import FindingsByKind

# The order is that of Kind in runtime/findings.h.
KINDS = (
    "race",
    "out_of_bounds",
    "misaligned",
    "uninitialised_read",
    "divergent_barrier",
    "deadlock",
    "step_limit",
    "bad_shuffle",
    "stack_overflow",
    "trap",
    "missing_fence",
    "bad_barrier",
    "bad_copy",
    "bad_registers",
    "in_flight",
    "bad_wgmma",
    "const_write",
    "remark",
)


# The order is that of EventKind in runtime/timeline.h.
EVENTS = ("mbarrier_wait", "barrier_wait", "wgmma_wait", "tma_load", "tma_store", "wgmma")


@dataclass(frozen=True)
class Event:
    """One wait of a warp, or one asynchronous operation that a warp issued; see Report.timeline.

    block : int, linear; warp : int, of the block; kind : str, one of EVENTS; start, end : int, logical time;
    line : int or None, the author's, also for an operation of kernels_cu/common that it calls
    barrier, parity : int or None, of a wait for an mbarrier: its number in the block, in the order of initialisation,
        and the parity waited for
    thread, shared_offset : int or None, of a TMA load: the thread of the block that issued it, linear, and its first
        byte, from the start of the block's shared memory
    """

    block: int
    warp: int
    kind: str
    start: int
    end: int
    line: int | None
    barrier: int | None = None
    parity: int | None = None
    thread: int | None = None
    shared_offset: int | None = None


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a kernel.

    Attributes
    ----------
    kind : str, one of KINDS
    line : int or None, in the author's numbering
    message : str, one sentence
    other_line : int or None, of the other access of a race, of the other barrier of a divergence
    space : str or None, "shared" or "global"
    count : int, how often it was seen
    thread, block : tuple of 3 ints, the first example
    file, other_file : str, the file of `line` and of `other_line` when it is not the kernel's own
    call_line, other_call_line : int or None, the author's line from which that file's code was called
    """

    kind: str
    line: int | None
    message: str
    other_line: int | None = None
    space: str | None = None
    count: int = 1
    thread: tuple = (0, 0, 0)
    block: tuple = (0, 0, 0)
    file: str = ""
    other_file: str = ""
    call_line: int | None = None
    other_call_line: int | None = None

    def __str__(self):
        return self.message


@dataclass
class GlobalTraffic:
    """Global loads or stores of a launch.

    requests : warp instructions; sectors : 32-byte sectors they touch; bytes : sum over the lanes of what each
    requests; ideal_sectors : the fewest sectors that the distinct bytes of each request fit in
    """

    requests: int = 0
    sectors: int = 0
    bytes: int = 0
    ideal_sectors: int = 0


@dataclass
class SharedTraffic:
    """Shared loads or stores of a launch.

    requests : warp instructions; wavefronts : passes through the 32 banks; conflicts : wavefronts beyond the
    unavoidable; bytes : sum over the lanes of what each requests. A wgmma is one request with the bytes of its operands
    in shared memory, a bulk copy one with the bytes of its box, both without wavefronts
    """

    requests: int = 0
    wavefronts: int = 0
    conflicts: int = 0
    bytes: int = 0


@dataclass
class Line:
    """The traffic of one source line."""

    line: int | None
    file: str = ""
    global_load: GlobalTraffic = field(default_factory=GlobalTraffic)
    global_store: GlobalTraffic = field(default_factory=GlobalTraffic)
    shared_load: SharedTraffic = field(default_factory=SharedTraffic)
    shared_store: SharedTraffic = field(default_factory=SharedTraffic)
    atomics: int = 0  # warp instructions


TRAFFIC = ("global_load", "global_store", "shared_load", "shared_store")
MMA_TYPES = ("f32_f16", "f32_bf16", "f16_f16")  # of the sums, and of a and b; the order of simt_count_mma's `kind`


@dataclass
class Report(FindingsByKind, Line):
    """The whole launch: traffic in total and by line, and the findings.

    Attributes
    ----------
    global_load, global_store : GlobalTraffic
    shared_load, shared_store : SharedTraffic
    lines : dict, line -> Line
    findings : list of Finding, and by kind: races, out_of_bounds, uninitialised_reads, misaligned, divergent_barriers
    largest_share : dict, each name of TRAFFIC -> the most bytes that one thread moves itself: without atomics, bulk
        copies and wgmma
    mma : dict, each name of MMA_TYPES -> warp instructions mma.m16n8k16; those of wmma and wgmma are not among them
    exact : bool; False when a launch was so long that some requests were counted in two parts
    printed : str, what the kernel printed
    remarks : list of str, what is unusual and not wrong
    timeline : list of Event, when it was asked for. Time is logical: the basic blocks that a thread executed; a wait
        ends no earlier than what it waits for. A bulk load is taken to last 32, and 1 for every 512 bytes;
        a wgmma n / 8, those of a warpgroup one after the other. A wgmma_wait is listed before the products it covers
    """

    line: int | None = None
    kernel: str = ""
    schedule: str = "forward"
    lines: dict = field(default_factory=dict)
    findings: list = field(default_factory=list)
    largest_share: dict = field(default_factory=dict)
    mma: dict = field(default_factory=dict)
    exact: bool = True
    printed: str = ""
    remarks: list = field(default_factory=list)
    timeline: list = field(default_factory=list)

    def ledger(self):
        """Totals and lines as a plain dict of strings and ints."""
        totals = {name: vars(getattr(self, name)).copy() for name in TRAFFIC}
        lines = {
            str(key): {name: vars(getattr(line, name)).copy() for name in TRAFFIC if getattr(line, name).requests}
            for key, line in self.lines.items()
        }
        counts = {"atomics": self.atomics, "largest_share": self.largest_share, "mma": self.mma}
        return totals | counts | {"lines": lines}

    def rows(self):
        """Table rows of strings, header first."""
        rows = [("line", "access", "requests", "bytes", "sectors", "ideal", "wavefronts", "conflicts")]
        for line in [*sorted(self.lines.values(), key=lambda one: one.line or 0), self]:
            label = "all" if line is self else str(line.line or "?")
            for name in TRAFFIC:
                one = getattr(line, name)
                if not one.requests:
                    continue
                if name.startswith("global"):
                    numbers = (one.requests, one.bytes, one.sectors, one.ideal_sectors, "", "")
                else:
                    numbers = (one.requests, one.bytes, "", "", one.wavefronts, one.conflicts)
                rows.append((label, name.replace("_", " "), *(f"{n:,}" if n != "" else "" for n in numbers)))
            if line.atomics:
                rows.append((label, "atomic", f"{line.atomics:,}", "", "", "", "", ""))
        return rows

    def __str__(self):
        rows = self.rows()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        table = [
            " ".join(
                cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        verdict = "no findings" if self.ok else f"{len(self.findings)} finding(s)"
        findings = [f"  {finding.kind.replace('_', ' ')}: {finding.message}" for finding in self.findings]
        return "\n".join([f"{self.kernel}, schedule {self.schedule}: {verdict}", *findings, *table])

    def _repr_html_(self):
        rows = self.rows()
        head = " ".join(_aligned("th", rows[0]))
        body = "\n".join(f"<tr>{' '.join(_aligned('td', row))}</tr>" for row in rows[1:])
        findings = "\n".join(
            f"<li><b>{finding.kind.replace('_', ' ')}</b>: {html.escape(finding.message)}</li>"
            for finding in self.findings
        )
        verdict = "No findings." if self.ok else f"{len(self.findings)} finding(s): <ul>{findings}</ul>"
        return (
            f"<div><b>{html.escape(self.kernel)}</b>, schedule {self.schedule}. {verdict}\n"
            f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
        )


def _aligned(tag, row):
    """The cells of a row as HTML: line and access on the left, numbers on the right."""
    sides = ["left", "left", *["right"] * (len(row) - 2)]
    cells = zip(row, sides, strict=True)
    return [f"<{tag} style='text-align:{side}'>{html.escape(cell)}</{tag}>" for cell, side in cells]
