"""Query heads that share a head of K and V: a block each, which all read it, or the columns of one product.

May import: style, matplotlib.
"""

from matplotlib.patches import FancyArrowPatch, Rectangle

from .style import BLUE, GREY, HATCHES, INK, ORANGE, PALE, Picture

_COLUMNS = 8  # of an mma


def group_picture(num_q_per_kv=4):
    """Two panels: `num_q_per_kv` blocks that read K and V each for itself, and one block whose mma has them as columns.

    Parameters
    ----------
    num_q_per_kv : int, 2 to 7
    """
    idle = _COLUMNS - num_q_per_kv
    figure = Picture(
        8.4,
        2.6,
        f"Left: {num_q_per_kv} query heads, a block each, read the same head of K and V, {num_q_per_kv} times in all. "
        f"Right: the {num_q_per_kv} heads are the first columns of one product of {_COLUMNS} columns, the other {idle} "
        "are zeros, and K and V are read once.",
    )
    apart, packed = figure.subplots(1, 2)
    size = 4.0 / num_q_per_kv
    for row in range(num_q_per_kv):
        apart.add_patch(Rectangle((6.2, row * size + 0.1), 2.6, size - 0.2, facecolor=BLUE, edgecolor=INK, alpha=0.6))
        _words(apart, (7.5, (row + 0.5) * size), f"head {row}")
        _arrow(apart, (2.8, 2.0), (6.1, (row + 0.5) * size))
    _keys(apart, f"read {num_q_per_kv} times")
    step = 2.8 / _COLUMNS
    for column in range(_COLUMNS):
        look = {"facecolor": BLUE, "alpha": 0.6}
        if column >= num_q_per_kv:
            look = {"facecolor": PALE, "hatch": "...", "alpha": 0.7}
        packed.add_patch(Rectangle((6.0 + column * step, 0.9), step, 2.2, edgecolor=GREY, linewidth=0.6, **look))
    packed.text(6.0 + num_q_per_kv * step / 2, 0.7, f"{num_q_per_kv} heads", ha="center", fontsize=9, color=INK)
    middle = 6.0 + (num_q_per_kv + idle / 2) * step
    packed.text(middle, 3.55, f"{idle} columns of zeros", ha="center", fontsize=9, color=INK)
    _arrow(packed, (2.8, 2.0), (5.9, 2.0))
    _keys(packed, "read once")
    for axes, title in ((apart, "a block a query head"), (packed, "a block a group, one mma")):
        axes.set_title(title, fontsize=10, color=INK, loc="left")
        axes.set_xlim(-0.1, 9.6)
        axes.set_ylim(4.2, -0.15)
        axes.axis("off")
    return figure


def _keys(axes, words):
    axes.add_patch(Rectangle((0.1, 0.9), 2.6, 2.2, facecolor=ORANGE, hatch=HATCHES[1], edgecolor=INK, alpha=0.6))
    _words(axes, (1.4, 2.0), "K and V")
    axes.text(1.4, 3.55, words, ha="center", fontsize=9, color=INK)


def _words(axes, at, words):
    box = {"facecolor": "white", "pad": 1.5, "lw": 0}
    axes.text(*at, words, ha="center", va="center", fontsize=8.5, color=INK, bbox=box)


def _arrow(axes, start, end):
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=10, color=INK, linewidth=1.2))
