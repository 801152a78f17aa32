"""The error map as an inline SVG: one square an element, tile borders, and a sentence as alternative text.

May import: card, error_map.
"""

from . import error_map as data
from .card import LEGEND, escape

_MOST_ROWS, _MOST_COLS = 64, 96
_WIDTH, _HEIGHT = 560, 360  # pixels that the squares may take
_LEFT, _TOP = 44, 20  # room for the axis numbers
_GLYPHS = [
    (),
    ((0.45, 0.5, 0.1, 0),),
    ((0.25, 0.5, 0.5, 0),),
    ((0.25, 0.5, 0.5, 0), (0.5, 0.25, 0, 0.5)),
    ((0.25, 0.25, 0.5, 0.5), (0.75, 0.25, -0.5, 0.5)),
]  # strokes (x, y, dx, dy) in a square of side 1
_WHITE = 'stroke="var(--jp-layout-color0,#fff)" fill="none"'
_COLOURS = ["var(--m0)", "var(--m1)", "var(--m2)", "var(--m3)", "var(--mn)"]


def render(verdict):
    """The map of a verdict and its legend as HTML; "" when there is none."""
    error_map = verdict.error_map
    levels, steps = data.coarse(error_map, _MOST_ROWS, _MOST_COLS)
    width = max(map(len, levels), default=0)
    if not width:
        return ""
    side = int(max(4, min(18, _WIDTH // width, _HEIGHT // len(levels))))
    down = data.borders(error_map, 0, steps, len(levels))
    across = data.borders(error_map, 1, steps, width)
    size = (_LEFT + width * side + 2, _TOP + len(levels) * side + 2)
    parts = [
        _squares(levels, side),
        _lines(down, across, side, width, len(levels)),
        _numbers(down, across, side, steps, data.first_shown(error_map)),
    ]
    summary = data.map_summary(verdict)
    picture = (
        f'<svg role="img" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" '
        f'aria-label="{escape(summary)}"><desc>Numbers at its axes: </desc>{" ".join(parts)}</svg>'
    )
    caption = f"<p><span class=lead>Where it is wrong.</span> {escape(summary)}</p>"
    return f"{caption}\n{picture}\n" + _legend(levels, steps, down or across)


def _squares(levels, side, left=_LEFT, top=_TOP):
    """All squares; worse errors are darker, and carry a dot, a bar, a plus or a cross as well."""
    inner = side - (side > 5)
    parts = []
    for kind in sorted({cell for cells in levels for cell in cells}):
        corners = [
            (left + col * side, top + row * side)
            for row, cells in enumerate(levels)
            for col, cell in enumerate(cells)
            if cell == kind
        ]
        squares = "".join(f"M{x} {y}h{inner}v{inner}h-{inner}z" for x, y in corners)
        parts.append(f'<path class="squares" d="{squares}" fill="{_COLOURS[kind]}"/>')
        if side >= 7 and _GLYPHS[kind]:
            strokes = "".join(_stroke(x, y, inner, kind) for x, y in corners)
            parts.append(f'<path d="{strokes}" stroke-width="{inner / 8:g}" {_WHITE}/>')
    return "".join(parts)


def _stroke(x, y, inner, kind):
    return "".join(
        f"M{x + inner * at_x:g} {y + inner * at_y:g}l{inner * along:g} {inner * down:g}"
        for at_x, at_y, along, down in _GLYPHS[kind]
    )


def _lines(down, across, side, width, height):
    edges = [f"M{_LEFT - 6} {_TOP + row * side - 0.5}H{_LEFT + width * side}" for row in down]
    edges += [f"M{_LEFT + col * side - 0.5} {_TOP - 6}V{_TOP + height * side}" for col in across]
    return (
        f'<path d="{"".join(edges)}" stroke="var(--jp-content-font-color1,#222)" stroke-width="1.2" fill="none"/>'
        if edges
        else ""
    )


def _numbers(down, across, side, steps, first):
    """Indices of the output at the first element and at tile borders, as far apart as they can be read."""
    texts, last = [], -99
    for row in [0, *down]:
        if row * side - last >= 12:
            last = row * side
            texts.append(
                f'<text x="{_LEFT - 9}" y="{_TOP + last + 9}" text-anchor="end">{first[0] + row * steps[0]}</text>'
            )
    last = -99
    for col in [0, *across]:
        if col * side - last >= 30:
            last = col * side
            texts.append(f'<text x="{_LEFT + last + 1}" y="{_TOP - 8}">{first[1] + col * steps[1]}</text>')
    return " ".join(texts)


def _legend(levels, steps, has_lines):
    present = sorted({cell for cells in levels for cell in cells})
    words = [text for _, text, _ in data.LEVELS] + [data.NAN_LEGEND]
    keys = []
    for cell in present:
        box = _squares([[cell]], 14, 0, 0)
        keys.append(
            f'<span class="key"><svg width="13" height="13" viewBox="0 0 13 13" aria-hidden="true">{box}'
            f"</svg>{escape(words[cell])}</span>"
        )
    notes = []
    if steps != (1, 1):
        notes.append(f"One square is {steps[0]} x {steps[1]} elements and shows the worst of them.")
    if has_lines:
        notes.append("Lines are tile borders; numbers count the elements of the output.")
    return f"<p class=faint>{LEGEND}{' '.join(keys)}{'<br>' if notes else ''} {' '.join(notes)}</p>"
