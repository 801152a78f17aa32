"""Softmax over one row: how often each method reads the row, and the online softmax tile by tile.

May import: style, drawing, matplotlib.
"""

import math
from dataclasses import dataclass

from .drawing import arrow, box, canvas, clean, grid_lines
from .style import BLUE, GREY, INK, ORANGE, Picture

# title, reads of the row, what is written
SWEEPS = (
    ("three sweeps", ("maximum m", "sum l", "divide"), True),
    ("two sweeps (online)", ("m and l together", "divide"), True),
    ("one sweep", ("m, l and the weighted sum",), False),
)


def sweeps_picture(sweeps=SWEEPS):
    """One panel a method: an arrow for each walk over the row, with what it computes, and a hatched one for the write.

    Parameters
    ----------
    sweeps : sequence of (title, names of the reads, does it write the whole row)
    """
    alt_text = "; ".join(
        f"{title}: reads the row for {', for '.join(reads)}, writes {_written(writes)}"
        for title, reads, writes in sweeps
    )
    figure = Picture(8.4, 2.5, f"How often each method walks over a row. {alt_text}.")
    for axes, (title, reads, writes) in zip(figure.subplots(1, len(sweeps)), sweeps, strict=True):
        canvas(axes, (-0.2, 8.2), (-4.1, 1.3), title=title)
        for cell in range(8):
            box(axes, (cell, 0), 0.9, 0.8, facecolor="white", edgecolor=GREY)
        for level, name in enumerate(reads, start=1):
            _sweep(axes, -0.95 * level + 0.25, f"read: {name}", BLUE, full=True)
        _sweep(axes, -0.95 * (len(reads) + 1) + 0.25, f"write {_written(writes)}", ORANGE, full=writes)
    return figure


def _written(whole_row):
    return "the row" if whole_row else "a small result"


def _sweep(axes, y, name, colour, *, full):
    """An arrow over the row (or a short one), its name above it."""
    dashes = "-" if colour == BLUE else (0, (4, 2))  # a write is dashed: not by colour alone
    end = (8 if full else 1.6, y)
    arrow(axes, (0, y), end, size=11, color=colour, linewidth=1.8, linestyle=dashes, shrinkA=0, shrinkB=0)
    axes.text(0.05, y + 0.12, name, fontsize=8.5, color=INK, va="bottom")


@dataclass(frozen=True)
class Step:
    """One tile of the walk, before and after.

    Attributes
    ----------
    row : tuple of float, the whole row of scores
    start, stop : the tile is row[start:stop]
    m_old, l_old : the state before the tile; (-inf, 0) before the first
    m, alpha, added, l : m = max(m_old, tile), alpha = exp(m_old - m), added = sum(exp(tile - m)),
        l = alpha * l_old + added
    before : tuple of float, exp(x - m_old) of row[:start], before the rescale
    terms : tuple of float, exp(x - m) of row[:stop]; they add up to l
    """

    row: tuple
    start: int
    stop: int
    m_old: float
    l_old: float
    m: float
    alpha: float
    added: float
    l: float  # noqa: E741
    before: tuple
    terms: tuple

    def sentence(self):
        """The step in words and numbers, for text outputs and alternative texts."""
        return (
            f"tile [{self.start}:{self.stop}]: m {_number(self.m_old)} -> {_number(self.m)}, "
            f"alpha = {self.alpha:.4f}, l = {self.alpha:.4f} * {self.l_old:.4f} + {self.added:.4f} = {self.l:.4f}"
        )


def walk(row, block_n):
    """The states of an online softmax that reads `row` in tiles of `block_n`.

    Parameters
    ----------
    row : sequence of numbers, at least one; -inf is a masked score
    block_n : int, tile width, at least 1; the last tile may be narrower

    Returns
    -------
    steps : list of Step, one a tile
    """
    row = tuple(float(value) for value in row)
    if not row or block_n < 1:
        raise ValueError(f"walk needs at least one number and block_n >= 1; got {len(row)} numbers, block_n={block_n}.")
    steps, m, l = [], -math.inf, 0.0  # noqa: E741
    for start in range(0, len(row), block_n):
        stop = min(start + block_n, len(row))
        m_new = max(m, *row[start:stop])
        alpha = _term(m, m_new)
        added = sum(_term(value, m_new) for value in row[start:stop])
        l_new = alpha * l + added
        before = tuple(_term(value, m) for value in row[:start])
        terms = tuple(_term(value, m_new) for value in row[:stop])
        steps.append(Step(row, start, stop, m, l, m_new, alpha, added, l_new, before, terms))
        m, l = m_new, l_new  # noqa: E741
    return steps


def walk_picture(steps):
    """All steps side by side: the row and its current tile above, the terms read so far below.

    Parameters
    ----------
    steps : list of Step, as `walk` returns it; up to about six are legible
    """
    alt_text = ". ".join(step.sentence() for step in steps)
    figure = Picture(max(2.3 * len(steps), 4.5), 3.9, f"Online softmax over one row, one column a tile. {alt_text}.")
    axes = figure.subplots(2, len(steps), squeeze=False, height_ratios=(1, 1.15))
    for column, step in enumerate(steps):
        _draw_row(axes[0][column], step, first=column == 0)
        _draw_terms(axes[1][column], step, first=column == 0)
        axes[1][column].set_xlabel(f"{_alpha(step)}\n{_sum(step)}", fontsize=9, color=INK)
        axes[0][column].set_title(f"tile {column + 1}", fontsize=10, color=INK)
    return figure


def step_picture(steps, number):
    """One step, large, with the arithmetic written out. `number` counts from 0."""
    step = steps[number]
    figure = Picture(7.5, 3.0, f"Step {number + 1} of {len(steps)}: {step.sentence()}.")
    left, right = figure.subplots(1, 2)
    _draw_row(left, step, first=True)
    _draw_terms(right, step, first=True)
    left.set_title(f"tile {number + 1} of {len(steps)}", fontsize=10, color=INK)
    right.set_title(_alpha(step), fontsize=10, color=INK)
    right.set_xlabel(_sum(step), fontsize=10, color=INK)
    return figure


def _draw_row(axes, step, *, first):
    """The scores as bars: read ones filled, the tile hatched, the rest only outlined; a dashed line at m."""
    finite = [value for value in step.row if value > -math.inf]
    span = max([1.0, *finite]) - min([0.0, *finite])
    floor = min([0.0, *finite]) - 0.08 * span  # keeps the bar of the lowest score visible
    top = max([1.0, *finite])
    for index, value in enumerate(step.row):
        in_tile, is_read = step.start <= index < step.stop, index < step.start
        face, edge = (ORANGE, INK) if in_tile else (BLUE, BLUE) if is_read else ("white", GREY)
        if value > -math.inf:
            look = {"facecolor": face, "edgecolor": edge, "hatch": "///" if in_tile else "", "linewidth": 0.9}
            axes.bar(index, value - floor, bottom=floor, width=0.82, **look)
        text = {"textcoords": "offset points", "ha": "center", "fontsize": 8, "color": INK}
        axes.annotate(_number(value), (index, max(value, floor)), (0, 2), **text)
    if step.m > -math.inf:
        axes.axhline(step.m, color=INK, linestyle=(0, (4, 3)), linewidth=1)
    axes.set_xlim(-0.6, len(step.row) - 0.4)
    axes.set_ylim(floor, top + 0.2 * span)
    axes.set_xlabel(f"m = {_number(step.m)}", fontsize=10, color=INK)
    clean(axes, left=False)
    axes.set_xticks([])
    if first:
        axes.set_ylabel("scores x", fontsize=9, color=INK)


def _draw_terms(axes, step, *, first):
    """exp(x - m) of everything read; a dotted outline is the term before the rescale."""
    for index, height in enumerate(step.terms):
        face, edge, hatch = (ORANGE, INK, "///") if index >= step.start else (BLUE, BLUE, "")
        axes.bar(index, height, width=0.82, facecolor=face, edgecolor=edge, hatch=hatch, linewidth=0.9)
    if step.alpha < 1:
        for index, height in enumerate(step.before):
            axes.bar(index, height, width=0.82, facecolor="none", edgecolor=INK, linestyle=":", linewidth=1.1)
    axes.set_xlim(-0.6, len(step.row) - 0.4)
    axes.set_ylim(0, 1.12)
    axes.set_xticks([])
    clean(axes)
    axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"] if first else [])
    grid_lines(axes, "y")
    if first:
        axes.set_ylabel("terms exp(x − m)", fontsize=9, color=INK)


def _alpha(step):
    """How alpha is computed."""
    if step.m_old == -math.inf:
        return "$\\alpha$ = 0, nothing read before"
    return f"$\\alpha$ = exp({_number(step.m_old)} − {_number(step.m)}) = {step.alpha:.3g}"


def _sum(step):
    """The new sum, written out."""
    return f"l = {step.alpha:.3g} · {step.l_old:.3g} + {step.added:.3g} = {step.l:.4g}"


def _term(value, m):
    """exp(value - m), and 0 for a score of -inf, also while m is -inf."""
    return 0.0 if value == -math.inf else math.exp(value - m)


def _number(value):
    """3.0 -> "3", 0.25 -> "0.25", -inf -> "−∞"."""
    return "−∞" if value == -math.inf else f"{value:.3g}"
