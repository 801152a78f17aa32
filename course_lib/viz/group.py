"""Query heads that share a head of K and V: a block each, which all read it, or the rows of one product.

May import: style, matplotlib.
"""

from matplotlib.patches import FancyArrowPatch, Rectangle

from .style import BLUE, GREY, HATCHES, INK, ORANGE, PALE, Picture

_ROWS = 16  # of an mma


def group_picture(num_q_per_kv=4):
    """Two panels: `num_q_per_kv` blocks that read K and V each for itself, and one block whose mma has them as rows.

    Parameters
    ----------
    num_q_per_kv : int, 1 to 8
    """
    figure = Picture(
        8.4,
        2.6,
        f"Left: {num_q_per_kv} query heads, a block each, read the same head of K and V, {num_q_per_kv} times in all. "
        f"Right: the {num_q_per_kv} heads are rows 0 to {num_q_per_kv - 1} of one product of 16 rows, the other "
        f"{_ROWS - num_q_per_kv} rows are zeros, and K and V are read once.",
    )
    apart, packed = figure.subplots(1, 2)
    size = 4.0 / num_q_per_kv
    for row in range(num_q_per_kv):
        _box(apart, (0, row * size + 0.1), 2.6, size - 0.2, f"head {row}")
        _arrow(apart, (6.0, 2.0), (2.7, (row + 0.5) * size))
    _keys(apart, f"read {num_q_per_kv} times")
    step = 4.0 / _ROWS
    for row in range(_ROWS):
        look = (
            {"facecolor": BLUE, "alpha": 0.6}
            if row < num_q_per_kv
            else {"facecolor": PALE, "hatch": "...", "alpha": 0.7}
        )
        packed.add_patch(Rectangle((0, row * step), 2.6, step, edgecolor=GREY, linewidth=0.6, **look))
    _words(packed, (1.3, num_q_per_kv * step / 2), f"{num_q_per_kv} heads")
    _words(packed, (1.3, (_ROWS + num_q_per_kv) * step / 2), f"{_ROWS - num_q_per_kv} rows of zeros")
    _arrow(packed, (6.0, 2.0), (2.7, 2.0))
    _keys(packed, "read once")
    for axes, title in ((apart, "a block a query head"), (packed, "a block a group, one mma")):
        axes.set_title(title, fontsize=10, color=INK, loc="left")
        axes.set_xlim(-0.1, 9.0)
        axes.set_ylim(4.5, -0.15)
        axes.axis("off")
    return figure


def _keys(axes, words):
    axes.add_patch(Rectangle((6.1, 0.9), 2.6, 2.2, facecolor=ORANGE, hatch=HATCHES[1], edgecolor=INK, alpha=0.6))
    _words(axes, (7.4, 2.0), "K and V")
    axes.text(7.4, 3.55, words, ha="center", fontsize=9, color=INK)


def _box(axes, at, width, height, words):
    axes.add_patch(Rectangle(at, width, height, facecolor=BLUE, edgecolor=INK, alpha=0.6))
    _words(axes, (at[0] + width / 2, at[1] + height / 2), words)


def _words(axes, at, words):
    box = {"facecolor": "white", "pad": 1.5, "lw": 0}
    axes.text(*at, words, ha="center", va="center", fontsize=8.5, color=INK, bbox=box)


def _arrow(axes, start, end):
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=10, color=INK, linewidth=1.2))
