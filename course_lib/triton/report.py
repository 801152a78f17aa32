"""The report of recorded Triton launches: traffic by source line, findings, remarks; as data, text and HTML.

May import: by_kind, notation.
"""

import html
import linecache
from dataclasses import asdict, dataclass, field

from ..by_kind import FindingsByKind
from ..notation import SECTOR_BYTES

_COLUMNS = ("count", "elements", "bytes", "sectors", "ideal")


@dataclass
class Traffic:
    """Global memory traffic of tl.load, of tl.store, or of atomics. Masked lanes are not in it.

    Attributes
    ----------
    count : int, tl.load (tl.store, atomic) operations executed by all programs
    elements : int, elements they touched, repeats counted
    bytes : int, the bytes of these elements
    sectors : int, distinct 32-byte sectors of each operation, summed: a GPU moves whole sectors. Two operations that
        touch one sector count it twice, without regard to caches
    """

    count: int = 0
    elements: int = 0
    bytes: int = 0
    sectors: int = 0
    ideal_sectors: int = 0  # the fewest sectors that hold as many bytes, operation by operation

    @property
    def requests(self):
        """`count`, under the name of the CUDA report, where a request is made by a warp instead of a program."""
        return self.count

    def add(self, elements, nbytes, sectors):
        self.count += 1
        self.elements += elements
        self.bytes += nbytes
        self.sectors += sectors
        self.ideal_sectors += -(-nbytes // SECTOR_BYTES)

    def numbers(self):
        return self.count, self.elements, self.bytes, self.sectors, self.ideal_sectors

    def to_dict(self):
        count, elements, nbytes, sectors, ideal = self.numbers()
        return {"requests": count, "elements": elements, "bytes": nbytes, "sectors": sectors, "ideal_sectors": ideal}


@dataclass
class Line:
    """One source line of the author, with its traffic."""

    filename: str
    line: int
    load: Traffic = field(default_factory=Traffic)
    store: Traffic = field(default_factory=Traffic)
    atomic: Traffic = field(default_factory=Traffic)

    @property
    def text(self):
        return linecache.getline(self.filename, self.line).strip()

    def traffic(self):
        """Return pairs (kind, Traffic) of the kinds of access on this line."""
        pairs = (("load", self.load), ("store", self.store), ("atomic", self.atomic))
        return [(kind, traffic) for kind, traffic in pairs if traffic.count]


@dataclass
class Dot:
    """The tl.dot operations of one source line that have the same types and shape.

    Attributes
    ----------
    filename, line : of the author's tl.dot
    lhs, rhs, accumulator : str, Triton's names of their types, such as "fp16" and "fp32"; accumulator: in which the
        products are added up, given (`acc`) or not
    input_precision : str, "ieee", "tf32" or "tf32x3"; it concerns operands of type fp32 only, where "tf32" is what a
        tl.dot has that says nothing
    shape : tuple of int, (M, N, K), with a batch axis first if the operands have one
    count : int, executed by all programs
    """

    filename: str
    line: int
    lhs: str
    rhs: str
    accumulator: str
    input_precision: str
    shape: tuple
    count: int = 0


@dataclass(frozen=True)
class Finding:
    """An error, or something that may be one on a GPU.

    Attributes
    ----------
    kind : "out_of_bounds", "misaligned", "race" or "uninitialised_read"
    line : int, line in the author's file
    message : str, one sentence
    other_line : int or None, of the other access of a race
    space : always "global": Triton's programs share nothing else
    tensor : str, the parameter's name; empty when the address belongs to no argument
    program : tuple of int, program id of the first occurrence
    count : int, how many elements
    filename : str
    """

    kind: str
    line: int
    message: str
    other_line: int | None = None
    space: str = "global"
    tensor: str = ""
    program: tuple = ()
    count: int = 0
    filename: str = ""


@dataclass
class TritonReport(FindingsByKind):
    """Global memory traffic and findings of one launch, or of all launches inside one ledger."""

    kernel: str = ""
    grid: tuple = ()
    schedule: str = "forward"
    programs: int = 0
    launches: int = 0
    load: Traffic = field(default_factory=Traffic)
    store: Traffic = field(default_factory=Traffic)
    atomic: Traffic = field(default_factory=Traffic)
    largest_share: dict = field(default_factory=lambda: {"global_load": 0, "global_store": 0})  # bytes of one program
    lines: list = field(default_factory=list)  # of Line, in order of the source
    dots: list = field(default_factory=list)  # of Dot, in order of the source
    undefined_loads: list = field(default_factory=list)  # [line, elements]: masked, of a tl.load without `other`
    findings: list = field(default_factory=list)  # of Finding
    remarks: list = field(default_factory=list)  # not errors on the interpreter, but different on a GPU

    @property
    def global_load(self):
        return self.load

    @property
    def global_store(self):
        return self.store

    def ledger(self):
        """Return the numbers as plain data that JSON can hold, with the keys of the CUDA report."""
        return {
            "global_load": self.load.to_dict(),
            "global_store": self.store.to_dict(),
            "global_atomic": self.atomic.to_dict(),
            "largest_share": self.largest_share,
            "lines": [
                {"line": line.line, "filename": line.filename, "text": line.text, "kind": kind, **traffic.to_dict()}
                for line in self.lines
                for kind, traffic in line.traffic()
            ],
            "dots": [{**asdict(dot), "shape": list(dot.shape)} for dot in self.dots],
            "undefined_loads": self.undefined_loads,
        }

    def to_dict(self):
        """Return everything as plain data, to send between processes; `from_dict` restores the report."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data):
        made = cls(**data)
        made.load, made.store, made.atomic = (Traffic(**data[kind]) for kind in ("load", "store", "atomic"))
        made.lines = [
            Line(d["filename"], d["line"], Traffic(**d["load"]), Traffic(**d["store"]), Traffic(**d["atomic"]))
            for d in data["lines"]
        ]
        made.dots = [Dot(**{**d, "shape": tuple(d["shape"])}) for d in data["dots"]]
        made.findings = [Finding(**{**d, "program": tuple(d["program"])}) for d in data["findings"]]
        made.grid = tuple(data["grid"])
        return made

    def _rows(self):
        total = (("load", self.load), ("store", self.store), ("atomic", self.atomic))
        rows = [("all", kind, traffic, "") for kind, traffic in total if traffic.count or kind != "atomic"]
        return rows + [(str(li.line), kind, traffic, li.text) for li in self.lines for kind, traffic in li.traffic()]

    def _title(self):
        grid = " x ".join(map(str, self.grid))
        launches = "" if self.launches == 1 else f" in {self.launches} launches"
        return f"{self.kernel or 'Triton'}: {self.programs} programs{launches}, grid {grid}, {self.schedule} order"

    def _notes(self):
        notes = [f"{finding.kind.replace('_', ' ')}: {finding.message}" for finding in self.findings]
        return notes + [f"remark: {remark}" for remark in self.remarks] or ["no findings"]

    def __str__(self):
        lines = [self._title(), f"{'line':>5} {'what':<7}" + "".join(f"{name:>13}" for name in _COLUMNS)]
        for where, kind, traffic, text in self._rows():
            numbers = "".join(f"{n:>13,}" for n in traffic.numbers())
            lines.append(f"{where:>5} {kind:<7}{numbers}  {text}".rstrip())
        return "\n".join([*lines, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self):
        head = " ".join(f"<th>{name}</th>" for name in ("line", "what", *_COLUMNS, "source"))
        body = "\n".join(
            f"<tr><td>{where}</td> <td>{kind}</td> "
            + " ".join(f"<td style='text-align:right'>{n:,}</td>" for n in traffic.numbers())
            + f" <td style='text-align:left'><code>{html.escape(text)}</code></td></tr>"
            for where, kind, traffic, text in self._rows()
        )
        notes = "\n".join(f"<li>{html.escape(note)}</li>" for note in self._notes())
        return (
            f"<div><p><b>{html.escape(self._title())}</b></p>\n<table><caption style='text-align:left'>"
            f"Global memory traffic; ideal: the fewest sectors of {SECTOR_BYTES} bytes that hold the bytes</caption>\n"
            f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>\n<ul>{notes}</ul></div>"
        )
