"""The chapters and what each needs, as a graph, from chapters/plan.csv and the files in chapters/.

May import: style, drawing, matplotlib.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from matplotlib.patches import FancyBboxPatch

from .drawing import arrow, canvas, label
from .style import BLUE, GREY, INK, LIGHT_BLUE, Picture

CHAPTERS = Path(__file__).resolve().parents[2] / "chapters"
_HALF_WIDTH, _HALF_HEIGHT = 0.415, 0.31  # of a box; the centres are 1 apart
_DOTTED = (0, (1, 2))

_BOXES = {  # number: (name as it is written on the map, (column, row))
    "00": ("The driving\nquestion", (0, 0)),
    "01": ("GPU memory", (1, 0)),
    "02": ("First kernels", (1, 1)),
    "03": ("Online softmax", (2, 0)),
    "04": ("Matrix product,\ntensor cores", (2, 2)),
    "05": ("Attention step\nby step, fusion", (2, 1)),
    "06": ("FlashAttention-1", (3, 1)),
    "07": ("FlashAttention-2", (3, 0)),
    "08": ("FlashAttention-3\non Hopper", (4, 2)),
    "09": ("Flash-Decoding", (4, 0)),
    "10": ("Paged attention", (5, 0)),
    "11": ("Engine for\nserving", (4, 1)),
    "12": ("Other kernels of\na transformer", (2, 3)),
    "13": ("GPT-2 on your\nown kernels", (4, 3)),
    "14": ("Serving", (5, 2)),
    "15": ("Scaling out", (5, 3)),
}


@dataclass(frozen=True)
class Stop:
    """One chapter on the map: its short name, its place (column, row), what it needs and what helps."""

    name: str
    place: tuple
    needs: tuple = ()
    helps: tuple = ()


def read_plan(folder=CHAPTERS):
    """The chapters of `folder`/plan.csv: number -> Stop."""
    with (Path(folder) / "plan.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        row["number"]: Stop(*_BOXES[row["number"]], tuple(row["needs"].split()), tuple(row["helped_by"].split()))
        for row in rows
    }


def existing(folder=CHAPTERS):
    """Numbers of the chapters that are written, by their files: {"00", "03"}."""
    return {path.name[:2] for path in Path(folder).glob("[0-9][0-9]_*.md")}


def way_to(chapter, plan=None):
    """The chapters that lead to `chapter`, itself included, in order.

    >>> way_to("10")
    ['00', '01', '03', '07', '09', '10']
    """
    plan = plan or read_plan()
    way, open_ = set(), [chapter]
    while open_:
        number = open_.pop()
        way.add(number)
        open_ += [need for need in plan[number].needs if need not in way]
    return sorted(way)


def course_map(way=(), *, plan=None, written=None):
    """Boxes and arrows: a solid arrow is needed, a dotted one helps; a planned chapter has a dashed box and says so.

    Parameters
    ----------
    way : sequence of chapter numbers to mark with a thick outline
    plan : dict, number -> Stop; default: chapters/plan.csv
    written : set of the numbers that exist; default: those in chapters/
    """
    plan = plan or read_plan()
    written = existing() if written is None else written
    figure = Picture(10.6, 4.9, _alt_text(way, plan, written))
    axes = figure.subplots()
    for number, stop in plan.items():
        for kind in ("needs", "helps"):
            for other in getattr(stop, kind):
                on_way = number in way and other in way and kind == "needs"
                _draw_arrow(axes, plan[other].place, stop.place, marked=on_way, helps=kind == "helps")
    for number, stop in plan.items():
        _draw_box(axes, number, stop, exists=number in written, marked=number in way)
    _draw_legend(axes, bool(way))
    canvas(axes, (-0.5, 5.5), (3.46, -0.46))
    return figure


def _alt_text(way, plan, written):
    """The graph in words."""

    def one(number, stop):
        needs = f"needs {' and '.join(stop.needs)}" if stop.needs else "needs nothing"
        helps = f", {' and '.join(stop.helps)} help{'s' * (len(stop.helps) == 1)}" if stop.helps else ""
        return f"{number} {stop.name.replace(chr(10), ' ')} {needs}{helps}{'' if number in written else ' (planned)'}"

    marked = f" Marked: {', '.join(way)}." if way else ""
    return f"Map of the chapters. {'; '.join(one(*item) for item in plan.items())}.{marked}"


def _draw_box(axes, number, stop, *, exists, marked):
    x, y = stop.place
    left, right, top = x - _HALF_WIDTH, x + _HALF_WIDTH, y - _HALF_HEIGHT
    outline = {"edgecolor": INK if exists or marked else GREY, "linestyle": "-" if exists else (0, (4, 2))}
    rounded = FancyBboxPatch(
        (left, top),
        2 * _HALF_WIDTH,
        2 * _HALF_HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.06",
        facecolor=LIGHT_BLUE if exists else "white",
        linewidth=2.2 if marked else 1.0,
        zorder=3,
        **outline,
    )
    axes.add_patch(rounded)
    label(axes, (left + 0.05, top + 0.09), number, ha="left", weight="bold", zorder=4)
    if not exists:
        label(axes, (right - 0.04, top + 0.09), "planned", size=7.5, ha="right", style="italic", zorder=4)
    label(axes, (x, y + 0.08), stop.name, size=8.5, zorder=4)


def _draw_arrow(axes, start, end, *, marked, helps):
    """From the edge of one box to the edge of the other; beside each other at the sides, else top to bottom."""
    (x0, y0), (x1, y1) = start, end
    right, down = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
    if right:
        tail, head = (x0 + right * _HALF_WIDTH, y0 + 0.18 * down), (x1 - right * _HALF_WIDTH, y1 - 0.18 * down)
    else:
        tail, head = (x0, y0 + down * _HALF_HEIGHT), (x1, y1 - down * _HALF_HEIGHT)
    look = {"linestyle": _DOTTED, "color": GREY} if helps else {"color": BLUE if marked else GREY}
    arrow(axes, tail, head, size=9, linewidth=2.4 if marked else 1.0, zorder=2, **look)


def _draw_legend(axes, marked):
    """Sample arrows in the empty corner below chapter 00."""
    samples = [("needs", GREY, "-", 1.0), ("helps", GREY, _DOTTED, 1.0)]
    samples += [("short cut", BLUE, "-", 2.4)] if marked else []
    for row, (word, colour, dashes, width) in enumerate(samples):
        y = 1.1 + 0.3 * row
        arrow(axes, (-0.4, y), (-0.02, y), size=9, color=colour, linestyle=dashes, linewidth=width)
        label(axes, (0.06, y), word, ha="left")
