"""The schedule of a serving engine: who computes how many tokens in which step, and who holds which pages.

May import: style, drawing, player, matplotlib.
"""

from .drawing import box, canvas, label
from .player import Player, counted
from .style import BLUE, GREEN, GREY, HATCHES, INK, ORANGE, PALE, SERIES, VERMILION, Picture

PROMPT, TOKEN, WAITING, PREEMPTED = "prompt", "token", "waiting", "preempted"
_LOOKS = {
    PROMPT: {"facecolor": BLUE, "alpha": 0.55, "edgecolor": INK},
    TOKEN: {"facecolor": ORANGE, "alpha": 0.7, "edgecolor": INK, "hatch": HATCHES[1]},
    WAITING: {"facecolor": "white", "edgecolor": PALE},
    PREEMPTED: {"facecolor": VERMILION, "alpha": 0.6, "edgecolor": INK, "hatch": HATCHES[2]},
}
_CELL, _PAGES_IN_A_ROW = 0.92, 32


def schedule_picture(schedules, *, upto=None):
    """Requests downwards, steps to the right: a cell is what a request did in a step, with its number of tokens.

    Parameters
    ----------
    schedules : dict, title -> list of steps; a step is a dict request -> (kind, number of tokens), kind one of PROMPT,
        TOKEN, WAITING, PREEMPTED; a request that is not in a step has not come or is done
    upto : int or None; later steps are left white
    """
    told = ". ".join(f"{title}: {_told(steps)}" for title, steps in schedules.items())
    names = {title: sorted({name for step in steps for name in step}) for title, steps in schedules.items()}
    longest = max(len(steps) for steps in schedules.values())
    heights = [len(rows) + 1.6 for rows in names.values()]
    figure = Picture(8.4, 0.25 + 0.27 * sum(heights), f"Steps of a serving engine. {told}.")
    panels = figure.subplots(len(schedules), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, (title, steps) in zip(panels, schedules.items(), strict=True):
        _draw_schedule(axes, steps, names[title], longest, upto)
        canvas(axes, (-2.2, longest + 0.1), (len(names[title]) + 0.9, -0.35), title=title)
    return figure


def _draw_schedule(axes, steps, rows, longest, upto):
    for row, name in enumerate(rows):
        label(axes, (-0.25, row + 0.45), name, size=8, ha="right")
        for number, step in enumerate(steps[:upto]):
            if name in step:
                kind, count = step[name]
                box(axes, (number, row), _CELL, _CELL, linewidth=0.6, **_LOOKS[kind])
                if count and longest <= 40:
                    label(axes, (number + _CELL / 2, row + _CELL / 2), f"{count}", size=7, pad=0.4)
    for number in range(0, len(steps), 1 if longest <= 24 else 5):
        label(axes, (number + _CELL / 2, len(rows) + 0.35), f"{number}", size=7, color=GREY)
    label(axes, (-0.25, len(rows) + 0.35), "step", size=7.5, color=GREY, ha="right")


def _told(steps):
    """A schedule in words."""
    tokens = sum(count for step in steps for kind, count in step.values() if kind in (PROMPT, TOKEN))
    waits = sum(kind == WAITING for step in steps for kind, _ in step.values())
    preempted = sum(kind == PREEMPTED for step in steps for kind, _ in step.values())
    return (
        f"{len(steps)} steps compute {tokens} tokens; requests wait {waits} steps in all and are preempted {preempted} "
        "times"
    )


def schedule_player(schedules, pages, num_pages, sentences):
    """Step through a schedule: the grid so far, and below it the pool.

    Parameters
    ----------
    schedules : as in `schedule_picture`
    pages : dict, title -> list of dict, request -> pages that it holds after the step; the key "" holds the pages that
        are kept for a prefix alone
    num_pages : int
    sentences : dict, title -> list of str, one a step
    """
    tracks = {}
    for title, steps in schedules.items():
        pictures = [_frame(title, steps, pages[title][number], num_pages, number + 1) for number in range(len(steps))]
        tracks[title] = counted(pictures, sentences[title])
    first = next(iter(tracks.values()))
    return Player(tracks, first[-1].picture, name="step", choice="policy", start=0, interval_ms=900)


def _frame(title, steps, held, num_pages, upto):
    rows = sorted({name for step in steps for name in step})
    told = "; ".join(f"{name or 'kept for a prefix'}: {len(owned)} pages" for name, owned in held.items() if owned)
    lines = -(-num_pages // _PAGES_IN_A_ROW)
    heights = [len(rows) + 1.6, 1.3 * lines + 0.9]
    figure = Picture(8.4, 0.25 + 0.27 * sum(heights), f"{title}, step {upto - 1}. {_told(steps[:upto])}. {told}.")
    grid, pool = figure.subplots(2, 1, gridspec_kw={"height_ratios": heights})
    _draw_schedule(grid, steps, rows, len(steps), upto)
    canvas(grid, (-2.2, len(steps) + 0.1), (len(rows) + 0.9, -0.35), title=title)
    _draw_pool(pool, rows, held, num_pages)
    return figure


def _draw_pool(axes, rows, held, num_pages):
    owners = {}
    for name, owned in held.items():
        for page in owned:
            owners.setdefault(page, []).append(name)
    width = min(num_pages, _PAGES_IN_A_ROW)
    for page in range(num_pages):
        corner = page % width, 1.3 * (page // width)
        names = owners.get(page, [])
        box(axes, corner, _CELL, 1.0, linewidth=0.6, **_page_look(rows, names))
        said = names[0] if len(names) == 1 else f"{len(names)}x" if names else ""
        label(axes, (corner[0] + _CELL / 2, corner[1] + 0.5), said, size=6.5, pad=0.3)
    free = num_pages - len(owners)
    canvas(
        axes, (-0.2, width + 0.1), (1.3 * -(-num_pages // width) + 0.1, -0.2), title=f"pool: {free} of {num_pages} free"
    )


def _page_look(rows, names):
    if not names:
        return {"facecolor": "white", "edgecolor": PALE}
    if names == [""]:
        return {"facecolor": GREEN, "alpha": 0.25, "edgecolor": GREY, "hatch": HATCHES[3]}
    index = rows.index(next(name for name in names if name)) if any(names) else 0
    hatch = HATCHES[1] if len(names) > 1 else HATCHES[index // len(SERIES) % len(HATCHES)]
    return {"facecolor": SERIES[index % len(SERIES)], "alpha": 0.6, "edgecolor": INK, "hatch": hatch}
