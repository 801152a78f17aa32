"""Pictures of a matrix product in tiles: what a tile of the result needs, and in which order blocks take the tiles.

May import: style, matplotlib.
"""

from matplotlib.patches import Rectangle

from .style import BLUE, GREY, INK, ORANGE, PALE, SKY, Picture

_LIGHT_BLUE, _LIGHT_ORANGE = "#DCEBF5", "#FBEBC8"


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
    told = (
        f"A tile of {block} x {block} of out needs {block} rows of a and {block} columns of b. In one step {block_k} "
        f"of each row and column are on chip: {2 * block * block_k} numbers for {block * block * block_k} products."
    )
    figure = Picture(6.6, 6.0, told)
    grid = figure.add_gridspec(2, 2)
    axes = {
        "b": figure.add_subplot(grid[0, 1]),
        "a": figure.add_subplot(grid[1, 0]),
        "out": figure.add_subplot(grid[1, 1]),
    }
    row, column, k = tile[0] * block, tile[1] * block, step * block_k
    boxes = {
        "a": [((0, row), size, block, _LIGHT_BLUE, ""), ((k, row), block_k, block, SKY, "///")],
        "b": [((column, 0), block, size, _LIGHT_ORANGE, ""), ((column, k), block, block_k, ORANGE, "\\\\\\")],
        "out": [((column, row), block, block, "#CFE8DF", "xx")],
    }
    names = {"a": ("k", "row"), "b": ("column", "k"), "out": ("column", "row")}
    for name, one in axes.items():
        _matrix(one, size, boxes[name])
        one.set_title(name, fontsize=11, color=INK)
        one.set_xlabel(names[name][0], fontsize=8.5, color=GREY)
        one.set_ylabel(names[name][1], fontsize=8.5, color=GREY)
    corner = figure.add_subplot(grid[0, 0])
    corner.axis("off")
    lines = (
        "hatched: on chip in this step",
        f"{block} · {block_k} numbers of a, {block_k} · {block} of b",
        f"serve {block} · {block} · {block_k} = {block * block * block_k} products",
        "pale: comes by in the other steps",
    )
    for number, line in enumerate(lines):
        corner.text(0.0, 0.75 - 0.15 * number, line, fontsize=9.5, color=INK)
    return figure


def _matrix(axes, size, boxes):
    for (left, top), width, height, colour, hatch in boxes:
        axes.add_patch(
            Rectangle((left, top), width, height, facecolor=colour, edgecolor=BLUE, hatch=hatch, linewidth=1.2)
        )
    for line in range(size + 1):
        axes.plot((line, line), (0, size), color=PALE, linewidth=0.5, zorder=0)
        axes.plot((0, size), (line, line), color=PALE, linewidth=0.5, zorder=0)
    axes.set(xlim=(-0.2, size + 0.2), ylim=(size + 0.2, -0.2), aspect="equal", xticks=(), yticks=())
    for side in axes.spines.values():
        side.set_visible(False)


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
    told = "; ".join(f"{names[g]}: {a} rows of a and {b} columns of b, {a + b} together" for g, (a, b) in reads.items())
    figure = Picture(3.9 * len(groups), 4.3, f"The first {wave} programs of {tiles_m * tiles_n} read, {told}.")
    for axes, group in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups, strict=True):
        for program, (row, column) in enumerate(orders[group]):
            running = program < wave
            box = Rectangle(
                (column, row), 1, 1, facecolor=SKY if running else "white", edgecolor=INK if running else PALE,
                linewidth=1.0 if running else 0.6, hatch="///" if running else "",
            )  # fmt: skip
            axes.add_patch(box)
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if running else None
            axes.text(column + 0.5, row + 0.5, str(program), ha="center", va="center", fontsize=8, color=INK, bbox=box)
        a, b = reads[group]
        axes.set_title(f"{names[group]}: {a} + {b} = {a + b} stripes", fontsize=10, color=INK)
        axes.set(xlim=(-0.1, tiles_n + 0.1), ylim=(tiles_m + 0.1, -0.1), aspect="equal", xticks=(), yticks=())
        axes.set_xlabel("tiles of out; hatched: the first wave", fontsize=8.5, color=GREY)
        for side in axes.spines.values():
            side.set_visible(False)
    return figure
