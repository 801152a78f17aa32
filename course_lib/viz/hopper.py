"""What the kernels of chapter 08 do with a tile: boxes of a copy, keys of an e4m3 operand, products of the backward
pass, and the order of events around a TMA store and between the tiles of a block.

May import: schedule, style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, fill, label
from .schedule import Span
from .style import GREY, HATCHES, INK, LIGHT_BLUE, LIGHT_ORANGE, ORANGE, PALE, Picture

_PANEL_COLUMNS = 64  # of 16 bits: 128 bytes
_STEP = 16  # keys that lane t of four holds four of
_LANES = 4


def boxes_picture(rows=128, head_dim=128):
    """A tile in the tensor and in shared memory: one box for each panel, all of them counted by one barrier.

    Parameters
    ----------
    rows : int, keys of the tile
    head_dim : int, a multiple of 64
    """
    panels, panel_bytes = head_dim // _PANEL_COLUMNS, rows * 2 * _PANEL_COLUMNS
    total = panels * panel_bytes
    figure = Picture(
        8.4,
        3.1,
        f"A tile of {rows} keys and {head_dim} columns is copied as {panels} boxes of {rows} x {_PANEL_COLUMNS}. In "
        f"shared memory they become panels, one after the other, {panel_bytes:,} bytes each, swizzled on the way. The "
        f"barrier full expects {total:,} bytes, and completes when all have landed.",
    )
    axes = figure.subplots()
    canvas(axes, (-0.3, 15.5), (6.6, -0.9))
    box(axes, (0, 0), 2.4 * panels, 5.6, facecolor="white", edgecolor=GREY, linestyle=":")
    label(axes, (1.2 * panels, -0.45), "K in global memory", size=9)
    for panel in range(panels):
        _draw_box(axes, panel, rows, panel_bytes, 5.4 / panels)
    label(axes, (8.8, -0.45), "a stage in shared memory", size=9)
    box(axes, (11.9, 1.9), 3.4, 1.7, facecolor="white", edgecolor=INK)
    label(axes, (13.6, 2.3), "full[stage]", size=9, fontweight="bold")
    label(axes, (13.6, 2.85), f"expects {total:,} bytes", size=8.5)
    label(axes, (13.6, 3.25), "and one arrival", size=8.5)
    label(axes, (6.5, 6.25), "one thread: announce the bytes, then start the boxes", size=9)
    return figure


def _draw_box(axes, panel, rows, panel_bytes, height):
    """A box of the tensor, its panel, and the bytes that the barrier counts."""
    middle = 0.1 + (panel + 0.45) * height
    box(axes, (2.4 * panel + 0.1, 1.6), 2.2, 2.4, **fill(panel, alpha=0.5))
    label(axes, (2.4 * panel + 1.2, 2.8), f"box {panel}\n{rows} x {_PANEL_COLUMNS}", size=8.5, pad=1.5)
    box(axes, (7.2, 0.1 + panel * height), 3.2, 0.9 * height, **fill(panel, alpha=0.5))
    words = f"panel {panel}, swizzled\n{panel_bytes:,} bytes"
    label(axes, (8.8, middle), words, size=8.5, pad=1.5)
    start = (2.4 * panel + 1.2, 1.6) if panel == 0 else (2.4 * panel + 2.3, 2.8)
    arrow(axes, start, (7.2, middle), linewidth=1)
    arrow(axes, (10.4, middle), (11.9, 2.75), linewidth=1, linestyle=(0, (3, 2)))


def fp8_key_order():
    """Which key of 16 is at each place of the operand: lane t's weights are keys 2t, 2t + 1, 8 + 2t and 9 + 2t."""
    return [key for lane in range(_LANES) for key in (2 * lane, 2 * lane + 1, 8 + 2 * lane, 9 + 2 * lane)]


def fp8_order_picture(lane=1):
    """16 weights of a row as their lanes hold them, and as the e4m3 operand counts its k; one lane filled.

    Parameters
    ----------
    lane : int, 0 to 3
    """
    order = fp8_key_order()
    mine = order[4 * lane : 4 * lane + 4]
    figure = Picture(
        8.4,
        2.9,
        f"16 weights of a row. As accumulators, lane {lane} of four holds the keys {', '.join(map(str, mine))}. As an "
        f"e4m3 operand it supplies k {4 * lane} to {4 * lane + 3}. So place k of V in shared memory holds key "
        f"{', '.join(map(str, order))}: the keys are permuted, and no weight changes its lane.",
    )
    axes = figure.subplots()
    canvas(axes, (-4.6, 16.2), (5.2, -0.7))
    for place, key in enumerate(order):
        owner = key % 8 // 2
        look = fill(owner, 0.6) if owner == lane else {"facecolor": "white", "edgecolor": GREY}
        box(axes, (key, 0), 1, 1, **look)
        label(axes, (key + 0.5, 0.5), str(key), size=9, pad=1)
        look = fill(lane, 0.6) if place // 4 == lane else {"facecolor": "white", "edgecolor": GREY}
        box(axes, (place, 3), 1, 1, **look)
        label(axes, (place + 0.5, 3.5), str(key), size=9, pad=1)
        if owner == lane:
            arrow(axes, (key + 0.5, 1.05), (place + 0.5, 2.95), linewidth=1, shrinkA=0, shrinkB=0)
        label(axes, (place + 0.5, 4.3), f"{place}", size=7.5, color=GREY)
        label(axes, (key + 0.5, -0.3), f"t = {owner}", size=7, color=GREY)
    label(axes, (-0.2, 0.5), "scores: key, and its lane t", size=8.5, ha="right")
    label(axes, (-0.2, 3.5), "operand, and V: key", size=8.5, ha="right")
    label(axes, (-0.2, 4.3), "k of the product", size=7.5, ha="right", color=GREY)
    return figure


_PRODUCTS = (  # result, product, where the left operand is, what becomes of it
    ("Sᵀ", "K Qᵀ", "shared", "Pᵀ = exp(Sᵀ − lse), in its registers"),
    ("dPᵀ", "V dOᵀ", "shared", "dSᵀ = Pᵀ (dPᵀ − D), in its registers"),
    ("dV", "Pᵀ dO", "registers", "stays in accumulators until the last tile"),
    ("dK", "dSᵀ Q", "registers", "stays in accumulators until the last tile"),
    ("dQ", "dS K", "shared", "added in global memory by the copy engine"),
)


def backward_products_picture():
    """The five products of a tile where a block owns keys: where each left operand is, where the result goes."""
    words = "; ".join(
        f"{result} = {product}, left operand in {where}: {goes}" for result, product, where, goes in _PRODUCTS
    )
    figure = Picture(8.4, 2.5, f"Five products of a tile. {words}. Only dS is written to shared memory between them.")
    axes = figure.subplots()
    canvas(axes, (0, 17), (5.3, -0.8))
    for x, title in ((1.9, "product"), (6.0, "left operand in"), (12.4, "result")):
        label(axes, (x, -0.4), title, size=8.5, color=GREY)
    for row, (result, product, where, goes) in enumerate(_PRODUCTS):
        in_registers = where == "registers"
        box(axes, (0.1, row + 0.08), 3.7, 0.84, facecolor=LIGHT_BLUE, edgecolor=INK, linewidth=0.8)
        label(axes, (1.95, row + 0.5), f"{result} = {product}")
        look = {"facecolor": ORANGE, "alpha": 0.6} if in_registers else {"facecolor": PALE, "hatch": HATCHES[1]}
        box(axes, (4.4, row + 0.08), 3.3, 0.84, edgecolor=GREY, linewidth=0.8, **look)
        label(axes, (6.05, row + 0.5), where if in_registers else "shared memory", size=8.5, pad=1)
        arrow(axes, (7.8, row + 0.5), (8.5, row + 0.5), linewidth=1)
        box(
            axes,
            (8.6, row + 0.08),
            8.2,
            0.84,
            facecolor=LIGHT_ORANGE if row < 4 else "white",
            edgecolor=GREY,
            linewidth=0.8,
        )
        label(axes, (12.7, row + 0.5), goes, size=8.5)
    return figure


def store_order():
    """Spans of a TMA store: 128 threads write, fence and meet, then one thread starts the copy; an order, not times."""
    threads, one = "128 threads", "thread 0"
    return [
        Span(threads, "issue", 0, 3, "write out to shared"),
        Span(threads, "issue", 3, 4.2, "proxy fence"),
        Span(threads, "wait", 4.2, 5.4, "", "named barrier"),
        Span(one, "issue", 5.4, 6.4, "start store"),
        Span("TMA stores", "store", 6.4, 10, "read shared, write global"),
        Span(one, "wait", 6.4, 9, "", "bulk_wait_group_read"),
    ]


def block_lives(lengths, num_slots, *, setup=1.0, persistent=False):
    """Spans of tiles on the slots of a card: a block for each tile, or blocks that stay and take the next tile.

    Parameters
    ----------
    lengths : sequence of float, in the order of the tiles
    num_slots : int, blocks that fit at a time
    setup : float, to initialise barriers and load the first tiles; a block that stays does it once
    """
    free, spans, fresh = [0.0] * num_slots, [], [True] * num_slots
    for number, length in enumerate(lengths):
        slot = min(range(num_slots), key=free.__getitem__)
        start = free[slot]
        if fresh[slot] or not persistent:
            spans.append(Span(f"SM {slot}", "wait", start, start + setup))
            start += setup
        spans.append(Span(f"SM {slot}", "wgmma", start, start + length, f"tile {number}"))
        free[slot], fresh[slot] = start + length, False
    return sorted(spans, key=lambda span: (span.actor, span.start))
