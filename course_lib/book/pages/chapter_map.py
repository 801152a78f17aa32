"""docs/chapters.svg: what each chapter needs, as arcs between the lines of a list, with the short cuts beside it.

May import: outline, overview, svg.
"""

from ..outline import chapter_files, plan
from . import overview
from .overview import needed
from .svg import BLUE, FAINT, GREEN, INK, card, text

WIDTH, LIST, CUTS, STEP = 860, 236, 590, 108  # px
TOP, LINE = 66, 30


def picture(root):
    """The SVG as text; the arcs are chapters/plan.csv, a dashed box is a chapter that is not written."""
    rows = plan(root)
    written = {path.stem[:2] for path in chapter_files(root)}
    heights = {row["number"]: TOP + LINE * index for index, row in enumerate(rows)}
    body = [text(24, 36, "full: needs · dotted: easier after", FAINT), *_cuts(rows, heights)]
    for row in rows:
        here = heights[row["number"]]
        for column, dotted in (("needs", False), ("helped_by", True)):
            body += [_arc(heights[other], here, dotted) for other in row[column].split()]
        body += _chapter(row, here, row["number"] in written)
    return card(WIDTH, TOP + LINE * len(rows) + 4, f"What each chapter needs: {in_words(root)}.", body)


def in_words(root):
    """The arcs as one sentence without its full stop."""
    return "; ".join(
        f"{row['number']} needs {' and '.join(row['needs'].split())}"
        + (f" (better after {' and '.join(row['helped_by'].split())})" if row["helped_by"] else "")
        for row in plan(root)
        if row["needs"]
    )


def _chapter(row, y, written):
    dashed = "" if written else ' stroke-dasharray="4 4"'
    words = f"{row['number']}  {row['title']}"
    return [
        f'<circle cx="{LIST}" cy="{y}" r="7" fill="{BLUE if written else "none"}" stroke="{BLUE}"{dashed}/>',
        text(LIST + 18, y + 5, words if written else f"{words} (planned)", INK if written else FAINT, 14),
    ]


def _arc(start, end, dotted):
    """Half an ellipse on the left of the list, with an arrow head at its lower end."""
    x, reach = LIST - 8, min(24 + 0.55 * (end - start), LIST - 24)
    look = 'stroke-dasharray="2 5"' if dotted else ""
    return (
        f'<path d="M {x} {start + 3} C {x - reach:.0f} {start + 3}, {x - reach:.0f} {end - 3}, {x} {end - 3}" '
        f'fill="none" stroke="{FAINT}" stroke-width="1.6" {look}/>'
        f'<path d="M {x} {end - 3} l -8 -4 v 8 z" fill="{FAINT}"/>'
    )


def _cuts(rows, heights):
    """A column for each short cut: a dot on every chapter that belongs to it."""
    parts = []
    for number, (name, end) in enumerate(overview.SHORT_CUTS.items()):
        x = CUTS + STEP * number
        stops = [heights[chapter] for chapter in needed(end, rows)]
        middle = 'text-anchor="middle"'
        head, _, rest = name.partition(" ")
        parts += [text(x, 26, head, FAINT, 12, middle), text(x, 42, rest, FAINT, 12, middle)]
        parts.append(f'<line x1="{x}" y1="{stops[0]}" x2="{x}" y2="{stops[-1]}" stroke="{GREEN}" stroke-width="2"/>')
        parts += [f'<circle cx="{x}" cy="{stop}" r="5" fill="{GREEN}"/>' for stop in stops]
    return parts
