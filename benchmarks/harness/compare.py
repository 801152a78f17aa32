"""New rows beside stored ones.

May import: the standard library, rows.
"""

from dataclasses import dataclass

from .rows import in_words

NOISE_PERCENT = 3.0


@dataclass(frozen=True)
class Change:
    """One measured value of one row, then and now; `old` is None where no such row is stored."""

    row: str
    column: str
    old: float | None
    new: float

    @property
    def ratio(self):
        """new / old; None where there is no old value, or where it is 0 and the new one is not."""
        if self.old == self.new:
            return 1.0
        return self.new / self.old if self.old else None

    def verdict(self, noise_percent=NOISE_PERCENT):
        """ "same", "slower", "faster" (of times), "more", "less" (of all else) or "new"."""
        if self.old is None:
            return "new"
        is_time = self.column.endswith(("_us", "_ms"))
        if self.ratio is not None and abs(self.ratio - 1) <= noise_percent / 100:
            return "same"
        if self.new > self.old:
            return "slower" if is_time else "more"
        return "faster" if is_time else "less"


def changes(keys, columns, new, old):
    """[Change] of every number in these columns of the new rows, in order.

    Parameters
    ----------
    keys : tuple of str, the columns that identify a row
    columns : tuple of str, the values to compare
    new, old : list of dict of str
    """

    def name(row):
        return tuple(row.get(key) or "" for key in keys)

    stored = {name(row): row for row in old}
    found = []
    for row in new:
        before = stored.get(name(row), {})
        words = in_words({key: row[key] for key in keys if row.get(key)})
        for column in columns:
            if row.get(column):
                was = before.get(column)
                found.append(Change(words, column, float(was) if was else None, float(row[column])))
    return found


def report(found, noise_percent=NOISE_PERCENT):
    """The changes as text: a line each, the differences beyond the noise marked, and a summary."""
    lines, counts = [], {}
    for change in found:
        verdict = change.verdict(noise_percent)
        counts[verdict] = counts.get(verdict, 0) + 1
        mark = "" if verdict == "same" else verdict
        was = "-" if change.old is None else f"{change.old:g}"
        ratio = "" if change.old is None or change.ratio is None else f"{change.ratio:.3f}"
        lines.append(f"{mark:<7} {ratio:>6}  {was:>12} -> {change.new:<12g} {change.column:<10} {change.row}")
    total = ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "nothing to compare"
    return "\n".join([*lines, f"{total} (same: within {noise_percent:g} %)"])
