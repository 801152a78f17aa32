"""The mistakes that wrong sums of rows point to, and the rule that refuses right sums made without shuffles."""

from course_lib.grading.judge.diagnosis import low_precision, runs_of, worst_element
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.limits import by_limit
from course_lib.grading.subjects.softmax.sums import near

WARP_SIZE = 32
WARPS_PER_BLOCK = 4  # rows of a block, where a case does not say otherwise
SLACK = 8  # numbers of a lane beyond a 32nd of the row: vectors, and a start that is not aligned
OTHER_WARPS = [row for row in range(WARP_SIZE) if row % WARPS_PER_BLOCK]  # rows not of a block's first warp
COUNT_COLS = 85  # of the probe "count": two strides of 32 and a rest of 21


def diagnose_row_sum(evidence):
    """Diagnosis of a wrong sum of rows, or None."""
    lanes, count = evidence.readings.get("lanes"), evidence.readings.get("count")
    looks = (
        lambda: _by_size(evidence),
        lambda: _by_warp(evidence, lanes),
        lambda: _by_row(evidence),
        lambda: _by_lanes(lanes),
        lambda: _by_count(count),
        lambda: _by_length(evidence),
        lambda: low_precision([one for one in evidence.failing() if one.ran and "times" not in one.case.options]),
    )
    for look in looks:
        found = look()
        if found is not None:
            return found
    return None


def _by_size(evidence):
    """Only numbers far from 1 fail, the case with the option "times"."""
    failing = evidence.failing()
    if not failing or not all(case.ran and "times" in case.case.options for case in failing):
        return None
    got, expected = worst_element(failing[0])
    return Diagnosis(
        "sums_limited",
        f"Right for numbers up to 100; in the case {failing[0].case.name!r} comes {got:.4g} instead of {expected:.4g}. "
        "Is a number or a sum cut off, left out, or held as a whole number? A float holds up to 3.4e38.",
    )


def _by_warp(evidence, lanes):
    """Rows of the first warp of each block are right, and the other warps miss the first 32 columns.

    The probe "lanes" alone cannot tell that from a tree of shuffles that ends two steps too early: such a tree leaves
    row 0 wrong, too.
    """
    if lanes is None or [row for row, value in enumerate(lanes) if value == 0.0] != OTHER_WARPS:
        return None
    short = [c for c in evidence.failing("normal") if c.ran and 1 < c.case.sizes["num_cols"] <= WARP_SIZE]
    if not short or any(bool(c.comparisons["sums"].wrong[:: warps_of(c.case)].any()) for c in short):
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
            f"{start}: that is the first {WARP_SIZE} columns alone; the loop over the rest of the row is missing, or "
            f"its steps are longer than the {WARP_SIZE} lanes that share the row.",
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
    """Right in the first row alone, and nowhere nearly right: numbers that are left out may spare one row by chance."""
    several = [c for c in evidence.failing("normal") if c.ran and c.case.sizes["num_rows"] > 1]
    wrong = [c.comparisons["sums"].wrong for c in several]
    if not wrong or any(bool(w[0]) or not bool(w[1:].any()) for w in wrong) or low_precision(several):
        return None
    return Diagnosis(
        "row_offset",
        f"Row 0 is right and others are wrong (case {several[0].case.name!r}): where does "
        "row r begin? r * num_cols elements after the first.",
    )


def _by_length(evidence):
    """Every row is right up to some length, and every longer one is wrong."""
    failing = [case for case in evidence.failing() if case.ran]
    if any(not bool(case.comparisons["sums"].wrong.all()) for case in failing):
        return None
    return by_limit(evidence, num_cols="columns")


def row_sum_bound(case):
    """Fewest bytes: every number read once, one sum a row written."""
    num_rows, num_cols = case.sizes["num_rows"], case.sizes["num_cols"]
    return 4 * num_rows * (num_cols + 1), f"{num_rows * num_cols:,} numbers read once, {num_rows:,} sums written"


def warps_of(case):
    """Warps of a block in this case; a probe says nothing."""
    return case.options.get("warps", WARPS_PER_BLOCK)


def only_shuffles(case, ledger):
    """Refuses shared memory, atomics, lanes that work alone, numbers read twice, and lanes that all write."""
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
    why = "each number is read once, and one lane writes each sum"
    found = moved(case, ledger, read=4 * num_rows * num_cols, written=4 * num_rows, why=why)
    found = found or share(case, ledger, stored=4, why="the sum of one row")
    if found is not None:
        return found
    most, fair = ledger["largest_share"]["global_load"] // 4, -(-num_cols // WARP_SIZE)
    if most > fair + SLACK:
        return Diagnosis(
            "lanes_alone",
            f"{where}: one lane reads {most:,} numbers, and a 32nd of a row is {fair:,}. A warp has a row of its own: "
            "let each of its lanes take a share of the columns.",
        )
    return None
