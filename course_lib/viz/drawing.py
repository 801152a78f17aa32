"""Drawing helpers that the pictures share: axes, legends, rectangles, arrows and words.

May import: style, matplotlib.
"""

from matplotlib.patches import FancyArrowPatch, Rectangle

from .style import HATCHES, INK, PALE, SERIES, Picture


def empty_picture(title):
    """A line of text for a chart without data."""
    figure = Picture(7.8, 0.8, f"{title}: no rows are stored yet, so there is nothing to draw.")
    figure.text(0.01, 0.5, figure.alt_text, fontsize=10, color=INK, va="center")
    return figure


def name_axes(axes, x, y="", title=""):
    """Set the axis labels, with units, and a title at the top left."""
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    axes.set_title(title, fontsize=10, color=INK, loc="left")


def clean(axes, *, left=True, bottom=True):
    """Remove the frame; `left` and `bottom` keep those two lines and their ticks. A dark style changes nothing."""
    axes.set_facecolor("white")
    for spine in axes.spines.values():
        spine.set_edgecolor("black")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines["left"].set_visible(left)
    axes.spines["bottom"].set_visible(bottom)
    axes.tick_params(colors=INK, labelsize=8, length=3)
    axes.tick_params(which="minor", color="black")
    if not left:
        axes.set_yticks([])
    if not bottom:
        axes.set_xticks([])


def hide_spines(axes):
    """Remove the frame and leave ticks and labels as they are."""
    for spine in axes.spines.values():
        spine.set_visible(False)


def grid_lines(axes, axis):
    """Pale lines under the data, across the "x" or "y" axis or "both"."""
    axes.grid(axis=axis, color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)


def canvas(axes, xlim, ylim, *, title="", equal=False):
    """A blank drawing area with these data limits; `equal` gives both directions one scale."""
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    axes.set(xlim=xlim, ylim=ylim)
    if equal:
        axes.set_aspect("equal")
    axes.axis("off")


def legend_below(figure, *, size=9, columns=3):
    """One legend for the figure, under its axes."""
    figure.legend(loc="outside lower center", fontsize=size, frameon=False, ncols=columns, labelcolor=INK)


def fill(number, alpha=0.6):
    """Patch properties of series `number`: colour, hatch and outline."""
    return {"facecolor": SERIES[number % 5], "hatch": HATCHES[number % 5], "edgecolor": INK, "alpha": alpha}


def box(axes, corner, width, height, **look):
    """Draw a rectangle; `corner` is its (x, y) of least values."""
    axes.add_patch(Rectangle(corner, width, height, **look))


def arrow(axes, start, end, *, size=10, **look):
    """Draw an arrow from `start` to `end`, without matplotlib's gaps at its ends if `shrinkA` and `shrinkB` are 0."""
    look = {"color": INK, "linewidth": 1.2, "arrowstyle": "-|>", **look}
    axes.add_patch(FancyArrowPatch(start, end, mutation_scale=size, **look))


def label(axes, point, text, *, size=9, pad=None, **look):
    """Write `text` centred at `point`; `pad`, in points, puts a white box behind it, so that no hatch crosses it."""
    look = {"ha": "center", "va": "center", "color": INK, **look}
    if pad is not None:
        look["bbox"] = {"facecolor": "white", "pad": pad, "lw": 0}
    axes.text(*point, text, fontsize=size, **look)


def plural(count, noun):
    """1, "wave" -> "1 wave"; 2, "wave" -> "2 waves"."""
    return f"{count} {noun}{'s' * (count != 1)}"
