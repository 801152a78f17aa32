"""Bars for bytes and for times, with the bound as a line.

May import: style, matplotlib.
"""

from .style import HATCHES, INK, PALE, SERIES, VERMILION, Picture, clean, name_axes


def bytes_bars(reads, writes, *, bound=None, title=""):
    """Horizontal stacked bars: bytes read and bytes written by each kernel.

    Parameters
    ----------
    reads, writes : dict, kernel -> bytes, same keys
    bound : bytes or None; the fewest that any kernel must move, drawn as a dashed line
    """
    told = "; ".join(f"{name} reads {reads[name]:,} and writes {writes[name]:,}" for name in reads)
    limit = "" if bound is None else f" The lower bound is {bound:,} bytes."
    figure = Picture(7.5, 0.55 * len(reads) + 1.3, f"Bytes of global memory by kernel. {told}.{limit}")
    axes = figure.subplots()
    names, unit = list(reads), 2**20
    first = [reads[name] / unit for name in names]
    axes.barh(names, first, color=SERIES[0], edgecolor=INK, linewidth=0.7, label="read", height=0.62)
    axes.barh(
        names,
        [writes[name] / unit for name in names],
        left=first,
        color=SERIES[1],
        edgecolor=INK,
        linewidth=0.7,
        hatch=HATCHES[1],
        label="written",
        height=0.62,
    )
    for row, name in enumerate(names):
        total = reads[name] + writes[name]
        axes.text(total / unit, row, f"  {total / unit:.2f} MiB", va="center", fontsize=9, color=INK)
    _finish(axes, title, "MiB of global memory", None if bound is None else (bound / unit, "lower bound"))
    axes.set_xlim(0, 1.2 * max(reads[name] + writes[name] for name in names) / unit)
    return figure


def time_bars(times, *, roof=None, title="", unit="us"):
    """Horizontal bars of times, the roof as a dashed line.

    Parameters
    ----------
    times : dict, name -> time in `unit`
    roof : time in `unit` that the memory bandwidth alone would take, or None
    """
    told = "; ".join(f"{name} {value:.3g} {unit}" for name, value in times.items())
    limit = "" if roof is None else f" The memory roof is {roof:.3g} {unit}."
    figure = Picture(7.5, 0.5 * len(times) + 1.3, f"Time by kernel. {told}.{limit}")
    axes = figure.subplots()
    for row, (name, value) in enumerate(times.items()):
        axes.barh(
            name,
            value,
            color=SERIES[row % len(SERIES)],
            hatch=HATCHES[row % len(HATCHES)],
            edgecolor=INK,
            linewidth=0.7,
            height=0.62,
        )
        axes.text(value, row, f"  {value:.3g}", va="center", fontsize=9, color=INK)
    _finish(axes, title, unit, None if roof is None else (roof, "memory roof"))
    axes.set_xlim(0, 1.15 * max([*times.values(), roof or 0]))
    return figure


def rate_bars(rates, *, marked=(), lines=None, title="", unit="TFLOP/s"):
    """Horizontal bars of rates in the order given, with ceilings as dashed lines; an empty picture without rates.

    Parameters
    ----------
    rates : dict, name -> rate in `unit`, or None where nothing was measured (left out)
    marked : names that are drawn in another colour and hatch, e.g. the libraries among the course's own
    lines : dict, name -> rate of a ceiling, at most three
    """
    rates, lines = {name: rate for name, rate in rates.items() if rate is not None}, lines or {}
    if not rates:
        figure = Picture(7.8, 0.8, f"{title}: no rows are stored yet, so there is nothing to draw.")
        figure.text(0.01, 0.5, figure.alt, fontsize=10, color=INK, va="center")
        return figure
    told = "; ".join(f"{name} {rate:.3g}" for name, rate in [*rates.items(), *lines.items()])
    figure = Picture(7.8, 0.36 * len(rates) + 1.2, f"{unit}, higher is better: {told}.")
    axes = figure.subplots()
    for row, (name, rate) in enumerate(rates.items()):
        look = {"color": SERIES[1], "hatch": HATCHES[1]} if name in marked else {"color": SERIES[0], "hatch": ""}
        axes.barh(name, rate, edgecolor=INK, linewidth=0.7, height=0.66, **look)
        axes.text(rate, row, f"  {rate:.0f}", va="center", fontsize=9, color=INK)
    for style, (name, rate) in zip(("--", ":", "-."), lines.items(), strict=False):
        axes.axvline(rate, color=VERMILION, linestyle=style, linewidth=1.6, label=name)
    _finish(axes, title, unit, None)
    axes.set_xlim(0, 1.08 * max([*rates.values(), *lines.values()]))
    return figure


def _finish(axes, title, label, line):
    """Titles, the dashed line with its name, the legend; first entry on top."""
    if line is not None:
        axes.axvline(line[0], color=VERMILION, linestyle="--", linewidth=1.6, label=line[1])
    axes.invert_yaxis()
    name_axes(axes, label, title=title)
    if axes.get_legend_handles_labels()[0]:
        axes.figure.legend(loc="outside lower center", fontsize=9, frameon=False, ncols=3)
    clean(axes)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
