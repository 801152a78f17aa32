"""Decoding with few queries: SMs that have work, keys in splits, query heads that share a head of K and V.

May import: style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, fill, label
from .style import BLUE, GREY, HATCHES, INK, ORANGE, PALE, Picture

_SM_COLUMNS = 22
_MMA_COLUMNS = 8


def blocks_by_sm(num_blocks, num_sms):
    """How many blocks each SM gets when they are handed out in turn: [count], the longest first."""
    return [num_blocks // num_sms + (sm < num_blocks % num_sms) for sm in range(num_sms)]


def card_picture(launches, num_sms=132):
    """The SMs of a card, a panel for each launch: filled with a block, hatched too with more than one.

    Parameters
    ----------
    launches : dict, name -> number of blocks
    num_sms : int; 132 on an H100 or H200
    """
    counts = {name: blocks_by_sm(blocks, num_sms) for name, blocks in launches.items()}
    busy = {name: sum(count > 0 for count in each) for name, each in counts.items()}
    alt_text = "; ".join(f"{name}: {launches[name]} blocks, {busy[name]} SMs have work" for name in launches)
    rows = -(-num_sms // _SM_COLUMNS)
    figure = Picture(4.2 * len(launches), 0.19 * rows + 0.5, f"A card of {num_sms} SMs as squares. {alt_text}.")
    for axes, (name, each) in zip(figure.subplots(1, len(launches), squeeze=False)[0], counts.items(), strict=True):
        for sm, count in enumerate(each):
            look = {"facecolor": "none", "edgecolor": GREY}
            if count:
                look = {
                    "facecolor": BLUE if count == 1 else ORANGE,
                    "hatch": HATCHES[min(count, 2) - 1],
                    "edgecolor": INK,
                }
            box(axes, (sm % _SM_COLUMNS, sm // _SM_COLUMNS), 0.84, 0.84, linewidth=0.6, **look)
        canvas(axes, (-0.2, _SM_COLUMNS + 0.2), (rows + 0.1, -0.3), equal=True)
        title = f"{name}: {launches[name]} blocks, {busy[name]} of {num_sms} SMs"
        axes.set_title(title, fontsize=9.5, color=INK, loc="left")
    return figure


def keys_of_splits(seq_lens, split_len, num_splits):
    """How many keys each split of each sequence has: one list a sequence; an empty split has 0."""
    return [
        [max(0, min(seq_len - split * split_len, split_len)) for split in range(num_splits)] for seq_len in seq_lens
    ]


def splits_picture(seq_lens, split_len, num_splits):
    """One row a sequence: its keys in splits, the partial `(out, lse)` of each split, and their merge.

    Parameters
    ----------
    seq_lens : sequence of int, at most 4, each at most split_len * num_splits
    split_len, num_splits : int; at most 5 splits
    """
    counts = keys_of_splits(seq_lens, split_len, num_splits)
    alt_text = "; ".join(
        f"sequence {row} of {n} keys: {', '.join(map(str, counts[row]))}" for row, n in enumerate(seq_lens)
    )
    figure = Picture(
        8.4,
        0.95 * len(seq_lens) + 0.35,
        f"Keys of {len(seq_lens)} sequences in splits of {split_len}. Keys of each split: {alt_text}. Every split "
        "leaves one partial out and one partial lse, an empty one an lse of minus infinity; the partials of a sequence "
        "are merged.",
    )
    axes = figure.subplots()
    width = 20 / (split_len * num_splits)  # of one key
    for row, each in enumerate(counts):
        label(axes, (-0.3, row * 2.0 + 0.35), f"{sum(each)} keys", ha="right")
        for split, count in enumerate(each):
            _draw_split(axes, row * 2.0, split, count, split_len, width)
        _draw_merge(axes, row * 2.0, each)
    canvas(axes, (-2.6, 27.6), (2.0 * len(seq_lens) - 0.3, -0.35))
    return figure


def _draw_split(axes, top, split, count, split_len, width):
    """The slots of a split, those with a key filled, and the partials of the split below."""
    left = split * split_len * width
    for key in range(split_len):
        look = fill(split) if key < count else {"facecolor": "none", "edgecolor": GREY, "linestyle": ":"}
        box(axes, (left + key * width + 0.06, top), width - 0.12, 0.7, linewidth=0.7, **look)
    words = f"out$_{split}$, lse$_{split}$" if count else f"lse$_{split}$ = $-\\infty$"
    label(axes, (left + split_len * width / 2, top + 1.15), words)


def _draw_merge(axes, top, counts):
    """An arrow from the partials of a sequence to its output."""
    arrow(axes, (20.2, top + 1.15), (22.2, top + 1.15), size=11)
    label(axes, (21.1, top + 0.75), "merge", va="baseline")
    words = "out, lse" if sum(counts) else "out = 0, lse = $-\\infty$"
    label(axes, (22.5, top + 1.15), words, ha="left")


def group_picture(num_q_per_kv=4):
    """Query heads of one head of K and V: a block each that reads it, or one block with the heads as mma columns.

    Parameters
    ----------
    num_q_per_kv : int, 2 to 7
    """
    idle = _MMA_COLUMNS - num_q_per_kv
    figure = Picture(
        8.4,
        2.6,
        f"Left: {num_q_per_kv} query heads, a block each, read the same head of K and V, {num_q_per_kv} times in all. "
        f"Right: the {num_q_per_kv} heads are the first columns of one product of {_MMA_COLUMNS} columns, the other "
        f"{idle} are zeros, and K and V are read once.",
    )
    apart, packed = figure.subplots(1, 2)
    _draw_keys(apart, f"read {num_q_per_kv} times")
    size = 4.0 / num_q_per_kv
    for row in range(num_q_per_kv):
        box(apart, (6.2, row * size + 0.1), 2.6, size - 0.2, facecolor=BLUE, edgecolor=INK, alpha=0.6)
        label(apart, (7.5, (row + 0.5) * size), f"head {row}", size=8.5, pad=1.5)
        arrow(apart, (2.8, 2.0), (6.1, (row + 0.5) * size))
    _draw_keys(packed, "read once")
    step = 2.8 / _MMA_COLUMNS
    for column in range(_MMA_COLUMNS):
        look = {"facecolor": BLUE, "alpha": 0.6}
        if column >= num_q_per_kv:
            look = {"facecolor": PALE, "hatch": "...", "alpha": 0.7}
        box(packed, (6.0 + column * step, 0.9), step, 2.2, edgecolor=GREY, linewidth=0.6, **look)
    label(packed, (6.0 + num_q_per_kv * step / 2, 0.7), f"{num_q_per_kv} heads", va="baseline")
    label(packed, (6.0 + (num_q_per_kv + idle / 2) * step, 3.55), f"{idle} columns of zeros", va="baseline")
    arrow(packed, (2.8, 2.0), (5.9, 2.0))
    for axes, title in ((apart, "a block a query head"), (packed, "a block a group, one mma")):
        canvas(axes, (-0.1, 9.6), (4.2, -0.15), title=title)
    return figure


def _draw_keys(axes, words):
    box(axes, (0.1, 0.9), 2.6, 2.2, facecolor=ORANGE, hatch=HATCHES[1], edgecolor=INK, alpha=0.6)
    label(axes, (1.4, 2.0), "K and V", size=8.5, pad=1.5)
    label(axes, (1.4, 3.55), words, va="baseline")
