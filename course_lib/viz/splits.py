"""The keys of a batch cut into splits of one length, some of them empty, and what each split leaves for the merge.

May import: style, matplotlib.
"""

from matplotlib.patches import FancyArrowPatch, Rectangle

from .style import GREY, HATCHES, INK, SERIES, Picture


def keys_of_splits(seq_lens, split_len, num_splits):
    """How many keys each split of each sequence has: one list a sequence; an empty split has 0."""
    return [
        [max(0, min(seq_len - split * split_len, split_len)) for split in range(num_splits)] for seq_len in seq_lens
    ]


def splits_picture(seq_lens, split_len, num_splits):
    """One row a sequence: its keys in splits, an arrow to `(out, lse)` of each, and the merge of all of them.

    Parameters
    ----------
    seq_lens : sequence of int, at most 4, each at most split_len * num_splits
    split_len, num_splits : int; at most 5 splits
    """
    shares = keys_of_splits(seq_lens, split_len, num_splits)
    told = "; ".join(
        f"sequence {row} of {n} keys: {', '.join(map(str, shares[row]))}" for row, n in enumerate(seq_lens)
    )
    figure = Picture(
        8.4,
        0.95 * len(seq_lens) + 0.35,
        f"Keys of {len(seq_lens)} sequences in splits of {split_len}. Keys of each split: {told}. Every split "
        "leaves one partial out and one partial lse, an empty one an lse of minus infinity; the partials of a sequence "
        "are merged.",
    )
    axes = figure.subplots()
    width = 20 / (split_len * num_splits)  # of one key
    for row, each in enumerate(shares):
        axes.text(-0.3, row * 2.0 + 0.35, f"{sum(each)} keys", ha="right", va="center", fontsize=9, color=INK)
        for split, count in enumerate(each):
            _draw_split(axes, row * 2.0, split, count, split_len, width)
        _draw_merge(axes, row * 2.0, each)
    axes.set_xlim(-2.6, 27.6)
    axes.set_ylim(2.0 * len(seq_lens) - 0.3, -0.35)
    axes.axis("off")
    return figure


def _draw_split(axes, top, split, count, split_len, width):
    """The places of a split's keys, the ones that exist filled, and what the split leaves behind."""
    left = split * split_len * width
    for key in range(split_len):
        look = {"facecolor": SERIES[split % 5], "hatch": HATCHES[split % 5], "alpha": 0.6, "edgecolor": INK}
        if key >= count:
            look = {"facecolor": "none", "edgecolor": GREY, "linestyle": ":"}
        axes.add_patch(Rectangle((left + key * width + 0.06, top), width - 0.12, 0.7, linewidth=0.7, **look))
    words = f"out$_{split}$, lse$_{split}$" if count else f"lse$_{split}$ = $-\\infty$"
    axes.text(left + split_len * width / 2, top + 1.15, words, ha="center", va="center", fontsize=9, color=INK)


def _draw_merge(axes, top, each):
    """From the partials of a row to its output."""
    arrow = {"arrowstyle": "-|>", "mutation_scale": 11, "color": INK, "linewidth": 1.2}
    axes.add_patch(FancyArrowPatch((20.2, top + 1.15), (22.2, top + 1.15), **arrow))
    axes.text(21.1, top + 0.75, "merge", ha="center", fontsize=9, color=INK)
    words = "out, lse" if sum(each) else "out = 0, lse = $-\\infty$"
    axes.text(22.5, top + 1.15, words, va="center", fontsize=9, color=INK)
