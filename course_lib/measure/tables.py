"""Small tables that read well in a notebook (HTML), in a terminal and in a diff (text).

May import: the standard library, notation.
"""

import re
from dataclasses import dataclass
from html import escape

from ..notation import ITEMSIZE

_NUMBER = re.compile(r"[-+−]?[\d,]*\.?\d+(e[-+]?\d+)?( ?%)?")
WIDE = 90  # characters in a line: what fits beside the cell's number in a window of 1280 pixels


@dataclass(frozen=True)
class Table:
    """Columns and rows; columns of numbers are right-aligned, None is shown as a dash.

    Numbers are grouped by thousands; texts that read as numbers ("1.30") are shown as they are.

    Attributes
    ----------
    columns : tuple of str
    rows : tuple of tuples, each as long as `columns`
    caption : str, one line above the table; may be empty
    note : str, one line below the table; may be empty
    """

    columns: tuple
    rows: tuple
    caption: str = ""
    note: str = ""

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row has {len(row)} cells, the table has {len(self.columns)} columns: {row!r}")

    def __str__(self):
        cells = [tuple(map(str, self.columns)), *(tuple(map(format_cell, row)) for row in self.rows)]
        widths = [max(len(line[k]) for line in cells) for k in range(len(self.columns))]
        right = [self._is_numeric(k) for k in range(len(self.columns))]
        lines = []
        for line in cells:
            padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True))
            lines.append("  ".join(padded).rstrip())
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*([self.caption] if self.caption else []), *lines, *([self.note] if self.note else [])])

    __repr__ = __str__

    def _repr_html_(self):
        align = ["right" if self._is_numeric(k) else "left" for k in range(len(self.columns))]
        wide = len(str(self).splitlines()[bool(self.caption)]) > WIDE

        def line(tag, cells):
            return (
                "<tr>"
                + " ".join(
                    f'<{tag} style="text-align:{a}">{self._breakable(c) if wide else escape(c)}</{tag}>'
                    for c, a in zip(cells, align, strict=True)
                )
                + "</tr>"
            )

        body = "\n".join(line("td", map(format_cell, row)) for row in self.rows)
        caption = f'<caption style="text-align:left">{escape(self.caption)}</caption>\n' if self.caption else ""
        note = f"<p><small>{escape(self.note)}</small></p>" if self.note else ""
        head = f"<thead>{line('th', map(str, self.columns))}</thead>"
        return f"<table>\n{caption}{head}\n<tbody>{body}</tbody></table>\n{note}"

    @staticmethod
    def _breakable(text):
        """`text` as HTML with break opportunities after _ and /, so that a wide table shows its last column too.

        A unit such as tokens/s stays whole.
        """
        return re.sub(r"_|/(?=\w{3})", r"\g<0><wbr>", escape(text))

    def _is_numeric(self, column):
        cells = (row[column] for row in self.rows)
        return bool(self.rows) and all(cell is None or _is_number(cell) for cell in cells)


def _is_number(value):
    if isinstance(value, str):
        return bool(_NUMBER.fullmatch(value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_cell(value):
    """One cell as text: 1048576 -> "1,048,576", 0.4567 -> "0.457", None -> a dash, True -> "yes"."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def shape_table(**tensors):
    """A Table of name, shape, dtype and bytes of tensors, in the order given.

    Parameters
    ----------
    tensors : name=tensor; anything with ``shape`` and ``dtype`` (torch or numpy)
    """
    rows = []
    for name, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        count = 1
        for size in tensor.shape:
            count *= int(size)
        shape = " x ".join(str(int(size)) for size in tensor.shape) or "scalar"
        rows.append((name, shape, dtype, count * ITEMSIZE[dtype]))
    return Table(("name", "shape", "dtype", "bytes"), tuple(rows))


def traffic_table(formula, counted):
    """A Table of bytes by formula beside counted bytes, one row a kernel.

    Parameters
    ----------
    formula : dict, kernel -> bytes
    counted : dict, column title -> dict, kernel -> bytes (a missing kernel is shown as a dash)
    """
    rows = tuple(
        (kernel, expected, *(values.get(kernel) for values in counted.values())) for kernel, expected in formula.items()
    )
    return Table(("kernel", "bytes by formula", *counted), rows)
