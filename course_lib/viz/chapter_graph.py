"""The chapters and what each needs, as a graph; which of them exist is read from the folder chapters/.

May import: style, matplotlib.
"""

from dataclasses import dataclass
from pathlib import Path

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from .style import BLUE, GREY, INK, Picture

CHAPTERS = Path(__file__).resolve().parents[2] / "chapters"
_WIDTH, _HEIGHT = 1.74, 0.68


@dataclass(frozen=True)
class Stop:
    """One chapter on the map: a short name, what it cannot do without, what helps, and its place (column, row)."""

    name: str
    needs: tuple = ()
    helps: tuple = ()
    at: tuple = (0, 0)


PLAN = {
    "00": Stop("The driving\nquestion", at=(0, 0)),
    "01": Stop("GPU memory", ("00",), at=(1, 0)),
    "02": Stop("First kernels", ("01",), at=(1, 1)),
    "03": Stop("Online softmax", ("01",), ("02",), at=(2, 0)),
    "04": Stop("Matrix product,\ntensor cores", ("02",), at=(2, 2)),
    "05": Stop("Attention step\nby step, fusion", ("02",), ("04",), at=(2, 1)),
    "06": Stop("FlashAttention-1", ("03", "05"), at=(3, 1)),
    "07": Stop("FlashAttention-2", ("03",), ("06",), at=(3, 0)),
    "08": Stop("FlashAttention-3\non Hopper", ("04", "07"), at=(4, 2)),
    "09": Stop("Flash-Decoding", ("07",), at=(4, 0)),
    "10": Stop("Paged attention", ("09",), at=(5, 0)),
    "11": Stop("Engine for\nserving", ("10",), at=(5, 1)),
    "12": Stop("Other kernels of\na transformer", ("02",), at=(2, 3)),
    "13": Stop("GPT-2 on your\nown kernels", ("07", "12"), at=(4, 3)),
    "14": Stop("Serving", ("11", "13"), at=(5, 2)),
    "15": Stop("Scaling out", ("13",), at=(5, 3)),
}


def existing(folder=CHAPTERS):
    """Numbers of the chapters that are written, by their files: {"00", "03"}."""
    return {path.name[:2] for path in Path(folder).glob("[0-9][0-9]_*.md")}


def way_to(chapter, plan=PLAN):
    """The chapters that lead to `chapter`, itself included, in order.

    >>> way_to("10")
    ['00', '01', '03', '07', '09', '10']
    """
    found, open_ = set(), [chapter]
    while open_:
        number = open_.pop()
        found.add(number)
        open_ += [need for need in plan[number].needs if need not in found]
    return sorted(found)


def course_map(way=(), *, plan=PLAN, written=None):
    """Boxes and arrows: solid arrows are needed, dotted ones help; planned chapters have a dashed box and say so.

    Parameters
    ----------
    way : sequence of chapter numbers to mark with a thick outline
    written : set of the numbers that exist; default: those in chapters/
    """
    written = existing() if written is None else written
    figure = Picture(10.6, 4.9, _alt(way, plan, written))
    axes = figure.subplots()
    for number, stop in plan.items():
        for kind in ("needs", "helps"):
            for other in getattr(stop, kind):
                _arrow(axes, plan[other].at, stop.at, marked=number in way and other in way, helps=kind == "helps")
    for number, stop in plan.items():
        _box(axes, number, stop, exists=number in written, marked=number in way)
    _legend(axes, bool(way))
    axes.set_xlim(-0.5, 5.5)
    axes.set_ylim(3.46, -0.46)
    axes.axis("off")
    return figure


def _alt(way, plan, written):
    """The graph in words."""

    def one(number, stop):
        needs = f"needs {' and '.join(stop.needs)}" if stop.needs else "needs nothing"
        helps = f", {' and '.join(stop.helps)} helps" if stop.helps else ""
        return f"{number} {stop.name.replace(chr(10), ' ')} {needs}{helps}{'' if number in written else ' (planned)'}"

    marked = f" Marked: {', '.join(way)}." if way else ""
    return f"Map of the chapters. {'; '.join(one(*item) for item in plan.items())}.{marked}"


def _box(axes, number, stop, *, exists, marked):
    x, y = stop.at
    left, top = x - _WIDTH / 4.2, y - _HEIGHT / 2.2
    face = "#DCEBF5" if exists else "white"
    outline = {"edgecolor": INK if exists or marked else GREY, "linestyle": "-" if exists else (0, (4, 2))}
    patch = FancyBboxPatch(
        (left, top),
        _WIDTH / 2.1,
        _HEIGHT / 1.1,
        boxstyle="round,pad=0,rounding_size=0.06",
        facecolor=face,
        linewidth=2.2 if marked else 1.0,
        zorder=3,
        **outline,
    )
    axes.add_patch(patch)
    axes.text(left + 0.05, top + 0.09, number, fontsize=9, color=INK, weight="bold", va="center", zorder=4)
    if not exists:
        right = left + _WIDTH / 2.1 - 0.04
        axes.text(
            right, top + 0.09, "planned", fontsize=7.5, color=INK, style="italic", va="center", ha="right", zorder=4
        )
    axes.text(x, y + 0.08, stop.name, fontsize=8.5, color=INK, ha="center", va="center", zorder=4)


def _arrow(axes, start, end, *, marked, helps):
    """From the edge of one box to the edge of the other."""
    (x0, y0), (x1, y1) = start, end
    across = abs(x1 - x0) >= 1
    half_x, half_y = _WIDTH / 4.2, _HEIGHT / 2.2
    sign_x, sign_y = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
    if across:
        tail, head = (x0 + sign_x * half_x, y0 + 0.18 * sign_y), (x1 - sign_x * half_x, y1 - 0.18 * sign_y)
    else:
        tail, head = (x0, y0 + sign_y * half_y), (x1, y1 - sign_y * half_y)
    look = {"linestyle": (0, (1, 2)), "color": GREY} if helps else {"color": BLUE if marked else GREY}
    axes.add_patch(
        FancyArrowPatch(
            tail, head, arrowstyle="-|>", mutation_scale=9, linewidth=2.4 if marked else 1.0, zorder=2, **look
        )
    )


def _legend(axes, marked):
    """Three sample arrows in the empty corner below chapter 00."""
    samples = [("needs", GREY, "-", 1.0), ("helps", GREY, (0, (1, 2)), 1.0)]
    samples += [("short cut", BLUE, "-", 2.4)] if marked else []
    for row, (word, colour, style, width) in enumerate(samples):
        y = 1.1 + 0.3 * row
        look = {"color": colour, "linestyle": style, "linewidth": width}
        axes.add_patch(FancyArrowPatch((-0.4, y), (-0.02, y), arrowstyle="-|>", mutation_scale=9, **look))
        axes.text(0.06, y, word, fontsize=9, color=INK, va="center")
