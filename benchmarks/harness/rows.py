"""Rows of numbers as CSV files.

May import: the standard library.
"""

import contextlib
import csv


@contextlib.contextmanager
def stored(path, head, columns):
    """A context that gives function(row), which appends a row to a new CSV file and flushes it.

    Parameters
    ----------
    path : Path, or None to store nothing
    head : list of str, comment lines of the file, without their "# "
    columns : list of str
    """
    if path is None:
        yield lambda row: None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in head)
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()

        def write(row):
            writer.writerow(row)
            file.flush()

        yield write


def read(path):
    """The rows of a CSV file as dicts of str, without its comment lines; none when there is no such file."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def microseconds(timing, digits=1):
    """Columns median_us, low_us and high_us of a measure.Timing."""
    values = {"median_us": timing.median_ms, "low_us": timing.low_ms, "high_us": timing.high_ms}
    return {column: f"{ms * 1e3:.{digits}f}" for column, ms in values.items()}


def in_words(columns):
    """{"num_heads": 32, "causal": 1} -> "num_heads=32 causal=1"."""
    return " ".join(f"{name}={value}" for name, value in columns.items())
