"""The rows of one warp of an attention kernel: which lane does what, and what becomes of its registers.

May import: style, drawing, accumulators, matmul, matplotlib.
"""

from .accumulators import draw_packing
from .drawing import arrow, box, canvas, clean, label, legend_below, name_axes
from .matmul import draw_fragment
from .style import BLUE, GREY, HATCHES, INK, LIGHT_BLUE, LIGHT_ORANGE, ORANGE, PALE, SKY, Picture

_LANES = 8  # drawn of 32
_SECTOR_BYTES = 32


def row_lanes_picture(own="q", walked=("K", "V"), result="acc", *, weights="weights", lane=2):
    """A row of scores and a row of a sum in fp32: a lane goes along a row of one tile, then down a column of another.

    Parameters
    ----------
    own : str, whose row the warp has: "q" in the forward pass and for dQ, "k" for dK and dV
    walked : (str, str), the tile whose rows give the scores, and the tile whose columns are added up
    result : str, what the sum is called
    weights : str, what the scores have become when they are multiplied with the tile of the sum
    lane : int, 0 to 7; its numbers are filled
    """
    what = "key" if own == "q" else "query"
    figure = Picture(
        8.4,
        3.5,
        f"One row of {own} in a warp, drawn with {_LANES} of 32 lanes. Scores: lane {lane} multiplies it with row "
        f"{lane} of the tile of {walked[0]} and gets the score of {what} {lane}. The {weights} of all lanes meet in "
        f"a row of shared memory. Sum: lane {lane} multiplies all {weights} with column {lane} of the tile of "
        f"{walked[1]} and gets column {lane} of {result}.",
    )
    scores, sums = figure.subplots(1, 2)
    _draw_score_lanes(scores, lane, own, walked[0], what)
    _draw_sum_lanes(sums, lane, walked[1], result, weights)
    return figure


def _grid(axes, corner, marked, *, rows):
    """8 x 8 cells; row or column `marked` is filled."""
    left, top = corner
    for number in range(_LANES):
        strip = ((left, top + number), _LANES, 1) if rows else ((left + number, top), 1, _LANES)
        look = {"facecolor": SKY, "hatch": HATCHES[1]} if number == marked else {"facecolor": "white"}
        box(axes, *strip, edgecolor=GREY, linewidth=0.8, **look)


def _strip(axes, corner, marked, colour, *, down=False):
    """Eight cells in a line, numbered by lane; the marked one is filled."""
    left, top = corner
    for number in range(_LANES):
        x, y = (left, top + number) if down else (left + number, top)
        mine = marked is None or number == marked
        box(axes, (x, y), 1, 1, facecolor=colour if mine else "white", edgecolor=INK, linewidth=0.8)
        label(axes, (x + 0.5, y + 0.5), str(number), size=8)


def _draw_score_lanes(axes, lane, own, walked, what):
    """The warp's row above the tile, and the scores to the right, one a lane."""
    box(axes, (0, 0), _LANES, 1, facecolor=LIGHT_ORANGE, edgecolor=INK, linewidth=0.8)
    label(axes, (4, 0.5), f"the row of {own}: read by all lanes", size=8)
    _grid(axes, (0, 2), lane, rows=True)
    label(axes, (4, 10.6), f"tile of {walked}: a row is a {what}", size=8.5)
    _strip(axes, (10.6, 2), lane, LIGHT_BLUE, down=True)
    label(axes, (11.1, 11.0), "scores,\none a lane", size=8.5)
    arrow(axes, (8.1, 2.5 + lane), (10.5, 2.5 + lane))
    canvas(axes, (-0.3, 12.6), (11.8, -0.3), title=f"scores: lane {lane} goes along row {lane} of {walked}")


def _draw_sum_lanes(axes, lane, walked, result, weights):
    """Weights beside the tile, and the result below, one column a lane."""
    _strip(axes, (0, 0), None, LIGHT_BLUE, down=True)
    label(axes, (0.6, 9.0), f"{weights}, in shared\nmemory: read\nby all lanes", size=8, va="top")
    _grid(axes, (3.4, 0), lane, rows=False)
    label(axes, (11.7, 4), f"tile of {walked}", size=8.5, ha="left")
    _strip(axes, (3.4, 10), lane, LIGHT_ORANGE)
    label(axes, (11.7, 10.5), f"{result},\none a lane", size=8.5, ha="left")
    arrow(axes, (3.9 + lane, 8.1), (3.9 + lane, 9.9), shrinkA=0, shrinkB=0)
    canvas(axes, (-1.8, 14.4), (11.8, -0.3), title=f"sum: lane {lane} goes down column {lane} of {walked}")


def operand_picture(lane=5):
    """Two neighbouring tiles of scores of mma.m16n8k16, and how one lane packs them into the next left operand.

    Parameters
    ----------
    lane : int, 0 to 31, whose numbers are outlined
    """
    g, t = lane // 4, lane % 4
    figure = Picture(
        8.6,
        4.9,
        f"Two neighbouring 16 x 8 tiles of scores. Lane {lane}, g = {g}, t = {t}, holds in each rows {g} and {g + 8}, "
        f"columns {2 * t} and {2 * t + 1}. Rounded to 16 bits and packed in pairs, its eight numbers are a[0] to a[3] "
        "of the left operand of the second product, in the same lane.",
    )
    left, right, packing = figure.subplots(1, 3, width_ratios=(1.55, 1.55, 1.9))
    for axes, tile in ((left, 0), (right, 1)):
        owners = {(row, col): (row % 8 * 4 + col // 2, row // 8 + 2 * tile) for row in range(16) for col in range(8)}
        draw_fragment(axes, owners, (16, 8), lane)
        axes.set_xticks([column + 0.5 for column in range(8)], range(8 * tile, 8 * tile + 8))
        axes.set_title(f"scores[2 j{' + 1' * tile}]: lanes", fontsize=10, color=INK, loc="left")
        axes.set_xlabel("key of the 16", fontsize=8, color=GREY)
    left.set_ylabel("query row", fontsize=8, color=GREY)
    names = [f"[2 j{' + 1' * (i // 4)}][{i % 4}]  {g + i % 4 // 2 * 8}, {2 * t + i % 2 + i // 4 * 8}" for i in range(8)]
    draw_packing(packing, f"lane {lane}: row, key", names)
    return figure


def lazy_maximum(maxima, growth=8.0):
    """The maximum that a lazy softmax keeps after each tile: the new one when that is more than `growth` larger.

    Parameters
    ----------
    maxima : sequence of float, the largest score of each tile, in units of log2
    growth : float, largest growth that is ignored
    """
    kept = []
    for value in maxima:
        before = kept[-1] if kept else float("-inf")
        kept.append(value if value - before > growth else before)
    return kept


def lazy_maximum_picture(maxima, growth=8.0):
    """The running maximum of one row and the one that a lazy softmax keeps, tile by tile; marks where acc is rescaled.

    Parameters
    ----------
    maxima, growth : as in `lazy_maximum`
    """
    running = [max(maxima[: number + 1]) for number in range(len(maxima))]
    lines = {"running maximum": running, f"kept until it is {growth:g} too small": lazy_maximum(maxima, growth)}
    changes = {name: [i for i, m in enumerate(line) if i == 0 or m != line[i - 1]] for name, line in lines.items()}
    alt_text = "; ".join(f"{name}: changes in tiles {', '.join(str(i + 1) for i in c)}" for name, c in changes.items())
    figure = Picture(7.8, 2.9, f"Maxima of one row over {len(maxima)} tiles of keys. {alt_text}.")
    axes, tiles = figure.subplots(), range(1, len(maxima) + 1)
    axes.plot(tiles, maxima, color=GREY, linestyle="none", marker=".", label="largest score of the tile")
    looks = ({"color": BLUE, "marker": "o"}, {"color": ORANGE, "marker": "s", "linestyle": (0, (5, 2))})
    for (name, line), look in zip(lines.items(), looks, strict=True):
        times = len(changes[name])
        words = f"{name}: {times} rescaling{'s' * (times != 1)}"
        axes.step(tiles, line, where="post", linewidth=1.6, markevery=changes[name], label=words, **look)
    clean(axes)
    name_axes(axes, "tile of keys", "score, in units of log2")
    legend_below(figure)
    return figure


def store_picture(head_dim=64):
    """What one store instruction of a warp writes of 16-bit rows: from the registers, and from shared memory.

    Parameters
    ----------
    head_dim : int, a multiple of 64
    """
    row_bytes = 2 * head_dim
    whole = 32 * 16 // row_bytes  # rows that 32 lanes with 16 bytes each fill
    figure = Picture(
        8.4,
        2.7,
        f"One store instruction of a warp into rows of {row_bytes} bytes. From the registers: 4 bytes a lane, 16 bytes "
        f"in each of 8 rows, half of 8 sectors. From shared memory: 16 bytes a lane, {whole} whole rows, "
        f"{32 * 16 // _SECTOR_BYTES} full sectors.",
    )
    ways = (
        ("from registers: 4 bytes a lane, 8 half sectors", [(row, 0, 16) for row in range(8)]),
        (
            f"through shared memory: 16 bytes a lane, {512 // _SECTOR_BYTES} full sectors",
            [(r, 0, row_bytes) for r in range(whole)],
        ),
    )
    for axes, (title, written) in zip(figure.subplots(1, 2), ways, strict=True):
        for row in range(8):
            for start in range(0, row_bytes, _SECTOR_BYTES):
                box(axes, (start, row), _SECTOR_BYTES, 0.86, facecolor="white", edgecolor=PALE, linewidth=0.9)
            label(axes, (-3, row + 0.43), f"row {row}", size=7.5, ha="right")
        for row, start, width in written:
            box(axes, (start, row), width, 0.86, facecolor=SKY, hatch=HATCHES[1], edgecolor=INK, linewidth=0.9)
        canvas(axes, (-0.17 * row_bytes, row_bytes + 2), (8.8, -0.4))
        axes.set_title(title, fontsize=9, color=INK, loc="left")
        label(axes, (row_bytes / 2, 8.4), f"{row_bytes} bytes; a cell is a sector of 32", size=8, color=GREY)
    return figure
