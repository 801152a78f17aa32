"""How much memory attention takes: the N x N matrix to scale, bytes over N, and what a KV cache holds.

May import: style, drawing, matplotlib.
"""

from .drawing import box, canvas, clean, grid_lines, label, legend_below, name_axes
from .style import BLUE, DASHES, GREEN, GREY, HATCHES, INK, MARKERS, ORANGE, PURPLE, SERIES, Picture

MIB = 2**20
_GAP = 0.012  # between two tensors, as a share of the longest side drawn
_MIN_STRIP = 0.004  # a narrower tensor is drawn this wide, as a share of the longest side, so that it stays visible


def size_text(num_bytes):
    """67108864 -> "64 MiB"."""
    for unit, name in ((2**30, "GiB"), (MIB, "MiB"), (2**10, "KiB")):
        if num_bytes >= unit:
            return f"{num_bytes / unit:.4g} {name}"
    return f"{num_bytes} bytes"


def growth_sentence(seq_len, *, head_dim=64, itemsize=4):
    """The bytes of the scores and of their inputs for one N, in words."""
    vector, matrix = seq_len * head_dim * itemsize, seq_len * seq_len * itemsize
    return (
        f"N = {seq_len:,}: q, k, v and the result together 4 x {seq_len:,} x {head_dim} x {itemsize} bytes = "
        f"{size_text(4 * vector)}; the scores {seq_len:,} x {seq_len:,} x {itemsize} bytes = {size_text(matrix)}, "
        f"{_times(matrix / (4 * vector))}"
    )


def _times(ratio):
    if ratio == 1:
        return "just as much"
    return f"{ratio:g} times as much" if ratio > 1 else f"{1 / ratio:g} times less"


def growth_picture(seq_lens=(512, 1024, 2048, 4096), *, head_dim=64, itemsize=4):
    """The matrix of scores beside its inputs, a panel for each N, all to one scale.

    Parameters
    ----------
    seq_lens : sequence of int, N, smallest first
    head_dim : int, d
    itemsize : bytes of one number
    """
    alt_text = ". ".join(growth_sentence(n, head_dim=head_dim, itemsize=itemsize) for n in seq_lens)
    figure = Picture(8.4, 4.0, f"One head, to scale: the matrix of scores outgrows its inputs. {alt_text}.")
    axes, largest, left = figure.subplots(), seq_lens[-1], 0.0
    for seq_len in seq_lens:
        room = max(seq_len, 0.38 * largest)
        _draw_tensors(axes, (left + (room - seq_len) / 2, largest - seq_len), seq_len, head_dim, largest)
        label(axes, (left + room / 2, 1.03 * largest), _sizes(seq_len, head_dim, itemsize), va="top")
        left += room + 0.14 * largest
    canvas(axes, (-0.1 * largest, left - 0.1 * largest), (1.27 * largest, -0.1 * largest), equal=True)
    return figure


def growth_step(seq_len, largest, *, head_dim=64, itemsize=4):
    """The matrix of scores for one N; a dashed frame marks the matrix of `largest`."""
    sentence = growth_sentence(seq_len, head_dim=head_dim, itemsize=itemsize)
    figure = Picture(6.4, 4.6, f"One head, to scale. {sentence}.")
    axes = figure.subplots()
    box(axes, (0, 0), largest, largest, fill=False, edgecolor=GREY, linestyle=(0, (4, 3)))
    if seq_len < largest:
        label(axes, (0.985 * largest, 0.975 * largest), f"N = {largest:,}", ha="right", va="bottom")
    _draw_tensors(axes, (0, 0), seq_len, head_dim, largest)
    sizes = _sizes(seq_len, head_dim, itemsize)
    label(axes, (1.05 * largest, 0), sizes, size=11, ha="left", va="top", linespacing=1.6)
    canvas(axes, (-0.1 * largest, 1.6 * largest), (1.02 * largest, -0.1 * largest), equal=True)
    return figure


def _sizes(seq_len, head_dim, itemsize):
    vector, matrix = seq_len * head_dim * itemsize, seq_len * seq_len * itemsize
    return f"N = {seq_len:,}\nscores {size_text(matrix)}\nq, k, v, result {size_text(4 * vector)}"


def _draw_tensors(axes, corner, seq_len, head_dim, largest):
    """q (N x d) left of the scores, k transposed (d x N) above them; v and the result have the size of q."""
    (x, y), gap, strip = corner, _GAP * largest, max(head_dim, _MIN_STRIP * largest)
    middle = (x + seq_len / 2, y + seq_len / 2)
    box(axes, (x - gap - strip, y), strip, seq_len, facecolor=BLUE, edgecolor=BLUE)
    box(axes, (x, y - gap - strip), seq_len, strip, facecolor=BLUE, edgecolor=BLUE)
    box(axes, (x, y), seq_len, seq_len, facecolor="#F6E3B5", edgecolor=INK, hatch="///", linewidth=1)
    label(axes, (x - 2 * gap - strip, middle[1]), "q", size=10, ha="right")
    label(axes, (middle[0], y - 2 * gap - strip), "k", size=10, va="bottom")
    if seq_len >= 0.24 * largest:
        frame = {"facecolor": "white", "edgecolor": INK, "linewidth": 0.7, "boxstyle": "round,pad=0.25"}
        label(axes, middle, "scores", size=10, bbox=frame)


def last_that_fits(points, limit_bytes):
    """The largest N of [(N, bytes)] whose bytes stay within the limit, None when none does."""
    fits = [seq_len for seq_len, num_bytes in points if num_bytes <= limit_bytes]
    return max(fits) if fits else None


def memory_curves(formula, measured, *, limit, title=""):
    """Bytes against N on two logarithmic axes: formulas as lines, measurements as marks, a card as a ceiling.

    Parameters
    ----------
    formula : dict, name -> sequence of (N, bytes), drawn as a line; above the limit it turns thin
    measured : dict, a name of `formula` -> sequence of (N, bytes), drawn as marks on it; may be empty
    limit : (bytes, its name), a horizontal line
    """
    ends = {name: last_that_fits(points, limit[0]) for name, points in formula.items()}
    fits = "; ".join(f"{name}: the last of these lengths that fits is {end or 'none'}" for name, end in ends.items())
    marks = "; ".join(f"{name} measured at {len(points)} lengths" for name, points in measured.items() if points)
    figure = Picture(7.8, 3.8, f"Bytes beyond q, k and v against N. Limit: {limit[1]}. {fits}. {marks}.")
    axes = figure.subplots()
    for number, (name, points) in enumerate(formula.items()):
        _draw_formula(axes, number, points, measured.get(name) or (), name, limit[0])
    axes.axhline(limit[0], color=GREY, linewidth=1, linestyle="--")
    farthest = max(n for points in formula.values() for n, _ in points)
    axes.text(farthest, 1.15 * limit[0], limit[1], fontsize=9, color=INK, va="bottom", ha="right")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    name_axes(axes, "N queries and keys", "bytes", title)
    _memory_ticks(axes, formula, limit[0])
    clean(axes)
    grid_lines(axes, "y")
    return figure


def _draw_formula(axes, number, points, marks, name, limit_bytes):
    """One line up to the limit, its thin continuation, its measurements, and its name at the last point that fits."""
    colour, fitting = SERIES[number % 5], [point for point in points if point[1] <= limit_bytes]
    axes.plot(*zip(*points, strict=True), color=colour, linewidth=0.8, linestyle=":")
    axes.plot(*zip(*fitting, strict=True), color=colour, linewidth=2, linestyle=DASHES[number % 3])
    if marks:
        look = {"color": colour, "markeredgecolor": INK, "markersize": 5.5, "linestyle": ""}
        axes.plot(*zip(*marks, strict=True), marker=MARKERS[number % 3], **look)
    end = fitting[-1]
    look = {"xytext": (9, -2), "va": "top"}
    if end == points[-1]:  # the picture ends here: no room on the right
        look = {"xytext": (-8, 6), "ha": "right", "va": "bottom"}
    text = f"{name}:\n{size_text(end[1])} at N = {end[0]:,}"
    axes.annotate(text, end, textcoords="offset points", fontsize=9, color=INK, **look)


def _memory_ticks(axes, formula, limit_bytes):
    """Powers of two as lengths, KiB to TiB as sizes; the axis ends a little above the limit."""
    lengths = sorted({n for points in formula.values() for n, _ in points})
    axes.set_xticks(lengths[::2], [f"{n:,}" for n in lengths[::2]])
    smallest = min(value for points in formula.values() for _, value in points)
    sizes = [2**power for power in range(10, 50, 5) if smallest / 8 <= 2**power <= 8 * limit_bytes]
    axes.set_yticks(sizes, [size_text(size) for size in sizes])
    axes.set_ylim(smallest / 2, 6 * limit_bytes)
    axes.minorticks_off()


_KINDS = (  # key, words, colour, hatch
    ("tokens", "tokens", BLUE, HATCHES[0]),
    ("later", "will be used", GREEN, HATCHES[2]),
    ("never", "never used", ORANGE, HATCHES[1]),
    ("holes", "free, in holes too small", PURPLE, HATCHES[3]),
    ("free", "free", "white", HATCHES[0]),
)
_LEAST_SHARE = 0.055  # a narrower part has no room for its number


def memory_use_bars(shares, *, title=""):
    """What the memory of a KV cache holds on average: a stacked bar for each scheme.

    Parameters
    ----------
    shares : dict, name -> {"tokens", "later", "never", "holes", "free": share of the memory, 0 to 1}; as
        ``course_lib.kv.Use.shares`` gives them
    """
    alt_text = "; ".join(f"{name}: {_percents(parts)}" for name, parts in shares.items())
    figure = Picture(7.8, 0.42 * len(shares) + 1.25, f"What the memory holds, in percent. {alt_text}.")
    axes = figure.subplots()
    used = {key for parts in shares.values() for key, part in parts.items() if part}  # kinds for the legend
    for row, parts in enumerate(shares.values()):
        left = 0.0
        for key, words, colour, hatch in _KINDS:
            width, look = 100 * parts[key], {"color": colour, "hatch": hatch, "edgecolor": INK, "linewidth": 0.6}
            axes.barh(row, width, 0.66, left, label=words if row == 0 and key in used else None, **look)
            if parts[key] >= _LEAST_SHARE:
                label(axes, (left + width / 2, row), f"{width:.0f}", size=8, pad=1.2)
            left += width
    axes.set_yticks(range(len(shares)), list(shares))
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    name_axes(axes, "% of the memory", title=title)
    legend_below(figure, size=8, columns=5)
    clean(axes)
    axes.tick_params(axis="y", labelsize=9, length=0)
    grid_lines(axes, "x")
    return figure


def _percents(parts):
    return ", ".join(f"{words} {100 * parts[key]:.0f}" for key, words, _, _ in _KINDS if parts[key] >= 0.005)
