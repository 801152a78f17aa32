"""How long the arithmetic of a kernel takes at least, and how long its bytes: the difference is waiting.

May import: style, matplotlib.
"""

from .style import BLUE, HATCHES, INK, ORANGE, PALE, VERMILION, Picture, clean, name_axes


def waiting_share(arithmetic, memory, measured=None):
    """The share of its time in which a kernel has no arithmetic to do, 0 to 1.

    Parameters
    ----------
    arithmetic, memory : times in one unit, the least that either needs by itself
    measured : time that the kernel took, or None; without it the longer of the two bounds stands in, so the share is
        what a perfect kernel would still wait
    """
    total = max(arithmetic, memory) if measured is None else measured
    return max(0.0, 1.0 - arithmetic / total)


def waiting_bars(times, *, title="", unit="us"):
    """Two bars a kernel: the least time for its arithmetic, the least time for its bytes; a line where it was measured.

    Parameters
    ----------
    times : dict, name -> (arithmetic, memory, measured or None), in `unit`
    """
    told = "; ".join(f"{name}: {_say(*values, unit)}" for name, values in times.items())
    figure = Picture(7.8, 0.95 * len(times) + 1.35, f"Least time for arithmetic and for bytes. {told}.")
    axes = figure.subplots()
    for row, (arithmetic, memory, measured) in enumerate(times.values()):
        first = row == 0
        look = {"edgecolor": INK, "linewidth": 0.7, "height": 0.36}
        axes.barh(row - 0.19, arithmetic, color=BLUE, label="arithmetic, at least" if first else None, **look)
        axes.barh(
            row + 0.19, memory, color=ORANGE, hatch=HATCHES[1], label="bytes, at least" if first else None, **look
        )
        axes.text(arithmetic, row - 0.19, f"  {_short(arithmetic)}", va="center", fontsize=9, color=INK)
        axes.text(memory, row + 0.19, f"  {_short(memory)}", va="center", fontsize=9, color=INK)
        if measured is not None:
            style = {"color": VERMILION, "linewidth": 2, "label": "measured" if first else None}
            axes.plot([measured, measured], [row - 0.42, row + 0.42], **style)
    longest = max(value for values in times.values() for value in values if value is not None)
    for row, (_, _, measured) in enumerate(times.values()):
        if measured is not None:
            side = "right" if measured > 0.9 * longest else "left"
            axes.text(measured, row, f"  {_short(measured)}  ", va="center", ha=side, fontsize=9, color=INK)
    axes.set_yticks(range(len(times)), list(times))
    axes.set_xlim(0, 1.12 * longest)
    axes.invert_yaxis()
    name_axes(axes, unit, title=title)
    figure.legend(loc="outside lower center", fontsize=9, frameon=False, ncols=3)
    clean(axes)
    axes.tick_params(axis="y", labelsize=9)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure


def _say(arithmetic, memory, measured, unit):
    words = f"arithmetic {_short(arithmetic)} {unit}, bytes {_short(memory)} {unit}"
    return words if measured is None else f"{words}, measured {_short(measured)} {unit}"


def _short(value):
    """ "69.5", "1,398": three digits, and all of those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
