"""The mistakes that rows which are not centred point to."""

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.limits import by_limit
from course_lib.grading.subjects.softmax.sums import near


def diagnose_centre(evidence):
    """Diagnosis of rows that are not centred, or None."""
    rows = evidence.readings.get("constant rows")
    if rows is None:
        return None
    if (found := _by_block(evidence)) is not None:
        return found
    first, cols = rows[0][0], len(rows[0])
    start = f"A row of {cols} ones minus its mean must be 0; here it is {first:.4g}"
    if near(first, 1.0 - cols):
        return Diagnosis("sum_not_divided", f"{start}: the sum was subtracted, not the mean.")
    if near(first, 1.0):
        return Diagnosis("mean_missing", f"{start}: nothing was subtracted.")
    if near(first, 2.0):
        return Diagnosis("wrong_sign", f"{start}: the mean was added.")
    if near(first, 1.0 - cols / 64) or near(first, 1.0 - cols / 128):
        return Diagnosis(
            "wrong_divisor", f"{start}: the sum was divided by the threads of the block instead of num_cols."
        )
    off = [row for row, values in enumerate(rows) if any(values)]
    if off:
        row = off[0]
        col = next(col for col, value in enumerate(rows[row]) if value)
        return Diagnosis(
            "wrong_mean",
            f"Row {row} holds {row + 1} everywhere, and the kernel subtracted "
            f"{row + 1 - rows[row][col]:.8g} in column {col}: not the mean of this row.",
        )
    return by_limit(evidence, num_cols="columns")


def _by_block(evidence):
    """Diagnosis when rows of equal numbers are wrong with one number of threads and right with the others, or None."""
    seen = {64: evidence.readings["constant rows"]}
    seen |= {threads: evidence.readings.get(f"constant rows, blocks of {threads}") for threads in (128, 256)}
    if None in seen.values():
        return None
    wrong = [threads for threads, rows in seen.items() if any(map(any, rows))]
    if len(wrong) != 1:
        return None
    one, two = (threads for threads in seen if threads not in wrong)
    return Diagnosis(
        "wrong_for_one_size",
        f"A row of {len(seen[wrong[0]][0])} ones minus its mean is 0 with BLOCK = {one} and {two}; with BLOCK = "
        f"{wrong[0]} it is {seen[wrong[0]][0][0]:.4g}. What in the code depends on BLOCK?",
    )
