"""The error map as data: levels of error / tolerance, made coarse enough to show, with tile borders and one sentence.

May import: nothing of the course.
"""

import math

# error / tolerance: (upper bound, legend, character in the text)
LEVELS = (
    (1.0, "within tolerance", "·"),
    (10.0, "error up to 10 times the tolerance", "░"),
    (100.0, "up to 100 times the tolerance", "▒"),
    (math.inf, "more than 100 times the tolerance", "█"),
)
NOT_A_NUMBER = len(LEVELS)
NAN_LEGEND, NAN_CHARACTER = "NaN where a number belongs", "N"


def level(ratio):
    """Index into LEVELS for one error / tolerance, or NOT_A_NUMBER."""
    if ratio is None or math.isnan(ratio):
        return NOT_A_NUMBER
    return next(index for index, (upper, _, _) in enumerate(LEVELS) if ratio <= upper)


def has_map(verdict):
    """Whether there is an error map worth a picture: more than one element."""
    return bool(verdict.error_map) and sum(map(len, verdict.error_map["ratio"])) > 1


def map_summary(verdict):
    """The error map in one sentence, for those who do not see it; also its caption."""
    ratio, output = verdict.error_map["ratio"], verdict.error_map["output"]
    top, left = first_shown(verdict.error_map)
    wrong = [(row, col) for row, line in enumerate(ratio, top) for col, value in enumerate(line, left) if level(value)]
    total = sum(map(len, ratio))
    if not wrong:
        shown = f"All {total} elements shown are within tolerance"
        if verdict.first_wrong is None:
            return f"{shown}."
        index = ", ".join(str(number) for number in verdict.first_wrong.index)
        return f"{shown}; the first wrong one, {output}[{index}], lies beyond this map."
    rows, cols = [row for row, _ in wrong], [col for _, col in wrong]
    flat = verdict.first_wrong is not None and len(verdict.first_wrong.index) == 1
    where = f"at {_span('index', cols)}" if flat else f"in {_span('row', rows)} and {_span('column', cols)}"
    return f"{len(wrong):,} of {total:,} elements of {output} {'is' if len(wrong) == 1 else 'are'} wrong, {where}."


def first_shown(error_map):
    """Row and column of the output at which the map begins."""
    return tuple(error_map.get("first") or (0, 0))


def _span(word, indices):
    first, last, many = min(indices), max(indices), len(set(indices))
    if first == last:
        return f"{word} {first}"
    gaps = "" if many == last - first + 1 else f", {many} of them"
    return f"{'indices' if word == 'index' else word + 's'} {first} to {last}{gaps}"


def coarse(error_map, most_rows, most_cols):
    """The map's levels with at most so many rows and columns; a cell shows the worst level of its elements.

    Returns
    -------
    levels : list of lists of int
    steps : (rows, cols) of the output in one cell
    """
    ratio = error_map["ratio"]
    height, width = len(ratio), max(map(len, ratio), default=0)
    step_row, step_col = max(1, -(-height // most_rows)), max(1, -(-width // most_cols))
    levels = [
        [
            max(level(value) for line in ratio[top : top + step_row] for value in line[left : left + step_col])
            for left in range(0, width, step_col)
        ]
        for top in range(0, height, step_row)
    ]
    return levels, (step_row, step_col)


def borders(error_map, axis, steps, cells):
    """Cells before which a tile begins, along one axis (0 rows, 1 columns); none when there is one tile only."""
    tile = error_map.get("tile") or (0, 0)
    size, step, first = tile[axis], steps[axis], first_shown(error_map)[axis]
    if not size or size < step:
        return []
    inside = range(first // size * size + size, first + cells * step, size)
    return sorted({(position - first) // step for position in inside} - {0})
