"""Accesses as written (counted by the SIMT machine) beside accesses as compiled (read from the machine code).

May import: nothing of the course; both sides are plain data.
"""

import html
from dataclasses import dataclass
from pathlib import Path

_SPACES = ("global", "shared")
_KINDS = ("load", "store")


@dataclass(frozen=True)
class Comparison:
    """As written and as compiled, by source line.

    Attributes
    ----------
    head : str, kernel, architecture, registers, shared memory, spills
    rows : tuple of (line, access, as written, as compiled, remark), all str
    """

    head: str
    rows: tuple

    HEADER = ("line", "access", "as written", "as compiled", "remark")

    def __str__(self):
        rows = [self.HEADER, *self.rows]
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.HEADER))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([self.head, *lines])

    def _repr_html_(self):
        head = " ".join(f"<th scope='col' style='text-align:left'>{html.escape(cell)}</th>" for cell in self.HEADER)
        body = "\n".join(
            "<tr>" + " ".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        caption = f"<caption style='text-align:left'>{html.escape(self.head)}</caption>"
        return f"<table>{caption}\n<tr>{head}</tr>\n{body}</table>"


def compare(report, compiled):
    """Compare as written with as compiled: one row for every line and kind of access that either side has.

    Parameters
    ----------
    report : Report of ``kernel.profile``
    compiled : AsCompiled of ``kernel.as_compiled``

    Returns
    -------
    comparison : Comparison; prints as a table
    """
    written, machine = _written(report), _machine(compiled)
    rows = []
    for key in sorted(written.keys() | machine.keys()):
        label, space, kind = key
        rows.append(
            (
                str(label[1]) if not label[0] else f"{label[0]}:{label[1]}",
                f"{space} {kind}",
                _written_text(written.get(key)),
                _machine_text(machine.get(key)),
                _remark(written.get(key), machine.get(key)),
            )
        )
    head = (
        f"{compiled.name} on {compiled.arch}: {compiled.registers} registers, {compiled.shared_bytes} bytes of shared "
        f"memory, {compiled.spill_bytes} bytes spilled"
    )
    return Comparison(head, tuple(rows))


def _written(report):
    """Return {((file or "", line), space, kind): traffic} of the lines of a report that have any."""
    traffic_of = {}
    for key, line in report.lines.items():
        label = (str(key).rpartition(":")[0], line.line or 0)
        for space in _SPACES:
            for kind in _KINDS:
                traffic = getattr(line, f"{space}_{kind}")
                if traffic.requests:
                    traffic_of[label, space, kind] = traffic
    return traffic_of


def _machine(compiled):
    """Return {the same keys: list of Access}; bulk and matrix copies, atomics and spills keep their own kind."""
    accesses_of = {}
    for access in compiled.accesses:
        label = ("" if access.file == compiled.filename else Path(access.file).name, access.line)
        accesses_of.setdefault((label, access.space, access.kind), []).append(access)
    return accesses_of


def _written_text(traffic):
    """Requests and bytes of one line."""
    return f"{traffic.requests:,} request{'s' * (traffic.requests != 1)}, {traffic.bytes:,} bytes" if traffic else "-"


def _machine_text(accesses):
    """Instructions of one line: "5 x LDG.E"."""
    return ", ".join(f"{access.count} x {access.opcode}" for access in accesses) if accesses else "-"


def _remark(traffic, accesses):
    """Say what the compiler did, as far as the two sides show it."""
    if not accesses:
        return "not in the machine code: kept in a register, or done at another line"
    if not traffic:
        return "only in the machine code" if accesses[0].space != "local" else "registers spilled to local memory"
    widest = max(access.bytes for access in accesses)
    remarks = []
    if widest > 4 and 32 * widest > traffic.bytes / traffic.requests:
        each = traffic.bytes / traffic.requests
        remarks.append(f"a warp moves up to {32 * widest} bytes at once, as written {each:.0f}")
    copies = sum(access.count for access in accesses)
    if copies > 1:
        remarks.append(f"{copies} copies: unrolled, or one each side of a branch")
    return "; ".join(remarks)
