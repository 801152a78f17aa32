"""Addresses in shared memory: the banks that ldmatrix meets, and the bits of a swizzled offset.

May import: style, drawing, panels, matplotlib.
"""

from .drawing import arrow, box, canvas, label
from .panels import CHUNK_BYTES
from .style import BLUE, GREEN, GREY, HATCHES, INK, LIGHT_BLUE, LIGHT_GREEN, LIGHT_ORANGE, PALE, SKY, Picture

GROUPS = 8  # of four banks: 16 bytes, what one row of an 8 x 8 tile of ldmatrix takes
_BITS = 13  # of an offset in a tile of 64 rows of 128 bytes


def bank_group(row, chunk, row_bytes, *, swizzled):
    """Which four of the 32 banks, 0 to 7, hold 16-byte chunk `chunk` of row `row`.

    Parameters
    ----------
    row_bytes : 64 or a multiple of 128
    swizzled : bool; chunk c of row r is at place c XOR (r % 8), in rows of 64 bytes at c XOR (r / 2 % 4)
    """
    place = chunk ^ (row % 8 if row_bytes >= 128 else row // 2 % 4) if swizzled else chunk
    return (row * row_bytes // CHUNK_BYTES + place) % GROUPS


def ldmatrix_passes(row_bytes, *, swizzled):
    """Passes through shared memory of eight rows of one chunk: as many as rows share a group of banks."""
    groups = [bank_group(row, 0, row_bytes, swizzled=swizzled) for row in range(8)]
    return max(groups.count(group) for group in groups)


def ldmatrix_picture(row_bytes=128, chunk=0):
    """The eight pieces that ldmatrix fetches of one 8 x 8 tile, in plain rows and swizzled, over the groups of banks.

    Parameters
    ----------
    row_bytes : 64 or a multiple of 128, bytes of a row of the tile
    chunk : int, the piece of 16 bytes that is fetched of each row
    """
    ways = {"plain rows": False, "swizzled": True}
    passes = {name: ldmatrix_passes(row_bytes, swizzled=swizzled) for name, swizzled in ways.items()}
    groups = {
        name: ", ".join(str(bank_group(row, chunk, row_bytes, swizzled=swizzled)) for row in range(8))
        for name, swizzled in ways.items()
    }
    alt_text = "; ".join(f"{name}: groups {groups[name]}, {passes[name]} passes" for name in ways)
    figure = Picture(
        8.4,
        3.4,
        f"ldmatrix fetches chunk {chunk} of rows 0 to 7, {row_bytes} bytes a row. Groups of banks, {alt_text}.",
    )
    for axes, (name, swizzled) in zip(figure.subplots(1, 2), ways.items(), strict=True):
        count = passes[name]
        title = f"{name}: {count} pass{'es' * (count > 1)}"
        _draw_groups(axes, [bank_group(row, chunk, row_bytes, swizzled=swizzled) for row in range(8)], title)
    return figure


def _draw_groups(axes, groups, title):
    """A line for each row, a column for each group of banks; below, how many rows each group serves."""
    canvas(axes, (-1.8, GROUPS + 0.1), (9.9, -0.8), title=title)
    for row, group in enumerate(groups):
        label(axes, (-0.15, row + 0.5), f"row {row}", size=8, ha="right")
        for column in range(GROUPS):
            look = {"facecolor": "white", "edgecolor": PALE}
            if column == group:
                look = {"facecolor": SKY, "edgecolor": INK, "hatch": HATCHES[1]}
            box(axes, (column, row), 1, 1, linewidth=0.8, **look)
    for column in range(GROUPS):
        label(axes, (column + 0.5, -0.35), f"{4 * column}–{4 * column + 3}", size=7.5, color=GREY)
        count = groups.count(column)
        label(axes, (column + 0.5, 8.5), str(count), fontweight="bold" if count > 1 else "normal")
    label(axes, (-0.15, -0.35), "banks", size=8, ha="right", color=GREY)
    label(axes, (4, 9.4), "rows in each group of banks; a pass serves one row a group", size=8)


def ldmatrix_lanes_picture():
    """Whose address gives which row of a 16 x 16 fragment: lanes 0 to 15 the left half, lanes 16 to 31 the right."""
    figure = Picture(
        7.4,
        4.3,
        "ldmatrix_x4 on 16 x 16 numbers, four tiles of 8 x 8. Lane n gives the address of 16 bytes: row n % 16, "
        "columns 0 to 7 for lanes 0 to 15, columns 8 to 15 for lanes 16 to 31. Tile 0, rows 0 to 7 of the left half, "
        "goes to a[0] of all lanes, the tile below it to a[1], the right half to a[2] and a[3].",
    )
    axes = figure.subplots()
    looks = ((LIGHT_BLUE, HATCHES[0]), (LIGHT_ORANGE, HATCHES[1]), (LIGHT_GREEN, HATCHES[3]), (PALE, HATCHES[4]))
    for lane in range(32):
        colour, hatch = looks[lane // 8]
        box(axes, (lane // 16 * 8, lane % 16), 8, 1, facecolor=colour, hatch=hatch, edgecolor=GREY, linewidth=0.8)
        label(axes, (lane // 16 * 8 + 4, lane % 16 + 0.5), f"lane {lane}'s address", size=8, pad=1)
    for tile in range(4):
        left, top = tile // 2 * 8, tile % 2 * 8
        box(axes, (left, top), 8, 8, fill=False, edgecolor=INK, linewidth=1.8)
        x = -0.3 if tile < 2 else 16.3
        label(axes, (x, top + 4), f"tile {tile}:\nto a[{tile}]", ha="right" if tile < 2 else "left")
    label(axes, (4, -0.6), "k 0 to 7: 16 bytes", size=8, color=GREY)
    label(axes, (12, -0.6), "k 8 to 15: 16 bytes", size=8, color=GREY)
    canvas(axes, (-3.2, 19.2), (16.3, -1.1))
    return figure


def xor_address_picture():
    """The bits of a swizzled offset, rows of 128 bytes: what a lane computes once and what changes in the loop."""
    fields = (  # lowest bit, bits, words, colour, hatch
        (10, 3, "row / 8", LIGHT_BLUE, ""),
        (7, 3, "row % 8", LIGHT_ORANGE, HATCHES[1]),
        (4, 3, "chunk ^ row % 8", LIGHT_GREEN, HATCHES[3]),
        (0, 4, "byte in the chunk: 0", "white", ""),
    )
    figure = Picture(
        8.4,
        2.2,
        "The offset of a swizzled chunk in bits. Bits 0 to 3: byte in the chunk, 0. Bits 4 to 6: chunk xor row % 8. "
        "Bits 7 to 9: row % 8. From bit 10: row / 8. 16 columns further the chunk changes by 2, which flips bits 5 "
        "and 6: an XOR with 32 d. Eight rows further adds 1,024 and leaves bits 0 to 9 as they are.",
    )
    axes = figure.subplots()
    canvas(axes, (-0.2, _BITS + 0.2), (4.4, -0.9))
    for bit in range(_BITS):
        label(axes, (_BITS - 0.5 - bit, -0.4), f"{bit}", size=8, color=GREY)
        axes.plot([bit, bit], [0, 1], color=GREY, linewidth=0.5, zorder=0.9)
    for lowest, bits, words, colour, hatch in fields:
        left = _BITS - lowest - bits
        box(axes, (left, 0), bits, 1, facecolor=colour, hatch=hatch, edgecolor=INK, linewidth=1.2)
        label(axes, (left + bits / 2, 0.5), words, size=8.5, pad=1)
    label(axes, (_BITS - 2, 1.45), "computed once by each lane,\nbefore the loop", size=8.5, va="top")
    _bracket(axes, (6, 8), BLUE, "16 columns further:\nXOR 32 d, d % 4 = 1, 2, 3")
    _bracket(axes, (0, 3), GREEN, "8, 16, … rows further:\n+ 1,024, + 2,048, …")
    return figure


def _bracket(axes, columns, colour, words):
    """A bar under some bits with an arrow and words below."""
    left, right = columns
    middle = (left + right) / 2
    axes.plot([left + 0.08, right - 0.08], [1.35, 1.35], color=colour, linewidth=3)
    arrow(axes, (middle, 2.7), (middle, 1.45), shrinkA=0, shrinkB=0)
    label(axes, (middle, 3.5), words, size=8.5)
