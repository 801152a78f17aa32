"""Memory over sequence length on two logarithmic axes, formula as lines, measurements as marks, cards as ceilings.

May import: style, growth, matplotlib.
"""

from .growth import size_text
from .style import GREY, INK, PALE, SERIES, Picture, clean, name_axes

_LINES, _MARKERS = ("-", (0, (5, 2)), (0, (1, 1.2))), ("o", "s", "^")


def last_that_fits(points, limit_bytes):
    """The largest N of [(N, bytes)] whose bytes stay within the limit, None when none does."""
    fits = [at for at, value in points if value <= limit_bytes]
    return max(fits) if fits else None


def memory_curves(formula, measured, *, limit, title=""):
    """One line a way to compute attention, from small N to where the most frugal one still fits.

    Parameters
    ----------
    formula : dict, name -> sequence of (N, bytes), drawn as a line; above the limit it turns thin
    measured : dict, a name of `formula` -> sequence of (N, bytes), drawn as marks on it; may be empty
    limit : (bytes, its name), a horizontal line

    Returns
    -------
    Picture
    """
    ends = {name: last_that_fits(points, limit[0]) for name, points in formula.items()}
    told = "; ".join(f"{name}: the last of these lengths that fits is {end or 'none'}" for name, end in ends.items())
    seen = "; ".join(f"{name} measured at {len(points)} lengths" for name, points in measured.items() if points)
    figure = Picture(7.8, 3.8, f"Bytes beyond q, k and v against N. Limit: {limit[1]}. {told}. {seen}.")
    axes = figure.subplots()
    for number, (name, points) in enumerate(formula.items()):
        colour = SERIES[number % len(SERIES)]
        fitting = [point for point in points if point[1] <= limit[0]]
        axes.plot(*zip(*points, strict=True), color=colour, linewidth=0.8, linestyle=":")
        axes.plot(*zip(*fitting, strict=True), color=colour, linewidth=2, linestyle=_LINES[number % 3])
        marks = measured.get(name) or ()
        if marks:
            look = {"color": colour, "markeredgecolor": INK, "markersize": 5.5, "linestyle": ""}
            axes.plot(*zip(*marks, strict=True), marker=_MARKERS[number % 3], **look)
        _name_end(axes, name, fitting[-1], at_the_edge=fitting[-1] == points[-1])
    axes.axhline(limit[0], color=GREY, linewidth=1, linestyle="--")
    farthest = max(n for points in formula.values() for n, _ in points)
    axes.text(farthest, 1.15 * limit[0], limit[1], fontsize=9, color=INK, va="bottom", ha="right")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    name_axes(axes, "N queries and keys", "bytes", title)
    _ticks(axes, formula, limit[0])
    clean(axes)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    return figure


def _name_end(axes, name, point, *, at_the_edge):
    """Name and size at the last point that fits: beside it, or above it where the picture ends."""
    look = {"xytext": (-8, 6), "ha": "right", "va": "bottom"} if at_the_edge else {"xytext": (9, -2), "va": "top"}
    text = f"{name}:\n{size_text(point[1])} at N = {point[0]:,}"
    axes.annotate(text, point, textcoords="offset points", fontsize=9, color=INK, **look)


def _ticks(axes, formula, limit_bytes):
    """Powers of two as lengths, KiB to TiB as sizes; nothing far above the limit is shown."""
    lengths = sorted({n for points in formula.values() for n, _ in points})
    axes.set_xticks(lengths[::2], [f"{n:,}" for n in lengths[::2]])
    smallest = min(value for points in formula.values() for _, value in points)
    sizes = [2**power for power in range(10, 50, 5) if smallest / 8 <= 2**power <= 8 * limit_bytes]
    axes.set_yticks(sizes, [size_text(size) for size in sizes])
    axes.set_ylim(smallest / 2, 6 * limit_bytes)
    axes.minorticks_off()
