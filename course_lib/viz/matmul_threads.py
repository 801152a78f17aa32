"""A matrix product from inside a block: what one thread loads and reads, and which stage holds which tile.

May import: style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, label
from .style import GREY, HATCHES, INK, LIGHT_GREEN, LIGHT_ORANGE, ORANGE, SKY, Picture

_A = {"facecolor": SKY, "hatch": HATCHES[1]}
_B = {"facecolor": ORANGE, "hatch": HATCHES[4]}
_OUT = {"facecolor": LIGHT_GREEN, "hatch": HATCHES[2]}


def _grid(axes, corner, size, title, marked=(), look=None):
    """size x size cells under a title; the cells (row, column) of `marked` are filled."""
    left, top = corner
    for row in range(size):
        for column in range(size):
            mine = look if (row, column) in marked else {"facecolor": "white"}
            box(axes, (left + column, top + row), 1, 1, edgecolor=GREY, linewidth=0.7, **mine)
    label(axes, (left + size / 2, top - 0.5), title, size=8.5)


def shared_tile_picture(tile=6, thread=(1, 3)):
    """One thread of a tile in shared memory: it loads one number of each tile and reads a row and a column.

    Parameters
    ----------
    tile : int, rows and columns of the tiles and of the block
    thread : (tile_row, tile_col)
    """
    row, column = thread
    figure = Picture(
        8.4,
        2.6,
        f"A block of {tile} x {tile} threads. Load: thread ({row}, {column}) brings one number of the tile of a and "
        f"one of the tile of b, both at row {row}, column {column}. After the barrier it reads all of row {row} of a "
        f"and all of column {column} of b, which other threads have loaded, for one number of out.",
    )
    load, multiply = figure.subplots(1, 2, width_ratios=(1, 1.5))
    second, third = tile + 1.5, 2 * tile + 3.5
    _grid(load, (0, 0), tile, "a_smem", {thread}, _A)
    _grid(load, (second, 0), tile, "b_smem", {thread}, _B)
    _grid(multiply, (0, 0), tile, "a_smem", {(row, k) for k in range(tile)}, _A)
    _grid(multiply, (second, 0), tile, "b_smem", {(k, column) for k in range(tile)}, _B)
    _grid(multiply, (third, 0), tile, "out", {thread}, _OUT)
    arrow(multiply, (2 * tile + 1.7, tile / 2), (third - 0.2, tile / 2))
    canvas(load, (-0.3, 2 * tile + 2), (tile + 0.3, -1.2), equal=True, title=f"thread {thread} loads")
    canvas(multiply, (-0.3, 3 * tile + 4), (tile + 0.3, -1.2), equal=True, title="… and reads after the barrier")
    return figure


def register_tile_picture(threads=4, numbers=3, thread=(1, 2)):
    """One thread of a register tile: a column of a and a row of b in registers, multiplied each with each.

    Parameters
    ----------
    threads : int, threads down and along the block
    numbers : int, rows and columns of out that a thread has
    thread : (thread_row, thread_col)
    """
    size, (first, left) = threads * numbers, thread
    rows, columns = ([start + i * threads for i in range(numbers)] for start in (first, left))
    figure = Picture(
        7.4,
        4.6,
        f"The block's tile of {size} x {size} numbers. Thread ({first}, {left}) has rows {_list(rows)} and columns "
        f"{_list(columns)}. For each k it fetches {numbers} numbers of a and {numbers} of b into registers and adds "
        f"{numbers * numbers} products.",
    )
    axes = figure.subplots()
    for row in range(size):
        box(axes, (-2.6, row), 1.2, 1, edgecolor=GREY, linewidth=0.7, **(_A if row in rows else {"facecolor": "white"}))
    for column in range(size):
        look = _B if column in columns else {"facecolor": "white"}
        box(axes, (column, -2.6), 1, 1.2, edgecolor=GREY, linewidth=0.7, **look)
    marked = {(row, column) for row in rows for column in columns}
    _grid(axes, (0, 0), size, "", marked, _OUT)
    label(axes, (-2.0, -0.5), "column k of a", size=8.5)
    label(axes, (size + 0.3, -2.0), "row k of b", size=8.5, ha="left")
    words = (
        f"thread {thread}:\n{numbers} + {numbers} numbers fetched,\n{numbers * numbers} products\nand sums in registers"
    )
    label(axes, (size + 0.3, size / 2), words, size=8.5, ha="left")
    canvas(axes, (-3.4, size + 8), (size + 0.3, -3.0), equal=True)
    return figure


def _list(numbers):
    return ", ".join(map(str, numbers))


def stage_contents(num_stages, tile, num_tiles):
    """{stage: (tile, "multiplied" or "copied")} while `tile` is multiplied; a stage without a tile is left out.

    At least the next tile has landed when `tile` ends; the copy of the last one begins while `tile` is multiplied.
    """
    held = range(tile, min(tile + num_stages, num_tiles))
    return {number % num_stages: (number, "multiplied" if number == tile else "copied") for number in held}


def stages_picture(num_stages=3, num_tiles=6):
    """The ring of stages of a pipelined product: a line for each tile that is multiplied, a column for each stage.

    Parameters
    ----------
    num_stages : int, tiles in shared memory
    num_tiles : int, steps of k
    """
    lines = [stage_contents(num_stages, tile, num_tiles) for tile in range(num_tiles)]
    alt_text = "; ".join(
        f"tile {tile} multiplied in stage {tile % num_stages}, in flight "
        + (_list(sorted(number for number, state in line.values() if state == "copied")) or "none")
        for tile, line in enumerate(lines)
    )
    figure = Picture(7.4, 0.42 * num_tiles + 0.7, f"{num_stages} stages in shared memory. {alt_text}.")
    axes = figure.subplots()
    for tile, line in enumerate(lines):
        label(axes, (-0.1, tile + 0.45), f"step {tile}", size=8.5, ha="right")
        for stage in range(num_stages):
            number, state = line.get(stage, (None, "empty"))
            look = {"facecolor": "white"}
            if state == "multiplied":
                look = {"facecolor": LIGHT_ORANGE, "hatch": HATCHES[1]}
            elif state == "copied":
                look = {"facecolor": LIGHT_GREEN, "hatch": HATCHES[3]}
            box(axes, (stage, tile), 0.96, 0.9, edgecolor=INK, linewidth=0.8, **look)
            words = {"multiplied": f"tile {number}: multiplied", "copied": f"tile {number}: in flight"}.get(state, "–")
            label(axes, (stage + 0.48, tile + 0.45), words, size=8.5, pad=1)
    for stage in range(num_stages):
        label(axes, (stage + 0.48, -0.3), f"stage {stage}", size=8.5, color=GREY)
    canvas(axes, (-0.5, num_stages + 0.1), (num_tiles, -0.6))
    return figure
