"""What vector sums, row sums and centred rows say about the mistake that made them.

May import: verdict, diagnosis, evidence (as data).
"""

from ..judge.diagnosis import runs_of
from ..report.verdict import Diagnosis
from ..subjects.softmax.diagnostics import near

WARP_SIZE = 32
WARPS_PER_BLOCK = 4  # rows of a block, while 02.2 is graded
OTHER_WARPS = [row for row in range(WARP_SIZE) if row % WARPS_PER_BLOCK]  # rows not of a block's first warp
COUNT_COLS = 85  # of the probe "count": two strides of 32 and a rest of 21


def list_of_out(_inputs, outputs):
    return outputs["out"].tolist()


def list_of_sums(_inputs, outputs):
    return outputs["sums"].tolist()


def first_sum(_inputs, outputs):
    return outputs["sums"][0].item()


def rows_of_out(_inputs, outputs):
    return outputs["out"].tolist()


def diagnose_add(evidence):
    """Diagnosis of a wrong vector sum, or None."""
    places, ones = evidence.readings.get("places"), evidence.readings.get("ones")
    if places is None or ones is None:
        return None
    no_x, no_y = not any(places[1:]), not any(ones)
    if no_x and no_y:
        return Diagnosis(
            "wrong_operation",
            "0 beside 1 gives 0, and so does any number beside 0: out is the product of x and y, not their sum.",
        )
    if no_x:
        return Diagnosis("input_ignored", "With x = 0, 1, 2, … and y = 0 every element of out is 0: x does not enter.")
    if no_y:
        return Diagnosis("input_ignored", "With x = 0 and y = 1 every element of out is 0: y does not enter.")
    if all(value == -1.0 for value in ones):
        return Diagnosis("wrong_operation", "With x = 0 and y = 1 every element of out is -1: y is subtracted.")
    wrong = [(i, value) for i, value in enumerate(places) if value != i]
    if wrong and wrong[0][1] == 2 * wrong[0][0]:
        return Diagnosis(
            "input_ignored", "With x = 0, 1, 2, … and y = 0 every element of out is twice x: x was added to itself."
        )
    if wrong:
        i, value = wrong[0]
        return Diagnosis(
            "wrong_place",
            f"With x = 0, 1, 2, … and y = 0, out[{i}] must be {i} and is {value:g}: "
            "that is another thread's element. Which places does a thread read, and "
            "which one does it write?",
        )
    return None


def diagnose_row_sum(evidence):
    """Diagnosis of a wrong sum of rows, or None."""
    lanes, count = evidence.readings.get("lanes"), evidence.readings.get("count")
    looks = (
        lambda: _by_warp(evidence, lanes),
        lambda: _by_row(evidence),
        lambda: _by_lanes(lanes),
        lambda: _by_count(count),
    )
    for look in looks:
        found = look()
        if found is not None:
            return found
    return None


def _by_warp(evidence, lanes):
    """Rows of the first warp of each block are right, and the other warps miss the first 32 columns.

    The probe "lanes" alone cannot tell that from a tree of shuffles that ends two steps too early: such a tree leaves
    row 0 wrong, too.
    """
    if lanes is None or [row for row, value in enumerate(lanes) if value == 0.0] != OTHER_WARPS:
        return None
    short = [c for c in evidence.failing("normal") if c.ran and 1 < c.case.sizes["num_cols"] <= WARP_SIZE]
    if not short or any(bool(c.comparisons["sums"].wrong[::WARPS_PER_BLOCK].any()) for c in short):
        return None
    return Diagnosis(
        "wrong_columns",
        f"Only the first warp of each block is right: in rows of {WARP_SIZE} columns the other warps add up nothing. "
        f"A warp's columns begin at its lane and go on in steps of {WARP_SIZE}, whichever warp of the block it is.",
    )


def _by_lanes(lanes):
    """A row of 32 with a single 1, in the column of each lane in turn: how often did the sum count that lane?"""
    if lanes is None or all(value == 1.0 for value in lanes):
        return None
    start = "A row of 32 columns gives one number to each lane"
    lost = [lane for lane, value in enumerate(lanes) if value == 0.0]
    twice = [lane for lane, value in enumerate(lanes) if value > 1.0]
    if lost and len(lost) < WARP_SIZE:
        which = f"number of lane {lost[0]}" if len(lost) == 1 else f"numbers of the lanes {runs_of(lost, limit=4)}"
        return Diagnosis(
            "merge_incomplete",
            f"{start}; the {which} never reached the sum. Do the offsets run over "
            "16, 8, 4, 2 and 1, and does the lane that holds the sum write it?",
        )
    if twice:
        return Diagnosis(
            "counted_twice",
            f"{start}; the number of lane {twice[0]} was counted {lanes[twice[0]]:g} "
            "times. Does each step add the lane `offset` further on, once?",
        )
    return None


def _by_count(count):
    """Ones: the sum is the number of columns that were counted."""
    if count is None or near(count, COUNT_COLS):
        return None
    start = f"A row of {COUNT_COLS} ones must give {COUNT_COLS} and gives {count:g}"
    if near(count, WARP_SIZE):
        return Diagnosis(
            "no_stride_loop",
            f"{start}: that is the first {WARP_SIZE} columns alone; the loop over the rest of the row is missing.",
        )
    if near(count, COUNT_COLS // WARP_SIZE * WARP_SIZE):
        return Diagnosis(
            "tail_dropped",
            f"{start}: that is the row rounded down to whole strides of {WARP_SIZE}; its "
            f"last {COUNT_COLS % WARP_SIZE} columns are missing.",
        )
    if near(count, COUNT_COLS / COUNT_COLS):
        return Diagnosis("mean_for_sum", f"{start}: that is the mean; the sum was asked for.")
    if near(count, COUNT_COLS + 1):
        return Diagnosis("starts_at_one", f"{start}: one too many. The sum starts at 0.")
    if near(count, COUNT_COLS + WARP_SIZE):
        return Diagnosis(
            "starts_at_one", f"{start}: {WARP_SIZE} too many, one for each lane. A lane's sum starts at 0."
        )
    return Diagnosis("wrong_columns", f"{start}. Lane l takes the columns l, l + {WARP_SIZE}, l + {2 * WARP_SIZE}, …")


def _by_row(evidence):
    """Right in the first row alone."""
    several = [c for c in evidence.failing("normal") if c.ran and c.case.sizes["num_rows"] > 1]
    wrong = [c.comparisons["sums"].wrong for c in several]
    if not wrong or any(bool(w[0]) or not bool(w[1:].any()) for w in wrong):
        return None
    return Diagnosis(
        "row_offset",
        f"Row 0 is right and others are wrong (case {several[0].case.name!r}): where does "
        "row r begin? r * num_cols elements after the first.",
    )


def row_sum_bound(case):
    """Fewest bytes: every number read once, one sum a row written."""
    num_rows, num_cols = case.sizes["num_rows"], case.sizes["num_cols"]
    return 4 * num_rows * (num_cols + 1), f"{num_rows * num_cols:,} numbers read once, {num_rows:,} sums written"


def only_shuffles(case, ledger):
    """Refuses shared memory, atomics, a lane that works alone, and lanes that all write."""
    num_rows, num_cols = case.sizes["num_rows"], case.sizes["num_cols"]
    said = f"case {case.name!r}, {num_rows} x {num_cols}"
    where = f"Every sum is right, but this exercise asks for shuffles alone ({said})"
    shared = sum(ledger[name]["requests"] for name in ("shared_load", "shared_store"))
    if shared:
        return Diagnosis(
            "shared_memory_used",
            f"{where}: the ledger counts {shared:,} accesses to shared memory. "
            "__shfl_down_sync reads another lane's register without it.",
        )
    if ledger.get("atomics"):
        return Diagnosis("atomics_used", f"{where}: the ledger counts {ledger['atomics']:,} atomic operations.")
    loads, fewest = ledger["global_load"]["requests"], num_rows * -(-num_cols // WARP_SIZE)
    if loads > fewest:
        return Diagnosis(
            "lanes_alone",
            f"{where}: the ledger counts {loads:,} load requests where {fewest:,} do. A "
            "request of a warp can bring 32 numbers: let every lane take a share of the "
            "columns, and read each number once.",
        )
    return None


def diagnose_centre(evidence):
    """Diagnosis of rows that are not centred, or None."""
    rows = evidence.readings.get("constant rows")
    if rows is None:
        return None
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
            f"{row + 1 - rows[row][col]:.4g} in column {col}: not the mean of this row.",
        )
    return None
