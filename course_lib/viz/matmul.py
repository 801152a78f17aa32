"""A matrix product in tiles: what a tile needs, the order of the tiles, and the fragments of a tensor-core product.

May import: style, drawing, matplotlib.
"""

from .drawing import box, hide_spines, label
from .style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    LIGHT_BLUE,
    LIGHT_GREEN,
    LIGHT_ORANGE,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILION,
    Picture,
)

REGISTERS = (BLUE, ORANGE, GREEN, PURPLE)
REGISTER_HATCHES = ("", "//", "..", "xx")
_REGISTER_ALPHA = 0.28


def product_picture(size=12, block=4, block_k=3, tile=(1, 1), step=1):
    """out with one tile outlined, the rows of a and the columns of b that it needs, and the tiles of one step.

    Parameters
    ----------
    size : rows and columns of the square matrices
    block : rows and columns of a tile of out
    block_k : numbers of k in a step
    tile : (row, column) of the tile of out, in tiles
    step : which step of k is drawn
    """
    alt_text = (
        f"A tile of {block} x {block} of out needs {block} rows of a and {block} columns of b. In one step {block_k} "
        f"of each row and column are on chip: {2 * block * block_k} numbers for {block * block * block_k} products."
    )
    figure = Picture(6.6, 6.0, alt_text)
    grid = figure.add_gridspec(2, 2)
    row, column, k = tile[0] * block, tile[1] * block, step * block_k
    rows_of_a = [((0, row), size, block, LIGHT_BLUE, ""), ((k, row), block_k, block, SKY, "///")]
    columns_of_b = [((column, 0), block, size, LIGHT_ORANGE, ""), ((column, k), block, block_k, ORANGE, "\\\\\\")]
    tile_of_out = [((column, row), block, block, LIGHT_GREEN, "xx")]
    for name, cell, boxes, across, down in (
        ("b", grid[0, 1], columns_of_b, "column", "k"),
        ("a", grid[1, 0], rows_of_a, "k", "row"),
        ("out", grid[1, 1], tile_of_out, "column", "row"),
    ):
        axes = figure.add_subplot(cell)
        _draw_matrix(axes, size, boxes)
        axes.set_title(name, fontsize=11, color=INK)
        axes.set_xlabel(across, fontsize=8.5, color=GREY)
        axes.set_ylabel(down, fontsize=8.5, color=GREY)
    _product_legend(figure.add_subplot(grid[0, 0]), block, block_k)
    return figure


def _product_legend(axes, block, block_k):
    """What one step loads and multiplies, in words."""
    axes.axis("off")
    lines = (
        "hatched: on chip in this step",
        f"{block} · {block_k} numbers of a, {block_k} · {block} of b",
        f"serve {block} · {block} · {block_k} = {block * block * block_k} products",
        "pale: loaded in the other steps",
    )
    for number, line in enumerate(lines):
        axes.text(0.0, 0.75 - 0.15 * number, line, fontsize=9.5, color=INK)


def _draw_matrix(axes, size, boxes):
    for corner, width, height, colour, hatch in boxes:
        box(axes, corner, width, height, facecolor=colour, edgecolor=BLUE, hatch=hatch, linewidth=1.2)
    for line in range(size + 1):
        axes.plot((line, line), (0, size), color=PALE, linewidth=0.5, zorder=0)
        axes.plot((0, size), (line, line), color=PALE, linewidth=0.5, zorder=0)
    axes.set(xlim=(-0.2, size + 0.2), ylim=(size + 0.2, -0.2), aspect="equal", xticks=(), yticks=())
    hide_spines(axes)


def tile_order(tiles_m, tiles_n, group_m):
    """[(row, column)] of the tiles in the order of their programs; group_m = 1 is row by row.

    The same arithmetic as in the kernels: groups of group_m rows of tiles, each walked column by column.
    """
    order = []
    for program in range(tiles_m * tiles_n):
        first = program // (group_m * tiles_n) * group_m
        rows = min(tiles_m - first, group_m)
        within = program % (group_m * tiles_n)
        order.append((first + within % rows, within // rows))
    return order


def tiles_read(order, wave):
    """(rows of tiles of a, columns of tiles of b) that the first `wave` programs read between them."""
    first = order[:wave]
    return len({row for row, _ in first}), len({column for _, column in first})


def order_picture(tiles_m, tiles_n, groups, wave):
    """The tiles of out with the numbers of their programs, one grid for each order; the first wave is filled.

    Parameters
    ----------
    groups : rows of tiles in a group, one grid each
    wave : programs that run at the same time
    """
    orders = {group: tile_order(tiles_m, tiles_n, group) for group in groups}
    names = {group: "row by row" if group == 1 else f"in groups of {group} rows" for group in groups}
    reads = {group: tiles_read(order, wave) for group, order in orders.items()}
    alt_text = "; ".join(
        f"{names[group]}: {a} rows of a and {b} columns of b, {a + b} together" for group, (a, b) in reads.items()
    )
    figure = Picture(3.9 * len(groups), 4.3, f"The first {wave} programs of {tiles_m * tiles_n} read, {alt_text}.")
    for axes, group in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups, strict=True):
        for program, corner in enumerate(orders[group]):
            _draw_program(axes, program, corner, running=program < wave)
        a, b = reads[group]
        axes.set_title(f"{names[group]}: {a} + {b} = {a + b} stripes", fontsize=10, color=INK)
        axes.set(xlim=(-0.1, tiles_n + 0.1), ylim=(tiles_m + 0.1, -0.1), aspect="equal", xticks=(), yticks=())
        axes.set_xlabel("tiles of out; hatched: the first wave", fontsize=8.5, color=GREY)
        hide_spines(axes)
    return figure


def _draw_program(axes, program, corner, *, running):
    """The tile of one program with its number."""
    row, column = corner
    look = {"facecolor": "white", "edgecolor": PALE, "linewidth": 0.6}
    if running:
        look = {"facecolor": SKY, "edgecolor": INK, "linewidth": 1.0, "hatch": "///"}
    box(axes, (column, row), 1, 1, **look)
    label(axes, (column + 0.5, row + 0.5), str(program), size=8, pad=1.0 if running else None)


def fragments_picture(owners, lane=5):
    """Which lane holds which number of an mma: three grids, b above out and a to its left, a lane in each cell.

    Parameters
    ----------
    owners : dict, "a" (16 x 16), "b" (16 x 8), "out" (16 x 8) -> {(row, column): (lane, register)}, as recorded
    lane : int, the lane whose numbers are outlined
    """
    parts = []
    for name, cells in owners.items():
        mine = [f"{name}[{row}][{column}]" for (row, column), (owner, _) in sorted(cells.items()) if owner == lane]
        parts.append(", ".join(mine))
    alt_text = f"Which lane of a warp holds which number in mma.m16n8k16. Lane {lane} holds {'; '.join(parts)}."
    figure = Picture(6.9, 7.2, alt_text)
    grid = figure.add_gridspec(2, 2, width_ratios=(15, 9), height_ratios=(16, 16))
    _fragments_legend(figure.add_subplot(grid[0, 0]), lane)
    for name, cell, shape, across, down in (
        ("b", grid[0, 1], (16, 8), "column", "k"),
        ("a", grid[1, 0], (16, 16), "k", "row"),
        ("out", grid[1, 1], (16, 8), "column", "row"),
    ):
        axes = figure.add_subplot(cell)
        draw_fragment(axes, owners[name], shape, lane)
        axes.set_title(f"{name}, {shape[0]} x {shape[1]}", fontsize=10, color=INK, loc="left")
        axes.set_xlabel(across, fontsize=8, color=GREY)
        axes.set_ylabel(down, fontsize=8, color=GREY)
    return figure


def draw_fragment(axes, owners, shape, marked):
    """One grid: registers as colours and hatches, lanes as numbers, the marked lane outlined.

    Parameters
    ----------
    owners : dict, (row, column) -> (lane, register), register 0 to 3
    shape : (rows, columns)
    marked : int, a lane
    """
    rows, columns = shape
    axes.set_facecolor("white")
    for (top, left, height, width), register in _register_blocks(owners, shape):
        draw_register(axes, (left, top), width, height, register)
    axes.hlines(range(rows + 1), 0, columns, color=PALE, linewidth=0.5)
    axes.vlines(range(columns + 1), 0, rows, color=PALE, linewidth=0.5)
    for (row, column), (lane, _) in owners.items():
        weight = "bold" if lane == marked else "normal"
        label(axes, (column + 0.5, row + 0.5), str(lane), size=7.5, fontweight=weight)
        if lane == marked:
            box(axes, (column, row), 1, 1, fill=False, edgecolor=VERMILION, linewidth=2.0, zorder=4)
    axes.set(xlim=(-0.1, columns + 0.1), ylim=(rows + 0.1, -0.1), aspect="equal")
    axes.set_xticks([column + 0.5 for column in range(columns)], range(columns))
    axes.set_yticks([row + 0.5 for row in range(rows)], range(rows))
    axes.tick_params(length=0, labelsize=6.5, colors=GREY)
    hide_spines(axes)


def draw_register(axes, corner, width, height, register):
    """A pale area of a register's colour under its hatch."""
    box(axes, corner, width, height, facecolor=REGISTERS[register], alpha=_REGISTER_ALPHA, edgecolor="none")
    box(axes, corner, width, height, fill=False, hatch=REGISTER_HATCHES[register], edgecolor="white", linewidth=0)


def _register_blocks(owners, shape):
    """[((top, left, height, width), register)]: neighbouring cells of one register as one rectangle."""
    rows, columns = shape
    blocks = {}
    for row in range(rows):
        starts = [c for c in range(columns) if c == 0 or owners[row, c][1] != owners[row, c - 1][1]]
        for left, right in zip(starts, [*starts[1:], columns], strict=True):
            register, width = owners[row, left][1], right - left
            above = next((one for one in blocks if one[0] + one[2] == row and one[1:4:2] == (left, width)), None)
            if above is not None and blocks[above] == register:
                del blocks[above]
                blocks[above[0], left, above[2] + 1, width] = register
            else:
                blocks[row, left, 1, width] = register
    return list(blocks.items())


def _fragments_legend(axes, lane):
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
        draw_register(axes, (0.0, top), 0.1, 0.08, register)
        b_name = f", b[{register}]" if register < 2 else ""
        axes.text(0.14, top + 0.06, f"a[{register}]{b_name}, acc[{register}]", fontsize=9, color=INK)
