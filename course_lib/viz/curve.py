"""Curves over a size: one line a kernel, named where it ends.

May import: style, matplotlib.
"""

import math

from .style import GREY, INK, PALE, SERIES, Picture, clean, name_axes

_LINES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)))
_MARKERS = ("o", "s", "^", "D", "v")
_LEAST_GAP = 0.055  # between two names, as a share of the axis


def curves(series, *, x, y, title="", reference=None):
    """Lines with markers over a logarithmic x axis; each line differs in colour, dash and marker.

    Parameters
    ----------
    series : dict, name -> sequence of (x, y), x > 0; a name without points is left out
    x, y : str, what the axes show, with units
    reference : (y value, its name) or None; a thin horizontal line
    """
    series = {name: sorted(points) for name, points in series.items() if points}
    told = "; ".join(
        f"{name}: " + ", ".join(f"{value:.3g} at {at:g}" for at, value in points) for name, points in series.items()
    )
    if not series:
        return _empty(title)
    figure = Picture(7.8, 3.6, f"{y} against {x}. {told}.")
    axes = figure.subplots()
    for number, points in enumerate(series.values()):
        look = {"marker": _MARKERS[number % 5], "linestyle": _LINES[number % 5], "color": SERIES[number % 5]}
        axes.plot(*zip(*points, strict=True), **look, linewidth=1.8, markersize=5.5, markeredgecolor=INK)
    axes.set_xscale("log", base=2)
    ticks = sorted({at for points in series.values() for at, _ in points})
    axes.set_xticks(ticks, _tick_names(ticks))
    top = max([value for points in series.values() for _, value in points] + ([reference[0]] if reference else []))
    axes.set_ylim(0, 1.08 * top)
    if reference:
        axes.axhline(reference[0], color=GREY, linewidth=1, linestyle=":")
        axes.text(ticks[-1], reference[0] + 0.012 * top, reference[1], fontsize=9, color=INK, va="bottom", ha="right")
    _name_lines(axes, series)
    name_axes(axes, x, y, title)
    clean(axes)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    return figure


def _tick_names(ticks):
    """Each tick's number, and "" where it would touch the next one to the right on the logarithmic axis."""
    names, beyond = [], math.inf
    least = 0.03 * math.log2(ticks[-1] / ticks[0])  # of the axis's length
    for tick in reversed(ticks):
        near = beyond - math.log2(tick) < least
        names.append("" if near else f"{tick:,.0f}")
        beyond = beyond if near else math.log2(tick)
    return names[::-1]


def _empty(title):
    """What a page shows while nothing has been measured."""
    figure = Picture(7.8, 0.8, f"{title}: no rows are stored yet, so there is nothing to draw.")
    figure.text(0.01, 0.5, figure.alt, fontsize=10, color=INK, va="center")
    return figure


def _name_lines(axes, series):
    """The name of each line beside its last point, moved apart where two would overlap and up from the axis."""
    low, high = axes.get_ylim()
    ends = sorted((points[-1][1], points[-1][0], name) for name, points in series.items())
    at = low - 0.5 * _LEAST_GAP * (high - low)
    for value, last, name in ends:
        at = max(value, at + _LEAST_GAP * (high - low))
        axes.annotate(f"  {name}", (last, at), fontsize=9, color=INK, va="center", annotation_clip=False)
