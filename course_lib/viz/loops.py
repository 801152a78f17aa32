"""The two loops of FlashAttention on the grid of tiles, in either order, with the bytes moved so far by each tensor.

May import: style, drawing, matplotlib.
"""

from dataclasses import dataclass

from .drawing import box, clean, label, name_axes
from .style import BLUE, GREEN, GREY, HATCHES, INK, ORANGE, PALE, PURPLE, Picture

PARTS = ("K and V", "Q", "out", "m and l")
ORDERS = ("K and V outside", "Q outside")
_PART_LOOKS = tuple(
    {"color": colour, "hatch": hatch} for colour, hatch in zip((BLUE, ORANGE, GREEN, PURPLE), HATCHES, strict=False)
)
_ORDER_LOOKS = ({"color": ORANGE, "hatch": "///"}, {"color": BLUE, "hatch": ""})
_KEY = "hatched: this step · grey: done · thick outline: stays on chip"
_PAIR_WIDTHS = (1, 1, 1.35)  # of the two grids and their bars


@dataclass(frozen=True)
class LoopStep:
    """One iteration of the inner loop: a tile of K and V with a tile of Q; the outer one of the two stays on chip."""

    kv_tile: int
    q_tile: int
    num_kv_tiles: int
    num_q_tiles: int
    moved_bytes: dict[str, int]  # part -> bytes since the start, both directions
    q_outside: bool = False

    def sentence(self):
        """Both tiles and the bytes moved so far, in words."""
        total = sum(self.moved_bytes.values())
        parts = ", ".join(f"{part} {count:,}" for part, count in self.moved_bytes.items())
        names = [
            f"K/V tile {self.kv_tile + 1} of {self.num_kv_tiles}",
            f"Q tile {self.q_tile + 1} of {self.num_q_tiles}",
        ]
        return f"{', '.join(names[:: -1 if self.q_outside else 1])}: {total:,} bytes moved so far ({parts})."


def loop_steps(seq_len_q=8, seq_len_kv=8, head_dim=4, block_m=2, block_n=2, *, itemsize=4, q_outside=False):
    """Every iteration of the two loops for one head without a mask.

    Parameters
    ----------
    seq_len_q, seq_len_kv, head_dim, block_m, block_n : int, at least 1
    itemsize : bytes of one number
    q_outside : bool; False: K and V in the outer loop (FlashAttention-1), True: Q (FlashAttention-2)

    Returns
    -------
    list of LoopStep, in the order in which they happen
    """
    rows = [min(block_m, seq_len_q - start) for start in range(0, seq_len_q, block_m)]  # of each Q tile
    keys = [min(block_n, seq_len_kv - start) for start in range(0, seq_len_kv, block_n)]  # of each K/V tile
    steps = _steps_q_outside if q_outside else _steps_kv_outside
    return steps(rows, keys, head_dim * itemsize, itemsize)


def _steps_kv_outside(rows, keys, row_bytes, itemsize):
    """K and V stay on chip; the state and the output of every row travel with each of their tiles."""
    moved, steps = dict.fromkeys(PARTS, 0), []
    for kv_tile, num_keys in enumerate(keys):
        moved["K and V"] += 2 * num_keys * row_bytes
        ways = 2 if kv_tile else 1  # the first tile has nothing to read back
        for q_tile, num_rows in enumerate(rows):
            moved["Q"] += num_rows * row_bytes
            moved["out"] += ways * num_rows * row_bytes
            moved["m and l"] += ways * 2 * num_rows * itemsize
            steps.append(LoopStep(kv_tile, q_tile, len(keys), len(rows), dict(moved)))
    return steps


def _steps_q_outside(rows, keys, row_bytes, _itemsize):
    """Q stays on chip with the state of its rows; `out` is written when its tile is done."""
    moved, steps = dict.fromkeys(PARTS, 0), []
    for q_tile, num_rows in enumerate(rows):
        moved["Q"] += num_rows * row_bytes
        for kv_tile, num_keys in enumerate(keys):
            moved["K and V"] += 2 * num_keys * row_bytes
            if kv_tile == len(keys) - 1:
                moved["out"] += num_rows * row_bytes
            steps.append(LoopStep(kv_tile, q_tile, len(keys), len(rows), dict(moved), q_outside=True))
    return steps


def loop_step_picture(steps, number):
    """The grid and the bytes at one step; `number` counts from 0."""
    figure = _loops_figure(7.5, 3.1, steps[number].sentence())
    grid, bars = figure.subplots(1, 2, width_ratios=(1, 1.4))
    _draw_grid(grid, steps[number], number)
    _draw_bytes(bars, steps, number)
    return figure


def loop_picture(steps):
    """The still picture of one order: four steps of the loops, side by side, and the bytes at each."""
    last = len(steps) - 1
    numbers = sorted({0, min(steps[0].num_q_tiles - 1, last), min(steps[0].num_q_tiles, last), last})
    alt_text = " ".join(steps[number].sentence() for number in numbers)
    figure = _loops_figure(7.8, 4.4, f"Four moments of the two loops on the grid of tiles. {alt_text}")
    axes = figure.subplots(2, len(numbers), squeeze=False, height_ratios=(1.2, 1))
    for column, number in enumerate(numbers):
        _draw_grid(axes[0][column], steps[number], number)
        _draw_bytes(axes[1][column], steps, number, names=column == 0)
    return figure


def loop_orders_picture(pair, number):
    """Two grids and their bytes at one step.

    Parameters
    ----------
    pair : two lists of LoopStep of the same length: K and V outside, Q outside
    number : int, from 0
    """
    figure = _loops_figure(8.4, 3.1, both_sentences(pair, number))
    _draw_pair(figure.subplots(1, 3, width_ratios=_PAIR_WIDTHS), pair, number)
    return figure


def loop_orders_still(pair):
    """The still picture of both orders: the end of the first outer iteration and the end of the loops."""
    last = len(pair[0]) - 1
    numbers = sorted({min(pair[0][0].num_q_tiles, last), last})
    alt_text = " ".join(f"Step {number + 1}. {both_sentences(pair, number)}" for number in numbers)
    figure = _loops_figure(8.4, 2.9 * len(numbers), f"Two orders of the same loops. {alt_text}")
    rows = figure.subplots(len(numbers), 3, squeeze=False, width_ratios=_PAIR_WIDTHS)
    for row, number in zip(rows, numbers, strict=True):
        _draw_pair(row, pair, number)
    return figure


def both_sentences(pair, number):
    """The sentences of both orders at step `number`."""
    return " ".join(f"{name}: {steps[number].sentence()}" for name, steps in zip(ORDERS, pair, strict=True))


def _draw_pair(row, pair, number):
    """Two grids and the bars of both in three axes."""
    for axes, steps, name in zip(row, pair, ORDERS, strict=False):
        _draw_grid(axes, steps[number], number)
        axes.set_title(f"{name}, step {number + 1}", fontsize=9, color=INK, loc="left")
    _draw_both_bytes(row[2], pair, number)


def _loops_figure(width, height, alt_text):
    """A Picture with the key of the grids under it."""
    figure = Picture(width, height, alt_text)
    figure.supxlabel(_KEY, fontsize=8, color=GREY)
    return figure


def _draw_grid(axes, step, number):
    """The tiles visited so far, numbered, the current one hatched, and an outline round what stays on chip."""
    for kv_tile in range(step.num_kv_tiles):
        for q_tile in range(step.num_q_tiles):
            turn = q_tile * step.num_kv_tiles + kv_tile if step.q_outside else kv_tile * step.num_q_tiles + q_tile
            now, done = turn == number, turn < number
            look = {"facecolor": ORANGE if now else PALE if done else "white", "hatch": "///" if now else ""}
            box(axes, (kv_tile, q_tile), 1, 1, edgecolor=INK if now else GREY, **look)
            if done:
                label(axes, (kv_tile + 0.5, q_tile + 0.5), f"{turn + 1}", size=7)
    held = ((0, step.q_tile), step.num_kv_tiles, 1) if step.q_outside else ((step.kv_tile, 0), 1, step.num_q_tiles)
    box(axes, *held, fill=False, edgecolor=BLUE, linewidth=2.5)
    axes.set(xlim=(-0.1, step.num_kv_tiles + 0.1), ylim=(step.num_q_tiles + 0.1, -0.1), aspect="equal")
    clean(axes, left=False, bottom=False)
    kv_loop, q_loop = ("inner", "outer loop") if step.q_outside else ("outer loop", "inner")
    name_axes(axes, f"K and V tiles, {kv_loop}", f"Q tiles, {q_loop}", f"step {number + 1}")


def _draw_bytes(axes, steps, number, *, names=True):
    """One bar a tensor; the axis fits the last step, so that bars only grow."""
    moved, most = steps[number].moved_bytes, max(steps[-1].moved_bytes.values())
    for y, (part, look) in enumerate(zip(PARTS, _PART_LOOKS, strict=True)):
        axes.barh(y, moved[part], edgecolor="white", **look)
        axes.text(moved[part] + 0.02 * most, y, f"{moved[part]:,}", va="center", fontsize=8, color=INK)
    axes.set(xlim=(0, 1.45 * most), ylim=(len(PARTS) - 0.4, -0.6))
    clean(axes, bottom=False)
    axes.set_yticks(range(len(PARTS)), PARTS if names else [""] * len(PARTS))
    name_axes(axes, "", "", f"{sum(moved.values()):,} bytes")


def _draw_both_bytes(axes, pair, number):
    """Two bars a tensor; the axis fits the last step of both orders."""
    most = max(max(steps[-1].moved_bytes.values()) for steps in pair)
    for order, (steps, look) in enumerate(zip(pair, _ORDER_LOOKS, strict=True)):
        moved = steps[number].moved_bytes
        for row, part in enumerate(PARTS):
            y, entry = row + 0.4 * order - 0.2, ORDERS[order] if row == 0 else None
            axes.barh(y, moved[part], height=0.36, edgecolor="white", **look, label=entry)
            axes.text(moved[part] + 0.02 * most, y, f"{moved[part]:,}", va="center", fontsize=7, color=INK)
    totals = [sum(steps[number].moved_bytes.values()) for steps in pair]
    axes.set(xlim=(0, 1.35 * most), ylim=(len(PARTS) + 0.35, -0.6))
    clean(axes, bottom=False)
    axes.set_yticks(range(len(PARTS)), PARTS)
    axes.legend(loc="lower right", fontsize=7, frameon=False, ncols=2)
    name_axes(axes, "", "", f"{totals[0]:,} against {totals[1]:,} bytes")
