"""The N x N matrix of scores beside its inputs, drawn to scale, for one N and for several.

May import: style, matplotlib.
"""

from matplotlib.patches import Rectangle

from .style import BLUE, GREY, INK, Picture

MIB = 2**20
_GAP = 0.012  # between two tensors, as a share of the longest side drawn
_LEAST = 0.004  # a strip thinner than this share is drawn this wide, or nobody would see it


def growth_sentence(seq_len, *, head_dim=64, itemsize=4):
    """The arithmetic of one N in words."""
    vector, matrix = seq_len * head_dim * itemsize, seq_len * seq_len * itemsize
    return (
        f"N = {seq_len:,}: q, k, v and the result together 4 x {seq_len:,} x {head_dim} x {itemsize} bytes = "
        f"{size_text(4 * vector)}; the scores {seq_len:,} x {seq_len:,} x {itemsize} bytes = {size_text(matrix)}, "
        f"{_times(matrix / (4 * vector))}"
    )


def size_text(num_bytes):
    """67108864 -> "64 MiB"."""
    for unit, name in ((2**30, "GiB"), (MIB, "MiB"), (2**10, "KiB")):
        if num_bytes >= unit:
            return f"{num_bytes / unit:.4g} {name}"
    return f"{num_bytes} bytes"


def growth_picture(seq_lens=(512, 1024, 2048, 4096), *, head_dim=64, itemsize=4):
    """One panel for each N, all to the same scale.

    Parameters
    ----------
    seq_lens : sequence of int, N, smallest first
    head_dim : int, d
    itemsize : bytes of one number
    """
    told = ". ".join(growth_sentence(n, head_dim=head_dim, itemsize=itemsize) for n in seq_lens)
    figure = Picture(8.4, 4.0, f"One head, to scale: the matrix of scores outgrows its inputs. {told}.")
    axes, largest, left = figure.subplots(), seq_lens[-1], 0.0
    for seq_len in seq_lens:
        room = max(seq_len, 0.38 * largest)
        _draw(axes, seq_len, head_dim, largest, at=(left + (room - seq_len) / 2, largest - seq_len))
        label = _label(seq_len, head_dim, itemsize)
        axes.text(left + room / 2, 1.03 * largest, label, fontsize=9, color=INK, ha="center", va="top")
        left += room + 0.14 * largest
    _frame(axes, (-0.1 * largest, left - 0.1 * largest), (1.27 * largest, -0.1 * largest))
    return figure


def growth_step(seq_len, largest, *, head_dim=64, itemsize=4):
    """One N; a dashed frame shows where the matrix of `largest` would end."""
    sentence = growth_sentence(seq_len, head_dim=head_dim, itemsize=itemsize)
    figure = Picture(6.4, 4.6, f"One head, to scale. {sentence}.")
    axes = figure.subplots()
    axes.add_patch(Rectangle((0, 0), largest, largest, fill=False, edgecolor=GREY, linestyle=(0, (4, 3))))
    if seq_len < largest:
        words = f"N = {largest:,}"
        axes.text(0.985 * largest, 0.975 * largest, words, fontsize=9, color=INK, ha="right", va="bottom")
    _draw(axes, seq_len, head_dim, largest, at=(0, 0))
    label = _label(seq_len, head_dim, itemsize)
    axes.text(1.05 * largest, 0, label, fontsize=11, color=INK, va="top", linespacing=1.6)
    _frame(axes, (-0.1 * largest, 1.6 * largest), (1.02 * largest, -0.1 * largest))
    return figure


def _frame(axes, across, down):
    axes.set_xlim(*across)
    axes.set_ylim(*down)
    axes.set_aspect("equal")
    axes.axis("off")


def _draw(axes, seq_len, head_dim, largest, *, at):
    """q (N x d) left of the scores, k transposed (d x N) above them; v and the result have the size of q."""
    (x, y), gap, strip = at, _GAP * largest, max(head_dim, _LEAST * largest)
    middle = (x + seq_len / 2, y + seq_len / 2)
    axes.add_patch(Rectangle((x - gap - strip, y), strip, seq_len, facecolor=BLUE, edgecolor=BLUE))
    axes.add_patch(Rectangle((x, y - gap - strip), seq_len, strip, facecolor=BLUE, edgecolor=BLUE))
    axes.add_patch(Rectangle((x, y), seq_len, seq_len, facecolor="#F6E3B5", edgecolor=INK, hatch="///", linewidth=1))
    axes.text(x - 2 * gap - strip, middle[1], "q", fontsize=10, color=INK, ha="right", va="center")
    axes.text(middle[0], y - 2 * gap - strip, "k", fontsize=10, color=INK, ha="center", va="bottom")
    if seq_len >= 0.24 * largest:
        box = {"facecolor": "white", "edgecolor": INK, "linewidth": 0.7, "boxstyle": "round,pad=0.25"}
        axes.text(*middle, "scores", fontsize=10, color=INK, ha="center", va="center", bbox=box)


def _label(seq_len, head_dim, itemsize):
    vector, matrix = seq_len * head_dim * itemsize, seq_len * seq_len * itemsize
    return f"N = {seq_len:,}\nscores {size_text(matrix)}\nq, k, v, result {size_text(4 * vector)}"


def _times(ratio):
    if ratio == 1:
        return "just as much"
    return f"{ratio:g} times as much" if ratio > 1 else f"{1 / ratio:g} times less"
