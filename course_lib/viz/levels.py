"""The levels of memory as two columns of bars: how much they hold, and how fast they give it.

May import: style, matplotlib.
"""

from .style import HATCHES, INK, PALE, SERIES, Picture, clean, name_axes


def levels_picture(levels, title):
    """Size and rate of each level on logarithmic axes; what is unknown is written as unknown.

    Parameters
    ----------
    levels : sequence with .name, .scope, .size_bytes, .gbps, nearest first
    title : str, the card
    """
    told = "; ".join(f"{one.name}, shared by {one.scope}: {_size(one.size_bytes)}, {_rate(one.gbps)}" for one in levels)
    figure = Picture(7.8, 2.7, f"Memory of {title}. {told}.")
    left, right = figure.subplots(1, 2, sharey=True)
    columns = (
        (left, [one.size_bytes for one in levels], _size, "bytes on the whole card", (1e6, 3e13)),
        (right, [one.gbps for one in levels], _rate, "GB/s at best", (1, 3e7)),
    )
    for axes, values, say, label, limits in columns:
        for row, value in enumerate(values):
            look = {"color": SERIES[row % 5], "hatch": HATCHES[row % 5], "edgecolor": INK, "linewidth": 0.7}
            axes.barh(row, value or limits[0], height=0.62, **look)
            axes.text((value or limits[0]) * 1.3, row, say(value), va="center", fontsize=8.5, color=INK)
        axes.set(xscale="log", xlim=limits)
        name_axes(axes, label)
        clean(axes)
        axes.grid(axis="x", color=PALE, linewidth=0.5)
        axes.set_axisbelow(True)
    left.set_yticks(range(len(levels)), [one.name for one in levels])
    left.invert_yaxis()
    figure.suptitle(title, fontsize=10, color=INK, x=0.01, ha="left")
    return figure


def _size(value):
    if value is None:
        return "not the card's"
    return f"{value / 1e9:.0f} GB" if value >= 1e10 else f"{value / 2**20:.3g} MiB"


def _rate(value):
    if value is None:
        return "not published"
    return f"{value / 1000:.3g} TB/s" if value >= 1000 else f"{value:.3g} GB/s"
