"""Read benchmarks/results/<device>/<family>.csv, the only home of performance numbers.

May import: the standard library, notation, tables.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from ..notation import number_or_text
from .tables import Table

RESULTS_ROOT = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


@dataclass(frozen=True)
class Results:
    """Rows of one results file, each a dict with numbers as numbers.

    Attributes
    ----------
    device, family : str, the folder and the file's stem
    rows : tuple of dict; empty when nothing is stored
    """

    device: str
    family: str
    rows: tuple = ()

    def __bool__(self):
        return bool(self.rows)

    def where(self, **wanted):
        """The rows that have exactly these values, e.g. ``where(num_cols=4096)``."""
        kept = tuple(row for row in self.rows if all(row.get(key) == value for key, value in wanted.items()))
        return Results(self.device, self.family, kept)

    def spoken(self):
        """The same rows, their variants by speaking names: "06_lazy_rescale" -> "lazy rescale"."""
        rows = tuple(row | {"variant": spoken(row["variant"])} for row in self.rows)
        return Results(self.device, self.family, rows)

    def table(self, *columns):
        """A Table of the named columns, or one that says that nothing is stored.

        Raises
        ------
        KeyError  the file has no such column; the message lists its columns
        """
        if not self.rows:
            return Table(("stored results",), ((self.missing(),),))
        unknown = [column for column in columns if column not in self.rows[0]]
        if unknown:
            raise KeyError(f"{self.family}.csv has no column {', '.join(unknown)}; it has {', '.join(self.rows[0])}")
        return Table(columns, tuple(tuple(row.get(column) for column in columns) for row in self.rows))

    def pairs(self, x, y):
        """[(row[x], row[y])] of the rows that have both."""
        return [(row[x], row[y]) for row in self.rows if row.get(x) is not None and row.get(y) is not None]

    def series(self, chosen, *, x, y):
        """Curves for a line chart.

        Parameters
        ----------
        chosen : sequence of (variant, language)
        x, y : str, columns

        Returns
        -------
        dict, name -> [(row[x], row[y])]; the name is "variant, language", or the variant when it contains the language
        """
        names = [variant if language in variant else f"{variant}, {language}" for variant, language in chosen]
        return {
            name: self.where(variant=variant, language=language).pairs(x, y)
            for name, (variant, language) in zip(names, chosen, strict=True)
        }

    def speedup(self, old, new, *, per, time):
        """A Table of two variants, by their speaking names, and old / new, one row for each `per` that both have.

        Parameters
        ----------
        old, new : str, values of the column "variant"
        per : tuple of str, the columns that identify a row
        time : str, the column to compare; less is better
        """

        def times(variant):
            rows = self.where(variant=variant).rows
            return {tuple(row[key] for key in per): row[time] for row in rows if row[time] is not None}

        before, after = times(old), times(new)
        if not before.keys() & after.keys():
            return Table(("stored results",), ((self.missing(),),))
        rows = tuple(
            (*key, before[key], after[key], round(before[key] / after[key], 2))
            for key in sorted(before)
            if key in after
        )
        return Table((*per, f"{spoken(old)}, {time}", f"{spoken(new)}, {time}", "speed-up"), rows)

    def missing(self):
        """One sentence that says which file has no such rows."""
        path = f"benchmarks/results/{self.device}/{self.family}.csv"
        return f"{path} holds no such rows yet; no number is shown in their place."


_ACRONYMS = ("fp8", "tma")  # as words of a file's name


def spoken(variant):
    """The name of a step without its family and number: "flash_attention_2/06_lazy_rescale" -> "lazy rescale"."""
    stem = variant.rpartition("/")[2]
    number, _, name = stem.partition("_")
    words = (name if number.isdigit() else stem).split("_")
    return " ".join(word.upper() if word in _ACRONYMS else word for word in words)


def read_results(device, family, *, root=RESULTS_ROOT):
    """The stored rows of a kernel family on a device.

    Parameters
    ----------
    device : str, folder name, "h200"
    family : str, file stem, "softmax"

    Returns
    -------
    results : Results; empty (falsy) when the file does not exist. Lines starting with # are comments.
    """
    path = Path(root) / device / f"{family}.csv"
    if not path.is_file():
        return Results(device, family)
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(line for line in file if not line.startswith("#"))
        rows = tuple({key: _number(value) for key, value in row.items()} for row in reader)
    return Results(device, family, rows)


def _number(text):
    """Parse a cell: "128" -> 128, "0.5" -> 0.5, "" -> None, other text unchanged."""
    if text is None or text == "":
        return None
    return number_or_text(text)
