"""Four warps share a tile of scores: by rows of Q, or by keys. Who then holds which piece of the output.

May import: style, matplotlib.
"""

from matplotlib.patches import FancyArrowPatch, Rectangle

from .style import HATCHES, INK, SERIES, Picture

_TITLES = ("split Q: a warp owns rows", "split K: a warp owns keys")


def warp_split_picture(num_warps=4):
    """Two panels: the tile of scores cut among the warps, and the output rows with their owners.

    Parameters
    ----------
    num_warps : int, 2 to 5
    """
    figure = Picture(
        8.4,
        3.0,
        f"A tile of scores shared by {num_warps} warps. Split Q: each warp has all keys of its rows, so it owns those "
        "rows of the output and talks to no other warp. Split K: each warp has some keys of all rows, so every output "
        f"row is the sum of {num_warps} partial rows that meet in shared memory.",
    )
    for axes, title, by_rows in zip(figure.subplots(1, 2), _TITLES, (True, False), strict=True):
        axes.set_title(title, fontsize=10, color=INK, loc="left")
        for warp in range(num_warps):
            look = {"facecolor": SERIES[warp % 5], "hatch": HATCHES[warp % 5], "edgecolor": INK, "alpha": 0.55}
            _draw_share(axes, warp, num_warps, by_rows, look)
        axes.text(2, -0.25, "scores (BLOCK_M x BLOCK_N)", ha="center", fontsize=8, color=INK)
        axes.text(7.2, -0.25, "out (BLOCK_M x HEAD_DIM)", ha="center", fontsize=8, color=INK)
        _draw_way(axes, num_warps, by_rows)
        axes.set_xlim(-0.2, 9.4)
        axes.set_ylim(5.2, -0.7)
        axes.axis("off")
    return figure


def _draw_share(axes, warp, num_warps, by_rows, look):
    """The piece of the scores that one warp computes, and its piece of the output."""
    size = 4 / num_warps
    place = ((0, warp * size), 4, size) if by_rows else ((warp * size, 0), size, 4)
    axes.add_patch(Rectangle(*place, **look))
    middle = (2, (warp + 0.5) * size) if by_rows else ((warp + 0.5) * size, 2)
    _name(axes, middle, f"warp {warp}" if by_rows else f"{warp}")
    if by_rows:
        axes.add_patch(Rectangle((6, warp * size), 2.4, size, **look))
        _name(axes, (7.2, (warp + 0.5) * size), f"warp {warp}")
    else:
        shift = 0.22 * warp
        axes.add_patch(
            Rectangle((5.9 + shift, shift), 2.3, 3.3, facecolor="white")
        )  # the one below must not shine through
        axes.add_patch(Rectangle((5.9 + shift, shift), 2.3, 3.3, **look))


def _draw_way(axes, num_warps, by_rows):
    """How scores become output: straight through, or through shared memory."""
    for line in range(num_warps) if by_rows else range(1):
        y = (line + 0.5) * 4 / num_warps if by_rows else 2
        arrow = {"arrowstyle": "-|>", "mutation_scale": 11, "color": INK, "linewidth": 1.4}
        axes.add_patch(FancyArrowPatch((4.1, y), (5.8, y), **arrow))
    words = "registers to registers" if by_rows else f"{num_warps} partial outputs, added in shared memory"
    axes.text(4.7, 4.75, words, ha="center", fontsize=9, color=INK)


def _name(axes, at, words):
    axes.text(
        *at, words, ha="center", va="center", fontsize=8, color=INK, bbox={"facecolor": "white", "pad": 1.5, "lw": 0}
    )
