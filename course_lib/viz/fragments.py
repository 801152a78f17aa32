"""Fragments: which lane of a warp holds which numbers of a, b and out in one product on tensor cores.

May import: style, matplotlib.
"""

from matplotlib.patches import Rectangle

from .style import BLUE, GREEN, GREY, INK, ORANGE, PALE, PURPLE, VERMILION, Picture

REGISTERS = (BLUE, ORANGE, GREEN, PURPLE)
HATCHES = ("", "//", "..", "xx")
_TINT = 0.28  # opacity of a register's colour


def fragments_picture(owners, lane=5):
    """Three grids, b above out and a to its left: the number in a cell is the lane that holds it.

    Parameters
    ----------
    owners : dict, "a" (16 x 16), "b" (16 x 8), "out" (16 x 8) -> {(row, column): (lane, register)}, as recorded
    lane : int, the lane whose numbers are outlined
    """
    figure = Picture(6.9, 7.2, _told(owners, lane))
    grid = figure.add_gridspec(2, 2, width_ratios=(15, 9), height_ratios=(16, 16))
    corner = figure.add_subplot(grid[0, 0])
    _legend(corner, lane)
    for name, place, shape, across, down in (
        ("b", grid[0, 1], (16, 8), "column", "k"),
        ("a", grid[1, 0], (16, 16), "k", "row"),
        ("out", grid[1, 1], (16, 8), "column", "row"),
    ):
        axes = figure.add_subplot(place)
        _cells(axes, owners[name], shape, lane)
        axes.set_title(f"{name}, {shape[0]} x {shape[1]}", fontsize=10, color=INK, loc="left")
        axes.set_xlabel(across, fontsize=8, color=GREY)
        axes.set_ylabel(down, fontsize=8, color=GREY)
    return figure


def _cells(axes, owners, shape, marked):
    rows, columns = shape
    for (top, left, height, width), register in _blocks(owners, shape):
        place = {"xy": (left, top), "width": width, "height": height}
        axes.add_patch(Rectangle(**place, facecolor=REGISTERS[register], alpha=_TINT, edgecolor="none"))
        axes.add_patch(Rectangle(**place, fill=False, hatch=HATCHES[register], edgecolor="white", linewidth=0.0))
    axes.hlines(range(rows + 1), 0, columns, color=PALE, linewidth=0.5)
    axes.vlines(range(columns + 1), 0, rows, color=PALE, linewidth=0.5)
    for (row, column), (lane, _) in owners.items():
        weight = "bold" if lane == marked else "normal"
        middle = {"ha": "center", "va": "center", "fontsize": 7.5, "color": INK, "fontweight": weight}
        axes.text(column + 0.5, row + 0.5, str(lane), **middle)
        if lane == marked:
            axes.add_patch(Rectangle((column, row), 1, 1, fill=False, edgecolor=VERMILION, linewidth=2.0, zorder=4))
    axes.set(xlim=(-0.1, columns + 0.1), ylim=(rows + 0.1, -0.1), aspect="equal")
    axes.set_xticks([column + 0.5 for column in range(columns)], range(columns))
    axes.set_yticks([row + 0.5 for row in range(rows)], range(rows))
    axes.tick_params(length=0, labelsize=6.5, colors=GREY)
    for side in axes.spines.values():
        side.set_visible(False)


def _blocks(owners, shape):
    """[((top, left, height, width), register)]: neighbouring cells of one register as one rectangle."""
    rows, columns = shape
    found = {}
    for row in range(rows):
        starts = [c for c in range(columns) if c == 0 or owners[row, c][1] != owners[row, c - 1][1]]
        for left, right in zip(starts, [*starts[1:], columns], strict=True):
            register = owners[row, left][1]
            above = next((box for box in found if box[0] + box[2] == row and box[1:4:2] == (left, right - left)), None)
            if above is not None and found[above] == register:
                del found[above]
                found[above[0], left, above[2] + 1, right - left] = register
            else:
                found[row, left, 1, right - left] = register
    return list(found.items())


def _legend(axes, lane):
    axes.axis("off")
    axes.set(xlim=(0, 1), ylim=(1, 0))
    lines = (
        "the number in a cell is the lane that holds it",
        f"outlined: lane {lane}, so g = {lane // 4}, t = {lane % 4}",
    )
    for number, line in enumerate(lines):
        axes.text(0.0, 0.12 + 0.09 * number, line, fontsize=9, color=INK)
    for register in range(4):
        top = 0.36 + 0.11 * register
        axes.add_patch(Rectangle((0.0, top), 0.1, 0.08, facecolor=REGISTERS[register], alpha=_TINT))
        axes.add_patch(Rectangle((0.0, top), 0.1, 0.08, fill=False, hatch=HATCHES[register], edgecolor="white", lw=0))
        b_name = f", b[{register}]" if register < 2 else ""
        axes.text(0.14, top + 0.06, f"a[{register}]{b_name}, acc[{register}]", fontsize=9, color=INK)


def _told(owners, lane):
    parts = []
    for name, cells in owners.items():
        mine = [f"{name}[{row}][{column}]" for (row, column), (owner, _) in sorted(cells.items()) if owner == lane]
        parts.append(", ".join(mine))
    return f"Which lane of a warp holds which number in mma.m16n8k16. Lane {lane} holds {'; '.join(parts)}."
