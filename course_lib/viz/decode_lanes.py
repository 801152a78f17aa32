"""Inside a decode kernel: which lanes read which key, the ring of each warp, the block that merges.

May import: style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, fill, label
from .style import BLUE, GREEN, GREY, HATCHES, INK, ORANGE, PALE, PURPLE, Picture

_WARP = 32
_CHUNK = 8  # numbers in 16 bytes: what a thread loads at once
_LEFT = 3.4  # of the row names, in cells


def key_lanes_picture(head_dim=64, num_threads=128, num_keys=None, past_end="the last key again,\nits score masked"):
    """One round of a block: a row for each key, a cell for each 16 bytes, in it the thread that loads them.

    Parameters
    ----------
    head_dim : int, 64 or 128 numbers of 16 bits in a row
    num_threads : int, of the block
    num_keys : int, keys that are left in this round; default: one for each group of lanes
    past_end : str, what a group of lanes without a key does
    """
    lanes = head_dim // _CHUNK
    rows = num_threads // lanes
    num_keys = rows if num_keys is None else num_keys
    words = past_end.replace("\n", " ")
    rest = f" {rows - num_keys} groups have no key left: {words}." if num_keys < rows else ""
    alt_text = (
        f"One round of a block of {num_threads} threads: {lanes} neighbouring lanes share a key and load 16 bytes of "
        f"its row each, so {rows} keys are in flight. Threads 0 to {lanes - 1} have key 0, threads {lanes} to "
        f"{2 * lanes - 1} key 1.{rest} Each group of lanes keeps a state m, l, acc; they are merged after the last key."
    )
    figure = Picture(8.4, 0.24 * rows + 0.6, alt_text)
    axes = figure.subplots()
    width = 16 / lanes
    for row in range(rows):
        _draw_key(axes, row, lanes, width, exists=row < num_keys)
        words = f"key start + {row}" if row < num_keys else "past the end"
        label(axes, (-0.2, row + 0.45), words, size=8, ha="right")
    _draw_states(axes, num_keys, rows, past_end)
    canvas(axes, (-_LEFT, 26), (rows + 0.1, -1.0))
    label(
        axes,
        (8, -0.5),
        f"a row of K (and of V): {lanes} pieces of 16 bytes; in each the thread that loads it; a colour is a warp",
        size=9,
    )
    return figure


def _draw_key(axes, row, lanes, width, *, exists):
    for lane in range(lanes):
        thread = row * lanes + lane
        look = fill(thread // _WARP) if exists else {"facecolor": "white", "edgecolor": GREY, "linestyle": ":"}
        box(axes, (lane * width, row), width, 0.9, linewidth=0.7, **look)
        label(axes, ((lane + 0.5) * width, row + 0.45), str(thread), size=7, pad=0.8)


def _draw_states(axes, num_keys, rows, past_end):
    """An arrow from each group of lanes to its state, the merge of all, and what groups without a key do."""
    for row in range(rows):
        if row < num_keys:
            arrow(axes, (16.1, row + 0.45), (17.2, row + 0.45), size=6, linewidth=0.8)
        box(axes, (17.3, row + 0.1), 1.7, 0.7, facecolor="white", edgecolor=GREY, linewidth=0.7)
        label(axes, (18.15, row + 0.45), "m, l, acc", size=6)
    axes.plot([19.3, 19.6, 19.6, 19.3], [0.2, 0.2, rows - 0.3, rows - 0.3], color=INK, linewidth=1)
    label(axes, (19.9, rows / 3), "after the last key:\none merge, through\nshared memory", size=8.5, ha="left")
    if num_keys < rows:
        label(axes, (19.9, (num_keys + rows) / 2), f"no key left:\n{past_end}", size=8.5, ha="left")


def ring_tiles(num_tiles, num_warps, num_stages, step):
    """What each slot of each warp's ring holds while the warp multiplies its tile number `step`.

    Returns
    -------
    list of lists: for each warp and slot (tile, "multiply" | "in flight" | "done"), or None where nothing is
    """
    rings = []
    for warp in range(num_warps):
        mine, ring = list(range(warp, num_tiles, num_warps)), [None] * num_stages
        for number, tile in enumerate(mine[: step + num_stages]):
            state = "done" if number < step else "multiply" if number == step else "in flight"
            ring[number % num_stages] = (tile, state)
        rings.append(ring)
    return rings


_STATES = {
    "multiply": {"facecolor": BLUE, "alpha": 0.6, "edgecolor": INK},
    "in flight": {"facecolor": GREEN, "hatch": HATCHES[3], "alpha": 0.55, "edgecolor": INK},
    "done": {"facecolor": "white", "edgecolor": GREY},
}


def rings_picture(num_tiles=14, num_warps=4, num_stages=3, step=1):
    """The tiles of a split go round the warps; below, the ring of each warp while it multiplies its tile `step`.

    Parameters
    ----------
    num_tiles, num_warps, num_stages, step : as in `ring_tiles`
    """
    rings = ring_tiles(num_tiles, num_warps, num_stages, step)
    said = "; ".join(
        f"warp {warp}: " + ", ".join(f"tile {tile} {state}" for tile, state in filter(None, ring))
        for warp, ring in enumerate(rings)
    )
    alt_text = (
        f"{num_tiles} tiles of a split go round {num_warps} warps, each with a ring of {num_stages} slots. {said}."
    )
    figure = Picture(8.4, 0.38 * num_warps + 1.35, alt_text)
    axes = figure.subplots()
    width = 20 / num_tiles
    label(axes, (-0.3, 0.4), "tiles of the split", size=9, ha="right")
    for tile in range(num_tiles):
        box(axes, (tile * width, 0), width, 0.8, linewidth=0.7, **fill(tile % num_warps, 0.45))
        label(axes, ((tile + 0.5) * width, 0.4), str(tile), size=8.5, pad=1)
    for warp, ring in enumerate(rings):
        top = 1.5 + warp
        box(axes, (-3.4, top), 0.7, 0.8, linewidth=0.7, **fill(warp, 0.45))
        label(axes, (-0.3, top + 0.4), f"warp {warp}", size=9, ha="right")
        for slot, held in enumerate(ring):
            tile, state = held or ("", "done")
            box(axes, (slot * 6.7, top), 6.4, 0.8, linewidth=0.8, **_STATES[state])
            words = f"slot {slot}: tile {tile}, {state}" if held else f"slot {slot}: empty"
            label(axes, (slot * 6.7 + 3.2, top + 0.4), words, size=8.5, pad=1)
    canvas(axes, (-5.2, 20.2), (1.5 + num_warps, -0.2))
    return figure


def last_block_picture(order=(2, 0, 3, 1)):
    """Blocks of one head on a time axis: each writes its part and counts itself, the one that counts last merges.

    Parameters
    ----------
    order : sequence of int, the splits in the order in which their blocks finish
    """
    last, count = order[-1], len(order)
    alt_text = (
        f"{count} blocks of one head, a drawing and not a measurement. They finish in the order of the splits "
        f"{', '.join(map(str, order))}; their atomicAdd returns {', '.join(map(str, range(count)))}. Only the block of "
        f"split {last} reads {count - 1}, the number of splits minus one: it resets the counter and merges all parts. "
        "The others end at once; none of them waits."
    )
    figure = Picture(8.4, 0.5 * count + 0.9, alt_text)
    axes = figure.subplots()
    for split in range(count):
        place = order.index(split)
        _draw_block(axes, split, 7.0 + 1.7 * place, place, last=split == last)
    canvas(axes, (-1.9, 25.5), (count + 0.5, -0.7))
    key = "time →   bars: keys of the split; dotted: part written, fence; circle: what atomicAdd returns"
    label(axes, (0, -0.4), key, size=8.5, ha="left")
    label(
        axes,
        (0, count + 0.2),
        f"the counter is {count} for a moment; the last block sets it back to 0",
        size=8.5,
        ha="left",
    )
    return figure


def _draw_block(axes, split, end, returned, *, last):
    """Keys, the part, the count, and either the end of the block or the merge."""
    label(axes, (-0.2, split + 0.4), f"split {split}", size=9, ha="right")
    box(axes, (0, split), end, 0.8, facecolor=BLUE, alpha=0.5, edgecolor=INK)
    box(axes, (end, split), 1.0, 0.8, facecolor=ORANGE, hatch=HATCHES[3], alpha=0.7, edgecolor=INK)
    axes.plot([end + 1.6], [split + 0.4], "o", markersize=13, markerfacecolor="white", markeredgecolor=INK)
    label(axes, (end + 1.6, split + 0.4), str(returned), size=9)
    if last:
        box(axes, (end + 2.3, split), 3.4, 0.8, facecolor=PURPLE, hatch=HATCHES[1], alpha=0.6, edgecolor=INK)
        label(axes, (end + 4.0, split + 0.4), "fence, merge", size=8.5, pad=1)
        label(axes, (end + 5.9, split + 0.4), "out, lse", size=8.5, ha="left")
    else:
        axes.plot([end + 2.4, end + 3.0], [split + 0.4] * 2, color=PALE, linewidth=1)
        label(axes, (end + 3.2, split + 0.4), "ends", size=8.5, ha="left")
