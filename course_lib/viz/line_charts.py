"""Line charts: curves over a size, time over the number of splits, the roofline.

May import: style, drawing, matplotlib.
"""

import math

from matplotlib.transforms import ScaledTranslation

from .drawing import clean, empty_picture, grid_lines, name_axes
from .style import BLUE, DASHES, GREY, INK, MARKERS, ORANGE, PALE, SERIES, VERMILION, Picture

_LEAST_GAP = 0.055  # between the names of two lines, as a share of the axis
_COLUMNS = 2  # panels side by side in `split_curves`
_NEAR = 6.0  # labels of two roofline points less than this factor apart would overlap
_NAME_BOX = {"facecolor": "white", "pad": 0.6, "lw": 0}  # hides lines that would cross a name
_RING = {"markersize": 12, "markerfacecolor": "none", "markeredgecolor": VERMILION, "markeredgewidth": 1.8}


def line_look(number):
    """Colour, dash and marker of line `number`."""
    return {"color": SERIES[number % 5], "linestyle": DASHES[number % 5], "marker": MARKERS[number % 5]}


def curves(series, *, x, y, title="", reference=None, log=False):
    """Lines with markers over a logarithmic x axis; each line differs in colour, dash and marker.

    Parameters
    ----------
    series : dict, name -> sequence of (x, y), x > 0; a name without points is left out
    x, y : str, the axis labels, with units
    reference : (y value, its name) or None; a thin horizontal line
    log : bool, whether the y axis is logarithmic too; without a reference
    """
    series = {name: sorted(points) for name, points in series.items() if points}
    if not series:
        return empty_picture(title)
    alt_text = "; ".join(
        f"{name}: " + ", ".join(f"{value:.3g} at {size:g}" for size, value in points) for name, points in series.items()
    )
    figure = Picture(7.8, 3.6, f"{y} against {x}. {alt_text}.")
    axes = figure.subplots()
    for number, points in enumerate(series.values()):
        axes.plot(*zip(*points, strict=True), **line_look(number), linewidth=1.8, markersize=5.5, markeredgecolor=INK)
    axes.set_xscale("log", base=2)
    ticks = sorted({size for points in series.values() for size, _ in points})
    axes.set_xticks(ticks, _tick_names(ticks))
    top = max([value for points in series.values() for _, value in points] + ([reference[0]] if reference else []))
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, 1.08 * top)
    if reference:
        _draw_reference(axes, *reference, series, ticks, top)
    _name_lines(axes, series)
    name_axes(axes, x, y, title)
    clean(axes)
    grid_lines(axes, "y")
    return figure


def _draw_reference(axes, value, name, series, ticks, top):
    """A dotted line with its name at the end, right or left, whose points are farther from it."""

    def clearance(ends):
        near = [y for points in series.values() for x, y in points if x in ends]
        return min((abs(y - value - 0.03 * top) for y in near), default=top)

    right = clearance(ticks[len(ticks) // 2 :]) >= min(clearance(ticks[: len(ticks) // 2]), 0.07 * top)
    axes.axhline(value, color=GREY, linewidth=1, linestyle=":")
    place = {"x": ticks[-1] if right else ticks[0], "ha": "right" if right else "left"}
    axes.text(y=value + 0.012 * top, s=name, fontsize=9, color=INK, va="bottom", **place)


def _tick_names(ticks):
    """Each tick's number, or "" where it would touch the next one to the right on the logarithmic axis."""
    names, next_tick = [], math.inf
    least = 0.03 * math.log2(ticks[-1] / ticks[0])  # of the axis's length
    for tick in reversed(ticks):
        near = next_tick - math.log2(tick) < least
        names.append("" if near else f"{tick:,.0f}")
        next_tick = next_tick if near else math.log2(tick)
    return names[::-1]


def _name_lines(axes, series):
    """Write the name of each line beside its last point, spread out where two would overlap; then with its marker."""
    log = axes.get_yscale() == "log"
    low, high = map(math.log, axes.get_ylim()) if log else axes.get_ylim()
    gap = _LEAST_GAP * (high - low)
    ends = sorted((points[-1][1], points[-1][0], number) for number, points in enumerate(series.values()))
    height, names = low - 0.5 * gap, list(series)  # the lowest name stays clear of the axis
    for value, last, number in ends:
        end = math.log(value) if log else value
        height = max(end, height + gap)
        place, moved = (last, math.exp(height) if log else height), height > end + 0.2 * gap
        look = {"fontsize": 9, "color": INK, "va": "center", "annotation_clip": False}
        axes.annotate(names[number], place, (18 if moved else 6, 0), textcoords="offset points", **look)
        if moved:
            right = axes.transData + ScaledTranslation(10 / 72, 0, axes.figure.dpi_scale_trans)
            mark = line_look(number) | {"linestyle": "none", "markersize": 5, "markeredgecolor": INK}
            axes.plot(*([one] for one in place), transform=right, clip_on=False, **mark)


def split_curves(rows, title="time over the number of splits"):
    """Curves of a measured sweep over the number of splits, a panel for each batch size and a line for each length.

    A ring marks the point that the launcher chooses; a dotted line is the time of reading K and V alone.

    Parameters
    ----------
    rows : sequence of dict with batch_size, seq_len, num_splits, median_us and chosen (1 or 0); a row whose variant is
        "read_only" is the floor of its batch size and length; other rows without num_splits are left out
    """
    timed = [row for row in rows if row.get("median_us") and row.get("num_splits")]
    if not timed:
        return empty_picture(title)
    floors = {(r["batch_size"], r["seq_len"]): r["median_us"] for r in rows if r.get("variant") == "read_only"}
    batches, lengths = (sorted({row[key] for row in timed}) for key in ("batch_size", "seq_len"))
    lines = {(batch, length): _sweep(timed, batch, length) for batch in batches for length in lengths}
    alt_text = "; ".join(_sweep_text(*key, points) for key, points in lines.items() if points)
    num_rows, num_columns = -(-len(batches) // _COLUMNS), min(_COLUMNS, len(batches))
    figure = Picture(4.3 * num_columns, 2.85 * num_rows, f"{title}, in us, a line a length. {alt_text}.")
    panels = figure.subplots(num_rows, num_columns, squeeze=False).flat
    for batch, axes in zip(batches, panels, strict=False):
        for number, length in enumerate(lengths):
            if lines[batch, length]:
                _draw_sweep(axes, number, length, lines[batch, length], floors.get((batch, length)))
        _sweep_scales(axes, {row["num_splits"] for row in timed})
        name_axes(axes, "splits of a sequence", "us", f"batch size {batch}")
    for axes in panels:  # the panels that remain are empty
        axes.axis("off")
    words = "ring: what the launcher chooses" + ("; thin dots: reading alone" if floors else "")
    figure.supxlabel(f"{title}; {words}", fontsize=8.5, color=INK)
    return figure


def _sweep(rows, batch, length):
    """[(number of splits, us, chosen)] of one batch size and length."""
    kept = (row for row in rows if (row["batch_size"], row["seq_len"]) == (batch, length))
    return sorted((row["num_splits"], row["median_us"], bool(row["chosen"])) for row in kept)


def _sweep_text(batch, length, points):
    fastest = min(points, key=lambda point: point[1])
    chosen = [f"chosen {count}: {us:.3g}" for count, us, is_chosen in points if is_chosen]
    unsplit = [f"1 split: {points[0][1]:.3g}"] if points[0][0] == 1 else []
    parts = [*unsplit, f"fastest {fastest[0]}: {fastest[1]:.3g}", *chosen]
    return f"batch size {batch}, {length:,} keys: {', '.join(parts)}"


def _draw_sweep(axes, number, length, points, floor):
    """One line with its name at the right end, a ring round the chosen point, and its floor."""
    counts, times, _ = zip(*points, strict=True)
    axes.plot(counts, times, **line_look(number), linewidth=1.6, markersize=4, markeredgecolor=INK, markeredgewidth=0.5)
    for count, us, is_chosen in points:
        if is_chosen:
            axes.plot([count], [us], marker="o", linestyle="none", **_RING)
    if floor:
        axes.plot([counts[0], counts[-1]], [floor, floor], color=SERIES[number % 5], linewidth=1, linestyle=":")
    name = f"{length // 1024}k" if length % 1024 == 0 else f"{length:,}"
    look = {"bbox": _NAME_BOX, "va": "center", "annotation_clip": False}
    axes.annotate(name, (counts[-1], times[-1]), (7, 0), textcoords="offset points", fontsize=8.5, color=INK, **look)


def _sweep_scales(axes, counts):
    """Both axes logarithmic, a tick at every power of two of splits."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = [2**power for power in range(12) if min(counts) <= 2**power <= max(counts)]
    axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
    axes.set_xlim(min(counts) / 1.15, max(counts) * 1.6)
    axes.yaxis.set_major_formatter(lambda us, _: f"{us:,.0f}")
    axes.minorticks_off()
    clean(axes)
    grid_lines(axes, "y")


def roofline(machine, points, *, peak_tflops, memory_gbps):
    """Attainable TFLOP/s against FLOP per byte, with kernels on it.

    Parameters
    ----------
    machine : str, the title
    points : dict, name -> FLOP per byte, an open mark on the roof, or (FLOP per byte, TFLOP/s reached or None)
    peak_tflops : 10^12 FLOP per second
    memory_gbps : 10^9 bytes per second
    """
    ridge = peak_tflops * 1000 / memory_gbps
    points = {name: point if isinstance(point, tuple) else (point, None) for name, point in points.items()}
    alt_text = "; ".join(f"{name} at {intensity:.3g} FLOP per byte" for name, (intensity, _) in points.items())
    rates = f"{peak_tflops:g} TFLOP/s, {memory_gbps:g} GB/s"
    figure = Picture(6.4, 3.4, f"Roofline of {machine}: {rates}, ridge at {ridge:.3g} FLOP per byte. {alt_text}.")
    axes = figure.subplots()
    intensities = [intensity for intensity, _ in points.values()]
    low, high = min([ridge, *intensities]) / 8, max([ridge, *intensities]) * 8
    axes.plot([low, ridge], [low * memory_gbps / 1000, peak_tflops], color=BLUE, linewidth=2)
    axes.plot([ridge, high], [peak_tflops, peak_tflops], color=ORANGE, linewidth=2, linestyle=(0, (6, 2)))
    for x, side, words in (
        (ridge / 1.15, "right", "memory bandwidth limits"),
        (ridge * 1.15, "left", "arithmetic limits"),
    ):
        axes.text(x, 0.03, words, ha=side, fontsize=9, color=INK, transform=axes.get_xaxis_transform())
    for number, (name, (intensity, reached)) in enumerate(points.items()):
        height = min(peak_tflops, intensity * memory_gbps / 1000) if reached is None else reached
        look = {"color": SERIES[number % 5], "markersize": 8, "markeredgecolor": INK}
        axes.plot(intensity, height, MARKERS[number % 5], markerfacecolor="none" if reached is None else None, **look)
        look = _point_label(intensity, height >= peak_tflops, intensities)
        look |= {"textcoords": "offset points", "bbox": _NAME_BOX}
        axes.annotate(name, (intensity, height), fontsize=9, color=INK, **look)
    axes.axvline(ridge, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(None, peak_tflops * 3))
    name_axes(axes, "FLOP per byte of memory traffic", "TFLOP/s", machine)
    clean(axes)
    axes.grid(color=PALE, linewidth=0.5)
    return figure


def _point_label(intensity, on_the_roof, intensities):
    """Offset and alignment of a point's name: below on the right, unless another point is near."""
    if intensities.count(intensity) > 1:  # one point above the other: each name level with its mark
        return {"xytext": (9, -3), "ha": "left"}
    crowded = any(intensity < other < _NEAR * intensity for other in intensities)
    if not crowded:
        return {"xytext": (9, -11), "ha": "left"}
    return {"xytext": (0, 8), "ha": "center"} if on_the_roof else {"xytext": (-9, 5), "ha": "right"}
