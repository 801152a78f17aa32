"""The tile of scores: the causal mask, the tiles that a causal kernel visits, and how warps share one tile.

May import: style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, clean, fill, label, legend_below, name_axes
from .style import BLUE, GREY, INK, ORANGE, Picture

WHOLE, MASKED, SKIPPED = "every score counts", "needs the mask", "skipped"
_LOOKS = {
    WHOLE: {"facecolor": BLUE, "alpha": 0.35},
    MASKED: {"facecolor": ORANGE, "alpha": 0.55, "hatch": "///"},
    SKIPPED: {"facecolor": "none"},
}


def mask_picture(seq_len_q=2, seq_len_kv=5):
    """The causal mask as 0 and 1, aligned to the bottom right (the course's) and to the top left.

    Parameters
    ----------
    seq_len_q, seq_len_kv : int, rows and columns
    """
    offset = seq_len_kv - seq_len_q
    masks = {
        name: [[int(key <= q_row + shift) for key in range(seq_len_kv)] for q_row in range(seq_len_q)]
        for name, shift in {
            "bottom right: key <= q_row + seq_len_kv - seq_len_q": offset,
            "top left: key <= q_row": 0,
        }.items()
    }
    alt_text = "; ".join(
        f"{name}: {' / '.join(' '.join(map(str, row)) for row in mask)}" for name, mask in masks.items()
    )
    figure = Picture(8.4, 0.5 * seq_len_q + 1.0, f"Causal mask, {seq_len_q} queries and {seq_len_kv} keys. {alt_text}.")
    for axes, (name, mask) in zip(figure.subplots(1, 2), masks.items(), strict=True):
        for q_row, row in enumerate(mask):
            for key, seen in enumerate(row):
                look = {"facecolor": BLUE, "hatch": "//", "alpha": 0.35} if seen else {"facecolor": "none"}
                box(axes, (key, q_row), 0.92, 0.92, edgecolor=GREY, **look)
                label(axes, (key + 0.46, q_row + 0.46), str(seen), size=10)
        canvas(axes, (-0.1, seq_len_kv + 0.1), (seq_len_q + 0.1, -0.1), equal=True)
        axes.set_title(name, fontsize=9, color=INK)
    return figure


def tile_kinds(seq_len_q, seq_len_kv, block_m, block_n):
    """The kind of every tile under a causal mask aligned to the bottom right.

    A tile is whole when its first query sees its last key, skipped when its last query does not see its first key.

    Returns
    -------
    list of lists of str, one list a Q tile: WHOLE, MASKED or SKIPPED for each K/V tile. A ragged last tile of keys is
    MASKED: its slots past the last key must not count.
    """
    offset, kinds = seq_len_kv - seq_len_q, []
    for q_start in range(0, seq_len_q, block_m):
        last_row, row = min(q_start + block_m, seq_len_q) - 1, []
        for kv_start in range(0, seq_len_kv, block_n):
            if kv_start > last_row + offset:
                row.append(SKIPPED)
            elif kv_start + block_n - 1 <= min(q_start + offset, seq_len_kv - 1):
                row.append(WHOLE)
            else:
                row.append(MASKED)
        kinds.append(row)
    return kinds


def tile_map_picture(seq_len_q=48, seq_len_kv=64, block_m=16, block_n=8):
    """The tiles drawn to scale over the score matrix, with the staircase of the mask as a line.

    Parameters
    ----------
    seq_len_q, seq_len_kv, block_m, block_n : int, at least 1
    """
    kinds = tile_kinds(seq_len_q, seq_len_kv, block_m, block_n)
    counts = {kind: sum(row.count(kind) for row in kinds) for kind in _LOOKS}
    alt_text = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    rows = "; ".join(f"Q tile {number + 1}: {', '.join(row)}" for number, row in enumerate(kinds))
    figure = Picture(
        7.8, 3.6, f"{seq_len_q} queries, {seq_len_kv} keys, tiles of {block_m} x {block_n}: {alt_text}. {rows}."
    )
    axes, unnamed = figure.subplots(), dict(counts)  # kinds without a legend entry so far
    for q_tile, row in enumerate(kinds):
        for kv_tile, kind in enumerate(row):
            x, y = kv_tile * block_n, q_tile * block_m
            width, height = min(block_n, seq_len_kv - x), min(block_m, seq_len_q - y)
            entry = f"{kind}: {unnamed.pop(kind)}" if kind in unnamed else None
            box(axes, (x, y), width, height, edgecolor=GREY, label=entry, **_LOOKS[kind])
            if height * 5 < seq_len_q / 2:  # a ragged last row has no room for words
                continue
            if kind == MASKED:
                label(axes, (x + 0.06 * block_n, y + 0.9 * height), "mask", size=8, ha="left", va="bottom")
            elif kind == SKIPPED:
                label(axes, (x + width / 2, y + height / 2), "–", size=8)
    _draw_staircase(axes, seq_len_q, seq_len_kv)
    axes.set(xlim=(-0.5, seq_len_kv + 0.5), ylim=(seq_len_q + 0.5, -0.5))
    clean(axes)
    axes.set_xticks(range(0, seq_len_kv + 1, block_n))
    axes.set_yticks(range(0, seq_len_q + 1, block_m))
    name_axes(axes, "keys", "queries", "the line: below and left of it a query sees the key")
    legend_below(figure)
    return figure


def _draw_staircase(axes, seq_len_q, seq_len_kv):
    """The border between visible and masked keys."""
    offset, xs, ys = seq_len_kv - seq_len_q, [], []
    for q_row in range(seq_len_q):
        border = min(max(q_row + offset + 1, 0), seq_len_kv)
        xs += [border, border]
        ys += [q_row, q_row + 1]
    axes.plot(xs, ys, color=INK, linewidth=1.6)


def warp_split_picture(num_warps=4):
    """A tile of scores shared by warps, by rows of Q or by keys, and the output rows that each warp then holds.

    Parameters
    ----------
    num_warps : int, 2 to 5
    """
    figure = Picture(
        8.4,
        3.0,
        f"A tile of scores shared by {num_warps} warps. Split Q: each warp has all keys of its rows, so it owns those "
        "rows of the output and exchanges nothing with other warps. Split K: each warp has some keys of all rows, so "
        f"every output row is the sum of {num_warps} partial rows that meet in shared memory.",
    )
    by_q, by_k = figure.subplots(1, 2)
    size = 4 / num_warps
    for warp in range(num_warps):
        _draw_row_share(by_q, warp, size)
        _draw_key_share(by_k, warp, size)
    arrow(by_k, (4.1, 2), (5.8, 2), size=11, linewidth=1.4)
    for axes, title, words in (
        (by_q, "split Q: a warp owns rows", "registers to registers"),
        (by_k, "split K: a warp owns keys", f"{num_warps} partial outputs, added in shared memory"),
    ):
        label(axes, (2, -0.25), "scores (BLOCK_M x BLOCK_N)", size=8, va="baseline")
        label(axes, (7.2, -0.25), "out (BLOCK_M x HEAD_DIM)", size=8, va="baseline")
        label(axes, (4.7, 4.75), words, va="baseline")
        canvas(axes, (-0.2, 9.4), (5.2, -0.7), title=title)
    return figure


def _draw_row_share(axes, warp, size):
    """Rows of the scores that one warp computes, and the same rows of the output."""
    look, middle = fill(warp, 0.55), (warp + 0.5) * size
    for left, width, centre in ((0, 4, 2), (6, 2.4, 7.2)):
        box(axes, (left, warp * size), width, size, **look)
        label(axes, (centre, middle), f"warp {warp}", size=8, pad=1.5)
    arrow(axes, (4.1, middle), (5.8, middle), size=11, linewidth=1.4)


def _draw_key_share(axes, warp, size):
    """Keys of the scores that one warp computes, and its partial copy of the whole output."""
    box(axes, (warp * size, 0), size, 4, **fill(warp, 0.55))
    label(axes, ((warp + 0.5) * size, 2), f"{warp}", size=8, pad=1.5)
    corner = (5.9 + 0.22 * warp, 0.22 * warp)
    box(axes, corner, 2.3, 3.3, facecolor="white")  # hides the copy below, which would show through
    box(axes, corner, 2.3, 3.3, **fill(warp, 0.55))
