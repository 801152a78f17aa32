"""Operands of wgmma in shared memory: the swizzle of 128 bytes, the panels of a tile, and the steps of a product.

May import: style, drawing, matplotlib.
"""

from .drawing import arrow, box, canvas, label
from .style import BLUE, GREY, HATCHES, INK, LIGHT_BLUE, LIGHT_ORANGE, ORANGE, PALE, SKY, Picture

ROW_BYTES = 128  # of a panel: 64 numbers of 16 bits
CHUNK_BYTES = 16
CHUNKS = ROW_BYTES // CHUNK_BYTES
GROUP_ROWS = 64  # of one warpgroup's wgmma
K_STEP = 16  # numbers of k in one wgmma of 16-bit numbers
_BANK_BYTES = 4


def swizzled_chunk(row, chunk):
    """The place in its row, 0 to 7, of 16-byte chunk `chunk` of row `row`."""
    return chunk ^ row % 8


def swizzle_picture(step=0):
    """Eight rows of a panel, as the tensor has them and as they lie in shared memory with the swizzle of 128 bytes.

    Parameters
    ----------
    step : int, 0 to 3; the two core matrices (8 rows x 16 bytes each) of this step of 16 numbers are filled
    """
    if step not in range(CHUNKS // 2):
        raise ValueError(f"A panel has {CHUNKS // 2} steps of 16 numbers, 0 to {CHUNKS // 2 - 1}; got step={step}.")
    chunks = (2 * step, 2 * step + 1)
    places = ", ".join(str(swizzled_chunk(row, chunks[0])) for row in range(8))
    alt_text = (
        "The 128-byte swizzle of 8 rows of 8 chunks of 16 bytes: chunk c of row r lies at place c xor (r mod 8). "
        f"Chunk {chunks[0]} of rows 0 to 7 lies at places {places}: every place once, so 8 rows of one chunk fill "
        "all 32 banks."
    )
    figure = Picture(8.4, 3.5, alt_text)
    left, right = figure.subplots(1, 2)
    _draw_chunks(left, "the tensor: row r, chunk c", chunks, lambda row, place: place)
    _draw_chunks(right, "shared memory: chunk c at place c ^ (r % 8)", chunks, swizzled_chunk)
    for place in range(CHUNKS):
        first = place * CHUNK_BYTES // _BANK_BYTES
        label(right, (place + 0.5, 8.35), f"{first}–{first + 3}", size=7.5)
        label(left, (place + 0.5, 8.35), f"{8 * place}–{8 * place + 7}", size=7.5)
    label(right, (4, 8.95), "banks", size=8.5)
    label(left, (4, 8.95), "numbers of 16 bits", size=8.5)
    return figure


def _draw_chunks(axes, title, chunks, chunk_at):
    """A grid of 8 x 8; a cell has the number of its chunk. xor is its own inverse: place -> chunk is the same map."""
    canvas(axes, (-1.3, CHUNKS + 0.1), (9.3, -0.75), title=title)
    for row in range(8):
        label(axes, (-0.15, row + 0.5), f"r = {row}" if row == 0 else f"{row}", size=8, ha="right")
        for place in range(CHUNKS):
            chunk = chunk_at(row, place)
            look = {"facecolor": "white", "edgecolor": PALE, "linewidth": 0.8}
            if chunk in chunks:
                first = chunk == chunks[0]
                look = {"facecolor": SKY if first else ORANGE, "hatch": HATCHES[0 if first else 1], "edgecolor": INK}
            box(axes, (place, row), 1, 1, **look)
            label(axes, (place + 0.5, row + 0.5), f"{chunk}", size=9, pad=0.8 if chunk == chunks[1] else None)
    for place in range(CHUNKS):
        label(axes, (place + 0.5, -0.3), f"+{place * CHUNK_BYTES} B", size=7.5, color=GREY)


def step_offsets(rows, head_dim, major="k"):
    """Bytes from the start of a tile to each step of 16 of k: what is added to the address, in order.

    Parameters
    ----------
    rows : int, rows of the tile, which are rows of its panels too
    head_dim : int, a multiple of 64; the tile has head_dim / 64 panels of rows x 128 bytes, one after the other
    major : "k", k runs along the rows (Q and K in Q K^T); "mn", k runs down the rows (V in P V)
    """
    if major == "k":
        return [step // 4 * rows * ROW_BYTES + step % 4 * 2 * K_STEP for step in range(head_dim // K_STEP)]
    if major == "mn":
        return [step * K_STEP * ROW_BYTES for step in range(rows // K_STEP)]
    raise ValueError(f'major={major!r} is unknown; choose "k" or "mn".')


def panels_picture(rows_q=128, rows_kv=128, head_dim=128):
    """A tile of Q and a tile of V in panels, with the bytes at which each step of 16 begins.

    Parameters
    ----------
    rows_q : int, a multiple of 64: 64 rows a warpgroup
    rows_kv : int, keys of the tile, a multiple of 16
    head_dim : int, a multiple of 64
    """
    q_steps, v_steps = step_offsets(rows_q, head_dim), step_offsets(rows_kv, head_dim, "mn")
    panels = head_dim // 64
    alt_text = (
        f"Tiles in panels of 64 columns, 128 bytes a row. Q, {rows_q} rows: {_panels_text(panels, rows_q)}; its "
        f"{len(q_steps)} steps of k begin at bytes {_list(q_steps)}; the next 8 rows are 1,024 bytes further, the next "
        f"consumer's 64 rows 8,192. V, {rows_kv} keys: {_panels_text(panels, rows_kv)}; k runs down the keys, so its "
        f"{len(v_steps)} steps begin at bytes {_list(v_steps)}."
    )
    figure = Picture(8.4, 4.4, alt_text)
    left, right = figure.subplots(1, 2)
    _draw_k_major(left, rows_q, panels, q_steps)
    _draw_mn_major(right, rows_kv, panels, v_steps)
    return figure


def _panels_text(panels, rows):
    return f"{panels} panel{'s' * (panels > 1)} of {rows * ROW_BYTES:,} bytes"


def _list(offsets):
    return ", ".join(f"{offset:,}" for offset in offsets)


def _panel_left(panel):
    return panel * 76.0  # 64 columns and a gap


def _draw_k_major(axes, rows, panels, offsets):
    """Strips of 32 bytes down each panel; a dashed line between the consumers."""
    scale = 128 / rows
    for step, offset in enumerate(offsets):
        left = _panel_left(step // 4) + step % 4 * 16
        look = {"facecolor": LIGHT_BLUE if step % 2 else "white", "edgecolor": BLUE}
        box(axes, (left, 0), 16, 128, **look, linewidth=0.8)
        for group in range(rows // GROUP_ROWS):
            words = f"step {step}: " * (group == 0) + f"+{offset + group * GROUP_ROWS * ROW_BYTES:,}"
            label(axes, (left + 8, (group + 0.5) * GROUP_ROWS * scale), words, size=8, rotation=90)
    right = _panel_left(panels - 1) + 64
    for group in range(rows // GROUP_ROWS):
        top = group * GROUP_ROWS * scale
        if group:
            axes.plot([-3, right + 3], [top, top], color=INK, linewidth=1.3, linestyle="--")
        words = f"consumer {group}\n+{group * GROUP_ROWS * ROW_BYTES:,}"
        label(axes, (-5, top + GROUP_ROWS * scale / 2), words, size=7.5, ha="right")
    _panel_names(axes, panels, rows)
    _pitch(axes, right + 5, 8 * scale, "8 rows:\n+1,024")
    canvas(axes, (-47, right + 34), (140, -14), title=f"K-major: Q, {rows} rows (k runs to the right)")


def _draw_mn_major(axes, rows, panels, offsets):
    """Bands of 16 keys across the panels."""
    height = 128 / len(offsets)
    for step, offset in enumerate(offsets):
        for panel in range(panels):
            look = {"facecolor": LIGHT_ORANGE if step % 2 else "white", "edgecolor": ORANGE}
            box(axes, (_panel_left(panel), step * height), 64, height, **look, linewidth=0.8)
        label(axes, (32, (step + 0.5) * height), f"step {step}:  +{offset:,}", size=8)
    right = _panel_left(panels - 1) + 64
    if panels > 1:
        look = {"shrinkA": 0, "shrinkB": 0, "size": 8}
        arrow(axes, (_panel_left(0) + 50, 0.5 * height), (_panel_left(1) + 14, 0.5 * height), **look)
        label(axes, (_panel_left(1) + 15, 0.5 * height), f"+{rows * ROW_BYTES:,}", size=8, ha="left")
    _panel_names(axes, panels, rows)
    _pitch(axes, right + 5, height / 2, "8 keys:\n+1,024")
    canvas(axes, (-8, right + 34), (140, -14), title=f"MN-major: V, {rows} keys (k runs down)")


def _panel_names(axes, panels, rows):
    """Column numbers above each panel, the byte at which it begins below."""
    for panel in range(panels):
        middle = _panel_left(panel) + 32
        label(axes, (middle, -5), f"columns {64 * panel}–{64 * panel + 63}", size=7.5, color=GREY)
        label(axes, (middle, 134), f"panel {panel}: +{panel * rows * ROW_BYTES:,}", size=8)


def _pitch(axes, x, height, words):
    """A small bracket from the top over eight rows."""
    axes.plot([x, x + 3, x + 3, x], [0, 0, height, height], color=INK, linewidth=1)
    label(axes, (x + 5, max(height / 2, 5)), words, size=7.5, ha="left")
