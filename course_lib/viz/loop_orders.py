"""Both orders of the two loops of FlashAttention at the same step, side by side, and the bytes of each so far.

May import: loop_grid, style, matplotlib.
"""

from .loop_grid import PARTS, _draw_grid
from .style import BLUE, INK, ORANGE, Picture, clean, name_axes

NAMES = ("K and V outside", "Q outside")
_LOOKS = ({"color": ORANGE, "hatch": "///"}, {"color": BLUE, "hatch": ""})


def loop_orders_picture(pair, number):
    """Two grids and their bytes at one step.

    Parameters
    ----------
    pair : two lists of LoopStep of the same length: K and V outside, Q outside
    number : int, from 0
    """
    figure = Picture(8.4, 2.9, both_sentences(pair, number))
    *grids, bars = figure.subplots(1, 3, width_ratios=(1, 1, 1.35))
    for axes, steps, name in zip(grids, pair, NAMES, strict=True):
        _draw_grid(axes, steps[number], number)
        axes.set_title(f"{name}, step {number + 1}", fontsize=9, color=INK, loc="left")
    _draw_both(bars, pair, number)
    return figure


def loop_orders_still(pair):
    """The still picture: the end of the first outer turn and the end of the walk, one above the other."""
    last = len(pair[0]) - 1
    numbers = sorted({min(pair[0][0].num_q_tiles, last), last})
    told = " ".join(f"Step {number + 1}. {both_sentences(pair, number)}" for number in numbers)
    figure = Picture(8.4, 2.9 * len(numbers), f"Two orders of the same loops. {told}")
    rows = figure.subplots(len(numbers), 3, squeeze=False, width_ratios=(1, 1, 1.35))
    for row, number in zip(rows, numbers, strict=True):
        for axes, steps, name in zip(row, pair, NAMES, strict=False):
            _draw_grid(axes, steps[number], number)
            axes.set_title(f"{name}, step {number + 1}", fontsize=9, color=INK, loc="left")
        _draw_both(row[2], pair, number)
    return figure


def both_sentences(pair, number):
    """What both orders have done after step `number`, in words."""
    return " ".join(f"{name}: {steps[number].sentence()}" for name, steps in zip(NAMES, pair, strict=True))


def _draw_both(axes, pair, number):
    """Two bars a tensor; the axis is that of the end of both walks, so that bars only ever grow."""
    most = max(max(steps[-1].moved_bytes.values()) for steps in pair)
    for which, (steps, look) in enumerate(zip(pair, _LOOKS, strict=True)):
        moved = steps[number].moved_bytes
        for at, part in enumerate(PARTS):
            y = at + 0.4 * which - 0.2
            axes.barh(y, moved[part], height=0.36, edgecolor="white", **look, label=NAMES[which] if at == 0 else None)
            axes.text(moved[part] + 0.02 * most, y, f"{moved[part]:,}", va="center", fontsize=7, color=INK)
    totals = [sum(steps[number].moved_bytes.values()) for steps in pair]
    axes.set_xlim(0, 1.35 * most)
    axes.set_ylim(len(PARTS) + 0.35, -0.6)
    clean(axes, bottom=False)
    axes.set_yticks(range(len(PARTS)), PARTS)
    axes.legend(loc="lower right", fontsize=7, frameon=False, ncols=2)
    name_axes(axes, "", "", f"{totals[0]:,} against {totals[1]:,} bytes")
