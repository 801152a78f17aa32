"""From a token to its row in a pool of pages: one look-up, the slots of new tokens, who uses a page number.

May import: style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, clean, fill, label, name_axes
from .style import BLUE, GREEN, GREY, HATCHES, INK, ORANGE, PALE, VERMILION, Picture

_WARP = 32
_CHUNK = 8  # numbers in 16 bytes


def slot_of(table, page_size, token):
    """The slot of a token in the whole pool, as a kernel computes it."""
    return table[token // page_size] * page_size + token % page_size


def table_walk_picture(table, page_size, num_pages, token):
    """One token's way: its number, the entry of the block table, the page of the pool, the slot.

    Parameters
    ----------
    table : sequence of int, the sequence's row of the block table
    page_size : int, up to 16
    num_pages : int, pages of the pool; about 20 are distinguishable
    token : int, below len(table) * page_size
    """
    index, offset = divmod(token, page_size)
    page, slot = table[index], slot_of(table, page_size, token)
    alt_text = (
        f"Token {token} with pages of {page_size}: {token} // {page_size} = {index} and {token} % {page_size} "
        f"= {offset}. Entry {index} of the sequence's row of the block table, {', '.join(map(str, table))}, is page "
        f"{page}. Its row is at offset {offset} in that page: slot {page} * {page_size} + {offset} = {slot}."
    )
    figure = Picture(8.4, 2.9, alt_text)
    axes = figure.subplots()
    label(
        axes,
        (0, 0),
        f"token {token}:   {token} // {page_size} = {index},   {token} % {page_size} = {offset}",
        ha="left",
    )
    entry = _draw_row(axes, 1.4, 1.7, [str(number) for number in table], index)
    label(axes, (-0.3, 1.9), "block_table[b]", ha="right")
    size = 20 / num_pages
    _draw_row(axes, 3.9, size, [str(number) for number in range(num_pages)], page)
    label(axes, (-0.3, 4.4), "pages", ha="right")
    arrow(axes, (entry, 0.35), (entry, 1.3), linewidth=1)
    arrow(axes, (entry, 2.5), ((page + 0.5) * size, 3.8), linewidth=1)
    label(axes, (entry + 0.4, 0.85), f"entry {index}", ha="left", size=8.5)
    inside = _draw_slots(axes, page_size, offset, (page * size, (page + 1) * size))
    label(axes, (-0.3, 6.8), f"page {page}", ha="right")
    label(axes, (inside, 7.75), f"slot {page} · {page_size} + {offset} = {slot}")
    canvas(axes, (-3.6, 20.3), (8.2, -0.5))
    return figure


def _draw_slots(axes, page_size, offset, edges):
    """The slots of one page, enlarged, with dotted lines to its `edges` in the row of pages; the middle of the slot."""
    words = [str(number) if number in (0, offset, page_size - 1) else "" for number in range(page_size)]
    for x, corner in zip(edges, (3, 17), strict=True):
        axes.plot([x, corner], [4.95, 6.3], color=GREY, linewidth=0.8, linestyle=":")
    return _draw_row(axes, 6.3, 14 / page_size, words, offset, left=3)


def _draw_row(axes, top, width, words, marked, *, left=0.0):
    """Cells with `words`, one of them filled; the middle of that cell."""
    for number, text in enumerate(words):
        mine = number == marked
        look = (
            {"facecolor": ORANGE, "alpha": 0.7, "edgecolor": INK} if mine else {"facecolor": "white", "edgecolor": GREY}
        )
        box(axes, (left + number * width, top), width, 1.0, linewidth=1.4 if mine else 0.8, **look)
        label(axes, (left + (number + 0.5) * width, top + 0.5), text, size=8.5)
    return left + (marked + 0.5) * width


def slot_mapping_picture(rows, page_size, num_pages):
    """Rows of new keys, one after the other, and the slots of the pool that they are written to.

    Parameters
    ----------
    rows : sequence of (name, slot): the sequence of each new token and its slot, -1 for padding
    page_size, num_pages : int; about 40 slots in all are distinguishable
    """
    names = list(dict.fromkeys(name for name, slot in rows if slot >= 0))
    said = "; ".join(
        f"row {i}: padding, slot -1" if slot < 0 else f"row {i}, {name}: slot {slot}"
        for i, (name, slot) in enumerate(rows)
    )
    figure = Picture(8.4, 2.4, f"New rows of K and V, a block each, and the slots of their pages. {said}.")
    axes = figure.subplots()
    wide, slots = 20 / len(rows), num_pages * page_size
    size = 20 / (slots + 0.5 * (num_pages - 1))
    place = [slot * size + slot // page_size * 0.5 * size for slot in range(slots)]
    taken = {slot: names.index(name) for name, slot in rows if slot >= 0}
    for slot in sorted(range(slots), key=taken.__contains__):  # outlines of the filled ones on top
        look = fill(taken[slot]) if slot in taken else {"facecolor": "white", "edgecolor": PALE}
        box(axes, (place[slot], 3.6), size, 0.9, linewidth=0.8, **look)
    for page in range(num_pages):
        label(axes, (place[page * page_size] + size * page_size / 2, 4.85), f"page {page}", size=8)
    for i, (name, slot) in enumerate(rows):
        look = fill(names.index(name)) if slot >= 0 else {"facecolor": "white", "edgecolor": GREY, "linestyle": ":"}
        box(axes, (i * wide + 0.05, 0.6), wide - 0.1, 0.9, linewidth=0.8, **look)
        label(axes, ((i + 0.5) * wide, 1.05), f"{name}" if slot >= 0 else "pad", size=8.5, pad=1)
        label(axes, ((i + 0.5) * wide, 0.2), f"{slot}", size=8.5)
        if slot >= 0:
            arrow(axes, ((i + 0.5) * wide, 1.55), (place[slot] + size / 2, 3.5), size=7, linewidth=0.8)
    for y, words in ((0.2, "slot mapping"), (1.05, "new rows"), (4.05, "pool")):
        label(axes, (-0.3, y), words, size=8.5, ha="right")
    canvas(axes, (-3.1, 20.2), (5.3, -0.2))
    return figure


def page_lanes_picture(pages, slots, head_dim=128):
    """Which lane holds the page of which key, and which lanes copy the row of that key.

    Parameters
    ----------
    pages, slots : of each key of a tile: its page number, and its slot in that page
    head_dim : int, 64 or 128
    """
    chunks = head_dim // _CHUNK
    rows, keys = _WARP // chunks, len(pages)
    held = zip(range(keys), pages, slots, strict=True)
    alt_text = (
        f"A warp and its tile of {keys} keys. Lane r holds page and slot of key r: "
        f"{', '.join(f'lane {r}: page {page}, slot {slot}' for r, page, slot in held)}. "
        f"A pass copies {rows} rows, {chunks} lanes, 16 bytes each: in pass 0 lanes 0 to {chunks - 1} get the offset "
        f"of lane 0 by a shuffle, lanes {chunks} to {2 * chunks - 1} that of lane 1; {keys // rows} passes."
    )
    figure = Picture(8.4, 2.6, alt_text)
    axes = figure.subplots()
    size = 20 / keys
    for r, (page, slot) in enumerate(zip(pages, slots, strict=True)):
        shown = r < 2 * rows
        look = fill(r % rows) if shown else {"facecolor": "white", "edgecolor": GREY}
        box(axes, (r * size, 0.6), size, 1.0, linewidth=0.8, **look)
        label(axes, ((r + 0.5) * size, 1.1), f"{page}:{slot}", size=7.5, pad=0.8 if shown else None)
        label(axes, ((r + 0.5) * size, 0.25), f"{r}", size=7.5, color=GREY)
    for copy in range(2):
        _draw_pass(axes, copy, rows, size)
    for y, words in ((0.25, "lane"), (1.1, "its key: page:slot"), (4.25, "16 bytes a lane")):
        label(axes, (-0.3, y), words, size=8.5, ha="right")
    label(axes, (20, 2.5), "__shfl_sync hands out the offset", size=8.5, ha="right")
    canvas(axes, (-3.9, 20.2), (6.0, -0.2))
    return figure


def _draw_pass(axes, copy, rows, size):
    """The lanes of one pass by the row that they copy, and an arrow from the lane that holds its page."""
    step, chunks = 20 / (2 * _WARP), _WARP // rows
    for lane in range(_WARP):
        look = fill((copy * rows + lane // chunks) % rows)
        box(axes, ((copy * _WARP + lane) * step, 3.8), step, 0.9, linewidth=0.5, **look)
    for part in range(rows):
        row, middle = copy * rows + part, (copy * _WARP + (part + 0.5) * chunks) * step
        arrow(axes, ((row + 0.5) * size, 1.65), (middle, 3.7), size=8, linewidth=0.9)
        label(axes, (middle, 4.25), f"row {row}", size=7.5, pad=0.8)
        label(axes, (middle, 5.0), f"lanes {part * chunks}–{(part + 1) * chunks - 1}", size=7.5)
    label(axes, ((copy + 0.5) * _WARP * step, 5.6), f"pass {copy}", size=8.5)


def lookup_spans(num_tiles, table, rows, work, *, ahead):
    """[(lane, tile, start, end)] of a walk over tiles: the table's entry, the rows, the arithmetic.

    Parameters
    ----------
    table, rows, work : time of a look-up, of copying a tile, of multiplying it
    ahead : bool; False: each waits for the one before. True: two tiles of rows in flight, a look-up one further
    """
    spans, done = [], [0.0] * num_tiles
    for tile in range(num_tiles):
        if ahead:
            begin = (
                0.0 if tile == 0 else spans[3 * (tile - 1) + 1][2]
            )  # its page is looked up when the tile before starts
            ready = begin + table
            free = done[tile - 2] - work if tile > 1 else 0.0  # a slot is free when the tile before the last begins
        else:
            begin = done[tile - 1] if tile else 0.0
            ready, free = begin + table, 0.0
        start = max(ready, free)
        first = max(start + rows, done[tile - 1] if tile else 0.0)
        done[tile] = first + work
        spans += [
            ("table", tile, begin, ready),
            ("rows", tile, start, start + rows),
            ("multiply", tile, first, done[tile]),
        ]
    return spans


_LANES = {"table": (ORANGE, HATCHES[1]), "rows": (GREEN, HATCHES[3]), "multiply": (BLUE, "")}


def lookup_picture(num_tiles=5, table=1.0, rows=1.4, work=1.0):
    """Two time axes: each load waits for its look-up, and look-ups a tile ahead of the copies.

    Parameters
    ----------
    num_tiles, table, rows, work : as in `lookup_spans`; the bars are a drawing, not a measurement
    """
    panels = {
        "look up, load, multiply, one after the other": lookup_spans(num_tiles, table, rows, work, ahead=False),
        "the page of a tile is known before its turn": lookup_spans(num_tiles, table, rows, work, ahead=True),
    }
    ends = {title: spans[-1][3] for title, spans in panels.items()}
    said = "; ".join(f"{title}: {end:.3g}" for title, end in ends.items())
    alt_text = (
        f"{num_tiles} tiles on a time axis, a drawing, not a measurement. A look-up takes {table:g}, a copy {rows:g}, "
        f"the products {work:g}. End: {said}."
    )
    figure = Picture(8.2, 3.6, alt_text)
    for axes, (title, spans) in zip(figure.subplots(2, 1, sharex=True), panels.items(), strict=True):
        for lane, tile, start, end in spans:
            y, level = 2 - list(_LANES).index(lane), 0.4 * (tile % 2) if lane == "rows" else 0
            height = 0.38 if lane == "rows" else 0.78
            colour, hatch = _LANES[lane]
            box(axes, (start, y + level), end - start, height, facecolor=colour, hatch=hatch, edgecolor=INK, alpha=0.6)
            label(axes, ((start + end) / 2, y + level + height / 2), str(tile), size=7.5, pad=0.6)
        axes.axvline(ends[title], color=VERMILION, linewidth=1, linestyle=":")
        axes.set(xlim=(0, 1.02 * max(ends.values())), ylim=(-0.15, 2.95))
        clean(axes, bottom=False)
        axes.set_yticks([0.4, 1.4, 2.4], list(_LANES)[::-1])
        name_axes(axes, "", "", title)
    axes.set_xlabel("time", fontsize=9, color=INK)
    return figure
