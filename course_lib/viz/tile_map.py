"""Which tiles of the score matrix a causal kernel visits, which of them need a mask, and which it never loads.

May import: style, matplotlib.
"""

from matplotlib.patches import Rectangle

from .style import BLUE, GREY, INK, ORANGE, Picture, clean, name_axes

WHOLE, MASKED, SKIPPED = "every score counts", "needs the mask", "skipped"
_LOOKS = {
    WHOLE: {"facecolor": BLUE, "alpha": 0.35},
    MASKED: {"facecolor": ORANGE, "alpha": 0.55, "hatch": "///"},
    SKIPPED: {"facecolor": "none"},
}
_MARKS = {WHOLE: "", MASKED: "mask", SKIPPED: "–"}


def tile_kinds(seq_len_q, seq_len_kv, block_m, block_n):
    """What a causal mask, aligned to the bottom right, makes of every tile.

    A tile is whole when its first query sees its last key, skipped when its last query does not see its first key.

    Returns
    -------
    list of lists of str, one list a Q tile: WHOLE, MASKED or SKIPPED for each K/V tile. A ragged last tile of keys is
    MASKED: the places behind the last key must not count.
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
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    rows = "; ".join(f"Q tile {number + 1}: {', '.join(row)}" for number, row in enumerate(kinds))
    figure = Picture(
        7.8, 3.6, f"{seq_len_q} queries, {seq_len_kv} keys, tiles of {block_m} x {block_n}: {told}. {rows}."
    )
    axes = figure.subplots()
    for q_tile, row in enumerate(kinds):
        for kv_tile, kind in enumerate(row):
            x, y = kv_tile * block_n, q_tile * block_m
            width, height = min(block_n, seq_len_kv - x), min(block_m, seq_len_q - y)
            label = f"{kind}: {counts[kind]}" if _first(kinds, kind) == (q_tile, kv_tile) else None
            axes.add_patch(Rectangle((x, y), width, height, edgecolor=GREY, label=label, **_LOOKS[kind]))
            mark = _MARKS[kind] if height * 5 >= seq_len_q / 2 else ""  # no room in a ragged last row
            axes.text(x + width / 2, y + height / 2, mark, ha="center", va="center", fontsize=8, color=INK)
    _draw_staircase(axes, seq_len_q, seq_len_kv)
    axes.set_xlim(-0.5, seq_len_kv + 0.5)
    axes.set_ylim(seq_len_q + 0.5, -0.5)
    clean(axes)
    axes.set_xticks(range(0, seq_len_kv + 1, block_n))
    axes.set_yticks(range(0, seq_len_q + 1, block_m))
    name_axes(axes, "keys", "queries", "the line: below and left of it a query sees the key")
    figure.legend(loc="outside lower center", fontsize=9, frameon=False, ncols=3)
    return figure


def _first(kinds, wanted):
    """(q_tile, kv_tile) of the first tile of a kind."""
    return next((q, kv) for q, row in enumerate(kinds) for kv, kind in enumerate(row) if kind == wanted)


def _draw_staircase(axes, seq_len_q, seq_len_kv):
    """The border between the keys that a query sees and those that it does not."""
    offset, xs, ys = seq_len_kv - seq_len_q, [], []
    for q_row in range(seq_len_q):
        border = min(max(q_row + offset + 1, 0), seq_len_kv)
        xs += [border, border]
        ys += [q_row, q_row + 1]
    axes.plot(xs, ys, color=INK, linewidth=1.6)
