"""Who walks over the tiles in which order: keys of a block, blocks of a launch, owners of gradients, and copies.

May import: style, drawing, tiles, matplotlib.
"""

from heapq import heapify, heapreplace

from .drawing import arrow, box, canvas, clean, fill, label, name_axes
from .style import BLUE, GREEN, GREY, HATCHES, INK, ORANGE, PALE, SKY, Picture
from .tiles import MASKED, SKIPPED, tile_kinds

_BARRIER = {"color": INK, "linewidth": 0.8, "linestyle": ":"}


def key_walk(kinds, *, last_first):
    """{(Q tile, K/V tile): turn from 1} of the tiles that are not skipped; each Q tile counts by itself."""
    turns = {}
    for q_tile, row in enumerate(kinds):
        visited = [kv_tile for kv_tile, kind in enumerate(row) if kind != SKIPPED]
        for turn, kv_tile in enumerate(reversed(visited) if last_first else visited, start=1):
            turns[q_tile, kv_tile] = turn
    return turns


def key_walk_picture(seq_len=128, block_m=32, block_n=16):
    """The tiles of a causal kernel with the turn in which each block visits them, first keys first and last keys first.

    Parameters
    ----------
    seq_len, block_m, block_n : int, at least 1
    """
    kinds = tile_kinds(seq_len, seq_len, block_m, block_n)
    ways = {"first keys first": False, "last keys first": True}
    masked = [[number for number, kind in enumerate(row) if kind == MASKED] for row in kinds]
    walks = {name: key_walk(kinds, last_first=last) for name, last in ways.items()}
    sentences = [
        f"{name}: block {q_tile} needs the mask in turns {', '.join(str(turns[q_tile, kv]) for kv in columns)}"
        for name, turns in walks.items()
        for q_tile, columns in enumerate(masked)
    ]
    figure = Picture(8.4, 2.8, f"A number is the turn in which a block visits the tile. {'; '.join(sentences)}.")
    for axes, (name, turns) in zip(figure.subplots(1, 2), walks.items(), strict=True):
        for q_tile, row in enumerate(kinds):
            for kv_tile, kind in enumerate(row):
                look = {"facecolor": "white", "edgecolor": PALE}
                if kind != SKIPPED:
                    look = {**fill(1 if kind == MASKED else 0, 0.5), "edgecolor": INK}
                box(axes, (kv_tile, q_tile), 0.94, 0.94, **look)
                text = str(turns.get((q_tile, kv_tile), "–"))
                label(axes, (kv_tile + 0.47, q_tile + 0.47), text, pad=1 if kind == MASKED else None)
            label(axes, (-0.15, q_tile + 0.47), f"block {q_tile}", size=8, ha="right")
        canvas(axes, (-1.6, len(kinds[0])), (len(kinds) + 0.7, -0.1), title=name)
        label(axes, (len(kinds[0]) / 2, len(kinds) + 0.35), "tiles of keys; hatched: needs the mask", size=8)
    return figure


def run_blocks(lengths, num_slots):
    """Blocks that start in the order of `lengths`, each on the slot that is free first: [(slot, start, end)]."""
    slots = [(0, slot) for slot in range(num_slots)]
    heapify(slots)
    spans = []
    for length in lengths:
        start, slot = slots[0]
        heapreplace(slots, (start + length, slot))
        spans.append((slot, start, start + length))
    return spans


def heavy_blocks_picture(num_tiles=8, num_heads=2, num_slots=5):
    """The blocks of a causal launch on the slots of a card, light tiles first and heavy tiles first.

    Parameters
    ----------
    num_tiles : int, Q tiles of a head; the loop of tile i takes i + 1 units of time
    num_heads, num_slots : int
    """
    light = list(range(1, num_tiles + 1)) * num_heads
    ways = {"numbered from the first queries on, head by head": light}
    ways["heavy tiles of all heads first"] = sorted(light, reverse=True)
    spans = {name: run_blocks(lengths, num_slots) for name, lengths in ways.items()}
    ends = {name: max(end for _, _, end in one) for name, one in spans.items()}
    alt_text = "; ".join(f"{name}: the last ends at {end}" for name, end in ends.items())
    total = f"{len(light)} blocks of 1 to {num_tiles} units of time, {sum(light)} together, on {num_slots} slots"
    figure = Picture(8.2, 3.6, f"{total}. {alt_text}.")
    for axes, (name, one) in zip(figure.subplots(2, 1, sharex=True), spans.items(), strict=True):
        for slot, start, end in one:
            look = {"facecolor": BLUE, "alpha": 0.3 + 0.6 * (end - start) / num_tiles, "edgecolor": INK}
            box(axes, (start, slot + 0.08), end - start, 0.84, linewidth=0.7, **look)
            label(axes, ((start + end) / 2, slot + 0.5), f"{end - start}", size=7.5, pad=0.6)
        axes.axvline(ends[name], **_BARRIER)
        axes.set(xlim=(0, 1.02 * max(ends.values())), ylim=(num_slots, 0))
        clean(axes)
        axes.set_yticks([])
        name_axes(axes, "", "slots", f"{name}: {ends[name]}")
    axes.set_xlabel("time, in tiles of keys", fontsize=9, color=INK)
    return figure


def gradient_owners_picture(num_tiles=4):
    """Who owns which gradient in the two backward kernels: a column of tiles ends in dK and dV, a row in dQ.

    Parameters
    ----------
    num_tiles : int, tiles of queries and of keys; the causal mask skips those above the diagonal
    """
    owned = num_tiles // 2
    figure = Picture(
        8.4,
        3.5,
        f"The tiles of scores, {num_tiles} x {num_tiles}, causal. dk_dv: a block owns the keys of tile {owned + 1} and "
        f"goes over the queries that see them, tiles {owned + 1} to {num_tiles}; dK and dV of these keys stay in its "
        f"registers. dq: a block owns the queries of tile {owned + 1} and goes over the keys that they see, tiles 1 to "
        f"{owned + 1}; dQ of these queries stays in its registers.",
    )
    columns, rows = figure.subplots(1, 2)
    kinds = tile_kinds(num_tiles, num_tiles, 1, 1)
    _draw_owner(columns, kinds, "dk_dv: K and V stay", [(q, owned) for q in range(owned, num_tiles)])
    _draw_owner(rows, kinds, "dq: Q and dO stay", [(owned, kv) for kv in range(owned + 1)])
    middle, end = owned + 0.5, num_tiles + 0.2
    arrow(columns, (middle, end - 0.2), (middle, end + 0.35), shrinkA=0, shrinkB=0)
    label(columns, (middle, end + 0.75), "dK, dV of these keys, stored once", size=8.5)
    arrow(rows, (end - 0.2, middle), (end + 0.35, middle), shrinkA=0, shrinkB=0)
    label(rows, (end + 0.5, middle), "dQ of these\nqueries,\nstored once", size=8.5, ha="left")
    return figure


def travelling_gradient_picture(num_tiles=4):
    """The backward pass of one block with K and V outside: dK and dV of a tile of keys stay, dQ travels.

    Parameters
    ----------
    num_tiles : int, tiles of queries and of keys; the causal mask skips those above the diagonal
    """
    kept = num_tiles // 4
    visited = [(q_tile, kept) for q_tile in range(kept, num_tiles)]
    figure = Picture(
        6.4,
        3.6,
        f"One block, K and V in the outer loop. While the keys of tile {kept + 1} stay on chip, the queries of tiles "
        f"{kept + 1} to {num_tiles} pass. dK and dV of the keys are added up in registers and stored once; dQ of every "
        "tile of queries is read, added to and written back each time.",
    )
    axes = figure.subplots()
    _draw_owner(axes, tile_kinds(num_tiles, num_tiles, 1, 1), "K and V stay, Q, dO and dQ pass", visited)
    end = num_tiles + 0.2
    for q_tile, _ in visited:
        arrow(axes, (end + 0.7, q_tile + 0.47), (end, q_tile + 0.47), shrinkA=0, shrinkB=0, arrowstyle="<|-|>")
        label(axes, (end + 0.85, q_tile + 0.47), "dQ: read, added to, written", size=8.5, ha="left")
    arrow(axes, (kept + 0.47, end - 0.2), (kept + 0.47, end + 0.35), shrinkA=0, shrinkB=0)
    label(axes, (kept + 0.47, end + 0.7), "dK, dV of these keys, stored once", size=8.5)
    axes.set_xlim(-0.9, num_tiles + 5.2)
    return figure


def _draw_owner(axes, kinds, title, visited):
    """The grid of tiles; visited ones numbered in their order."""
    num_tiles = len(kinds)
    for q_tile, row in enumerate(kinds):
        for kv_tile, kind in enumerate(row):
            look = {"facecolor": "white" if kind == SKIPPED else PALE, "edgecolor": GREY}
            if (q_tile, kv_tile) in visited:
                look = {"facecolor": SKY, "hatch": HATCHES[1], "edgecolor": INK}
                turn = str(visited.index((q_tile, kv_tile)) + 1)
                label(axes, (kv_tile + 0.47, q_tile + 0.47), turn, pad=1.5, zorder=5)
            elif kind == SKIPPED:
                label(axes, (kv_tile + 0.47, q_tile + 0.47), "–")
            box(axes, (kv_tile, q_tile), 0.94, 0.94, **look)
    label(axes, (num_tiles / 2, -0.25), "tiles of keys", size=8)
    label(axes, (-0.25, num_tiles / 2), "tiles of queries", size=8, rotation=90)
    canvas(axes, (-0.6, num_tiles + 2.4), (num_tiles + 1.3, -0.5), title=title)


def buffer_steps(num_tiles, copy=0.7, scores=1.0, rest=1.5):
    """Buffers and products of a walk with one buffer for K and one for V: [(lane, words, start, end)].

    The copy of V starts with the scores of its tile, that of the next K after them; each is awaited before its use.

    Parameters
    ----------
    num_tiles : int
    copy, scores, rest : float, how long a copy, the scores, and softmax and second product of a tile take
    """
    steps, now = [("K buffer", "copy K1", 0.0, copy)], copy
    for tile in range(1, num_tiles + 1):
        ready, now = now, now + scores
        steps += [("warps", f"q K{tile}", ready, now), ("K buffer", f"read K{tile}", ready, now)]
        steps.append(("V buffer", f"copy V{tile}", ready, ready + copy))
        now = max(now, ready + copy)
        if tile < num_tiles:
            steps.append(("K buffer", f"copy K{tile + 1}", now, now + copy))
        steps += [("warps", f"softmax, p V{tile}", now, now + rest), ("V buffer", f"read V{tile}", now, now + rest)]
        now = max(now + rest, now + copy)
    return steps


def buffers_picture(num_tiles=3):
    """What is in flight and what is read, with one buffer for K and one for V; dotted: wait and barrier.

    Parameters
    ----------
    num_tiles : int, tiles of keys
    """
    steps, lanes = buffer_steps(num_tiles), ("warps", "V buffer", "K buffer")
    alt_text = "; ".join(f"{lane}: {words}, {start:.3g} to {end:.3g}" for lane, words, start, end in steps)
    figure = Picture(8.4, 2.4, f"One buffer for K and one for V, a drawing and not a measurement. {alt_text}.")
    axes = figure.subplots()
    for lane, words, start, end in steps:
        look = {"facecolor": SKY, "alpha": 0.7}
        if lane != "warps":
            copied = words.startswith("copy")
            look = {"facecolor": GREEN if copied else ORANGE, "hatch": HATCHES[3 if copied else 1], "alpha": 0.6}
        y = lanes.index(lane)
        box(axes, (start, y), end - start, 0.8, edgecolor=INK, linewidth=0.8, **look)
        label(axes, ((start + end) / 2, y + 0.4), words, size=8, pad=1)
        if lane == "warps":
            axes.axvline(start, **_BARRIER)
    axes.set(xlim=(0, 1.01 * max(end for *_, end in steps)), ylim=(-0.1, len(lanes)))
    clean(axes, bottom=False)
    axes.set_yticks([y + 0.4 for y in range(len(lanes))], lanes)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("time; dotted: wait for the copy, and a barrier", fontsize=9, color=INK)
    return figure
