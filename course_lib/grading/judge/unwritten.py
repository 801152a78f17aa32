"""Elements that an answer never wrote: which rows or columns, and the question that this raises.

May import: report.verdict.
"""

from ..report.verdict import Diagnosis


def unwritten(evidence):
    """A Diagnosis for elements that still hold both poisons, or None."""
    explain = evidence.exercise.explain_unwritten
    for case in evidence.failing():
        for name in case.comparisons:
            left = case.unwritten(name)
            if left is not None and left.any():
                own = explain(case, name) if explain is not None else None
                return own or _say_unwritten(case, name, left)
    return None


def _say_unwritten(case, name, left):
    count, total = int(left.sum()), left.numel()
    where = f"{name}, {' x '.join(str(size) for size in left.shape)}, case {case.case.name!r}"
    if count == total:
        return Diagnosis("unwritten", f"Nothing was written to the output {where}: did the kernel reach its stores?")
    rows = left.reshape(-1, left.shape[-1]) if left.dim() > 1 else left.reshape(-1, 1)
    whole_rows, whole_columns = rows.all(dim=1), rows.all(dim=0)
    if left.dim() == 1 or bool((rows == whole_rows[:, None]).all()):
        word = "element" if left.dim() == 1 and "num_rows" not in case.case.sizes else "row"
        what = f"{_named(word, whole_rows)} never written"
        first = int(whole_rows.nonzero()[0])
        why = f"which thread of which block takes {word} {first}, and does it reach its store?"
    elif bool((rows == whole_columns[None, :]).all()):
        what = f"in every row, {_named('column', whole_columns)} never written"
        first = int(whole_columns.nonzero()[0])
        why = f"which thread or program takes column {first}, by the stride of its loop or by its tile?"
    else:
        row = int(rows.any(dim=1).nonzero()[0])
        columns = runs_of(rows[row].nonzero().flatten().tolist())
        what = f"{count} of {total} elements were never written, first in row {row}, columns {columns}"
        why = "which elements does no thread own?"
    if bool((case.ref[name][left] == 0).all()):
        why = "each of them should be 0, and a 0 has to be written as well"
    return Diagnosis("unwritten", f"In the output {where}, {what}: {sentence(why)}")


def _named(word, mask):
    """ "row 3 was", "rows 3 to 5 were"."""
    numbers = mask.nonzero().flatten().tolist()
    return f"{word} {numbers[0]} was" if len(numbers) == 1 else f"{word}s {runs_of(numbers)} were"


def runs_of(numbers, limit=3):
    """[4, 5, 6, 9] -> "4 to 6, 9"; at most `limit` runs, then "and more"."""
    runs = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [str(a) if a == b else f"{a} to {b}" for a, b in runs[:limit]]
    return ", ".join(words) + (" and more" if len(runs) > limit else "")


def sentence(text):
    """The text, with a full stop at its end."""
    text = text.strip()
    return text if text.endswith((".", "?")) else text + "."
