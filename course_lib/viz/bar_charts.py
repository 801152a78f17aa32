"""Horizontal bars: bytes by kernel, times, rates, and the least times for arithmetic and for bytes.

May import: style, drawing, matplotlib.
"""

from .drawing import clean, empty_picture, grid_lines, legend_below, name_axes
from .style import BLUE, HATCHES, INK, ORANGE, SERIES, VERMILION, Picture

_OUTLINE = {"edgecolor": INK, "linewidth": 0.7}
_KINDS = "kernels of the course", "for comparison"  # bars that are plain, and marked ones
_CEILING_DASHES = ("--", ":", "-.")


def bytes_bars(reads, writes, *, bound=None, title=""):
    """Stacked bars of the bytes that each kernel reads and writes.

    Parameters
    ----------
    reads, writes : dict, kernel -> bytes, same keys
    bound : bytes or None; the fewest that any kernel must move, drawn as a dashed line
    """
    alt_text = "; ".join(f"{name} reads {reads[name]:,} and writes {writes[name]:,}" for name in reads)
    limit = "" if bound is None else f" The lower bound is {bound:,} bytes."
    figure = Picture(7.5, 0.55 * len(reads) + 1.3, f"Bytes of global memory by kernel. {alt_text}.{limit}")
    axes = figure.subplots()
    names = list(reads)
    unit, unit_name = (2**20, "MiB") if max(reads[name] + writes[name] for name in names) >= 2**20 else (2**10, "KiB")
    read, written = ([num_bytes[name] / unit for name in names] for num_bytes in (reads, writes))
    axes.barh(names, read, color=BLUE, label="read", height=0.62, **_OUTLINE)
    axes.barh(names, written, left=read, color=ORANGE, hatch=HATCHES[1], label="written", height=0.62, **_OUTLINE)
    totals = [a + b for a, b in zip(read, written, strict=True)]
    for row, total in enumerate(totals):
        _value(axes, total, row, f"{total:.2f} {unit_name}")
    if bound is not None:
        _ceiling(axes, bound / unit, "lower bound")
    _finish(axes, title, f"{unit_name} of global memory")
    axes.set_xlim(0, 1.2 * max(totals))
    return figure


def time_bars(times, *, roof=None, title="", unit="us"):
    """Bars of times, the roof as a dashed line.

    Parameters
    ----------
    times : dict, name -> time in `unit`
    roof : time in `unit` that the memory bandwidth alone would take, or None
    """
    alt_text = "; ".join(f"{name} {value:.3g} {unit}" for name, value in times.items())
    limit = "" if roof is None else f" The memory roof is {roof:.3g} {unit}."
    figure = Picture(7.5, 0.5 * len(times) + 1.3, f"Time by kernel. {alt_text}.{limit}")
    axes = figure.subplots()
    for row, (name, value) in enumerate(times.items()):
        axes.barh(name, value, color=BLUE, height=0.62, **_OUTLINE)
        _value(axes, value, row, f"{value:.3g}")
    if roof is not None:
        _ceiling(axes, roof, "memory roof")
    _finish(axes, title, unit)
    axes.set_xlim(0, 1.15 * max([*times.values(), roof or 0]))
    return figure


def count_bars(counts, *, title="", unit=""):
    """Stacked bars of counts, one bar a row; each number is in its part.

    Parameters
    ----------
    counts : dict, row -> {part: count}, the same parts in each; at most five
    """
    said = "; ".join(
        f"{row}: {', '.join(f'{number} {part}' for part, number in parts.items() if number)}"
        for row, parts in counts.items()
    )
    figure = Picture(7.8, 0.36 * len(counts) + 1.4, f"{title}, in {unit}. {said}.")
    axes = figure.subplots()
    ends = dict.fromkeys(counts, 0)
    for series, part in enumerate(next(iter(counts.values()))):
        numbers = [parts[part] for parts in counts.values()]
        look = {"color": SERIES[series], "hatch": HATCHES[series], "height": 0.66, **_OUTLINE}
        axes.barh(list(counts), numbers, left=list(ends.values()), label=part, **look)
        for row, (name, number) in enumerate(zip(counts, numbers, strict=True)):
            if number:
                where = {"ha": "center", "va": "center", "fontsize": 8, "color": INK}
                plate = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
                axes.text(ends[name] + number / 2, row, str(number), bbox=plate, **where)
            ends[name] += number
    _finish(axes, title, unit)
    return figure


def rate_bars(rates, *, marked=(), kinds=_KINDS, lines=None, title="", unit="TFLOP/s"):
    """Bars of rates in the order given, with ceilings as dashed lines; an empty picture without rates.

    Parameters
    ----------
    rates : dict, name -> rate in `unit`, or None where nothing was measured (left out)
    marked : names of what is there for comparison, such as libraries; drawn in another colour and hatch
    kinds : (str, str), what the legend calls the other bars and the marked ones, if there are marked ones
    lines : dict, name -> rate of a ceiling, at most three
    """
    rates, lines = {name: rate for name, rate in rates.items() if rate is not None}, lines or {}
    if not rates:
        return empty_picture(title)
    alt_text = "; ".join(f"{name} {rate:.3g}" for name, rate in [*rates.items(), *lines.items()])
    figure = Picture(7.8, 0.36 * len(rates) + 1.2, f"{unit}, higher is better: {alt_text}.")
    axes = figure.subplots()
    entries = list(kinds) if set(marked) & set(rates) else [None, None]
    for row, (name, rate) in enumerate(rates.items()):
        series = int(name in marked)
        look = {"color": SERIES[series], "hatch": HATCHES[series], "height": 0.66}
        axes.barh(name, rate, label=entries[series], **look, **_OUTLINE)
        entries[series] = None  # one entry of the legend for each kind
        _value(axes, rate, row, f"{rate:.0f}")
    for dashes, (name, rate) in zip(_CEILING_DASHES, lines.items(), strict=False):
        _ceiling(axes, rate, name, dashes)
    _finish(axes, title, unit)
    axes.set_xlim(0, 1.08 * max([*rates.values(), *lines.values()]))
    return figure


def waiting_share(arithmetic, memory, measured=None):
    """The share of its time, 0 to 1, in which a kernel has no arithmetic to do.

    Parameters
    ----------
    arithmetic, memory : times in one unit, the lower bound that each sets by itself
    measured : time that the kernel took; None takes the longer of the two bounds, which gives the share that a
        perfect kernel would still wait
    """
    total = max(arithmetic, memory) if measured is None else measured
    return max(0.0, 1.0 - arithmetic / total)


def waiting_bars(times, *, title="", unit="us"):
    """Two bars a kernel, the least time for its arithmetic and for its bytes, and a line at the measured time.

    Parameters
    ----------
    times : dict, name -> (arithmetic, memory, measured or None), in `unit`
    """
    alt_text = "; ".join(f"{name}: {_bounds(*values, unit)}" for name, values in times.items())
    figure = Picture(7.8, 0.95 * len(times) + 1.35, f"Least time for arithmetic and for bytes. {alt_text}.")
    axes = figure.subplots()
    longest = max(value for values in times.values() for value in values if value is not None)
    for row, values in enumerate(times.values()):
        _waiting_row(axes, row, *values, longest)
    axes.set_yticks(range(len(times)), list(times))
    axes.set_xlim(0, 1.12 * longest)
    _finish(axes, title, unit)
    axes.tick_params(axis="y", labelsize=9)
    return figure


def _waiting_row(axes, row, arithmetic, memory, measured, longest):
    """Both bars of a kernel and its measured time; the first row names them for the legend."""
    look, names = {"height": 0.36, **_OUTLINE}, ("arithmetic, at least", "bytes, at least", "measured")
    names = names if row == 0 else (None, None, None)
    axes.barh(row - 0.19, arithmetic, color=BLUE, label=names[0], **look)
    axes.barh(row + 0.19, memory, color=ORANGE, hatch=HATCHES[1], label=names[1], **look)
    _value(axes, arithmetic, row - 0.19, _short(arithmetic))
    _value(axes, memory, row + 0.19, _short(memory))
    if measured is not None:
        axes.plot([measured] * 2, [row - 0.42, row + 0.42], color=VERMILION, linewidth=2, label=names[2])
        _value(axes, measured, row, f"{_short(measured)}  ", ha="right" if measured > 0.9 * longest else "left")


def tile_cycles_bars(cycles, *, title=""):
    """Two bars a tile: the least cycles of the tensor cores and of the exponentials, with the share of the second.

    Parameters
    ----------
    cycles : dict, name -> (products, exponentials), cycles of an SM, as ``course_lib.measure.tile_cycles`` gives them
    """
    shares = {name: f"{100 * exp2 / products:.0f} %" for name, (products, exp2) in cycles.items()}
    alt_text = "; ".join(
        f"{name}: products {_short(products)}, exp2 {_short(exp2)}, {shares[name]} of the products"
        for name, (products, exp2) in cycles.items()
    )
    figure = Picture(7.8, 0.72 * len(cycles) + 1.3, f"Least cycles of an SM for one tile. {alt_text}.")
    axes = figure.subplots()
    for row, (name, (products, exp2)) in enumerate(cycles.items()):
        names = ("both products, tensor cores", "exp2 of the scores") if row == 0 else (None, None)
        axes.barh(row - 0.19, products, height=0.36, color=BLUE, label=names[0], **_OUTLINE)
        axes.barh(row + 0.19, exp2, height=0.36, color=ORANGE, hatch=HATCHES[1], label=names[1], **_OUTLINE)
        _value(axes, products, row - 0.19, _short(products))
        _value(axes, exp2, row + 0.19, f"{_short(exp2)}, {shares[name]} of the products")
    axes.set_yticks(range(len(cycles)), list(cycles))
    axes.set_xlim(0, 1.3 * max(max(pair) for pair in cycles.values()))
    _finish(axes, title, "cycles")
    axes.tick_params(axis="y", labelsize=9)
    return figure


def _bounds(arithmetic, memory, measured, unit):
    words = f"arithmetic {_short(arithmetic)} {unit}, bytes {_short(memory)} {unit}"
    return words if measured is None else f"{words}, measured {_short(measured)} {unit}"


def _short(value):
    """ "69.5", "1,398": three digits, and all of those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _value(axes, x, row, text, ha="left"):
    """The number at the end of a bar."""
    axes.text(x, row, f"  {text}", va="center", ha=ha, fontsize=9, color=INK)


def _ceiling(axes, x, name, dashes="--"):
    axes.axvline(x, color=VERMILION, linestyle=dashes, linewidth=1.6, label=name)


def _finish(axes, title, unit):
    """Titles, grid and legend; the first entry on top."""
    axes.invert_yaxis()
    name_axes(axes, unit, title=title)
    if axes.get_legend_handles_labels()[0]:
        legend_below(axes.figure)
    clean(axes)
    grid_lines(axes, "x")
