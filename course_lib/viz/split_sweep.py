"""Time over the number of splits: a panel a batch size, a line a length, the chosen number of splits marked.

May import: style, curve, matplotlib.
"""

from .curve import _LINES, _MARKERS, _empty
from .style import INK, PALE, SERIES, VERMILION, Picture, clean, name_axes

_COLUMNS = 2


def split_curves(rows, title="time over the number of splits"):
    """Curves of a measured sweep; a ring marks the point that the launcher chooses, a dotted line is the floor.

    Parameters
    ----------
    rows : sequence of dict with batch_size, seq_len, num_splits, median_us and chosen (1 or 0); a row whose variant is
        "read_only" is the floor of its batch size and length; other rows without num_splits are left out
    """
    timed = [row for row in rows if row.get("median_us") and row.get("num_splits")]
    if not timed:
        return _empty(title)
    floors = {(r["batch_size"], r["seq_len"]): r["median_us"] for r in rows if r.get("variant") == "read_only"}
    batches = sorted({row["batch_size"] for row in timed})
    lengths = sorted({row["seq_len"] for row in timed})
    told = "; ".join(
        _told(batch, length, timed) for batch in batches for length in lengths if _line(timed, batch, length)
    )
    height = -(-len(batches) // _COLUMNS)
    columns = min(_COLUMNS, len(batches))
    figure = Picture(4.3 * columns, 2.85 * height, f"{title}, in us, a line a length. {told}.")
    panels = figure.subplots(height, columns, squeeze=False).flat
    for batch, axes in zip(batches, panels, strict=False):
        for number, length in enumerate(lengths):
            points = _line(timed, batch, length)
            if points:
                _draw_line(axes, number, length, points, floors.get((batch, length)))
        _scales(axes, {row["num_splits"] for row in timed})
        name_axes(axes, "splits of a sequence", "us", f"batch size {batch}")
    for axes in panels:  # left over
        axes.axis("off")
    words = "ring: what the launcher chooses" + ("; thin dots: reading alone" if floors else "")
    figure.supxlabel(f"{title}; {words}", fontsize=8.5, color=INK)
    return figure


def _line(rows, batch, length):
    """[(number of splits, us, chosen)] of one batch size and length."""
    kept = (row for row in rows if (row["batch_size"], row["seq_len"]) == (batch, length))
    return sorted((row["num_splits"], row["median_us"], bool(row["chosen"])) for row in kept)


def _told(batch, length, rows):
    points = _line(rows, batch, length)
    least = min(points, key=lambda point: point[1])
    chosen = [f"chosen {count}: {us:.3g}" for count, us, is_chosen in points if is_chosen]
    parts = [f"1 split: {points[0][1]:.3g}"] * (points[0][0] == 1) + [f"fastest {least[0]}: {least[1]:.3g}", *chosen]
    return f"batch size {batch}, {length:,} keys: {', '.join(parts)}"


def _draw_line(axes, number, length, points, floor):
    """A line with markers, its name at its right end, a ring around the chosen point, its floor dotted."""
    look = {"marker": _MARKERS[number % 5], "linestyle": _LINES[number % 5], "color": SERIES[number % 5]}
    counts, times, _ = zip(*points, strict=True)
    axes.plot(counts, times, **look, linewidth=1.6, markersize=4, markeredgecolor=INK, markeredgewidth=0.5)
    ring = {"markersize": 12, "markerfacecolor": "none", "markeredgecolor": VERMILION, "markeredgewidth": 1.8}
    for count, us, is_chosen in points:
        if is_chosen:
            axes.plot([count], [us], marker="o", linestyle="none", **ring)
    if floor:
        axes.plot([counts[0], counts[-1]], [floor, floor], color=SERIES[number % 5], linewidth=1, linestyle=":")
    name = f"  {length // 1024}k" if length % 1024 == 0 else f"  {length:,}"
    axes.annotate(name, (counts[-1], times[-1]), fontsize=8.5, color=INK, va="center", annotation_clip=False)


def _scales(axes, counts):
    """Both axes logarithmic, a tick at every power of two of splits."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = [2**power for power in range(12) if min(counts) <= 2**power <= max(counts)]
    axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
    axes.set_xlim(min(counts) / 1.15, max(counts) * 1.6)
    axes.yaxis.set_major_formatter(lambda us, _: f"{us:,.0f}")
    axes.minorticks_off()
    clean(axes)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
