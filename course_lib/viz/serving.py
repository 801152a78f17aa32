"""The schedule of a serving engine: who computes how many tokens in which step, and who holds which pages.

May import: style, drawing, player, matplotlib.
"""

from .drawing import box, canvas, label
from .player import Player, counted
from .style import BLUE, GREY, HATCHES, INK, ORANGE, PALE, SERIES, VERMILION, Picture

PROMPT, TOKEN, WAITING, PREEMPTED = "prompt", "token", "waiting", "preempted"
_LOOKS = {
    PROMPT: {"facecolor": BLUE, "alpha": 0.55, "edgecolor": INK},
    TOKEN: {"facecolor": ORANGE, "alpha": 0.7, "edgecolor": INK, "hatch": HATCHES[1]},
    WAITING: {"facecolor": "white", "edgecolor": GREY, "linestyle": ":"},
    PREEMPTED: {"facecolor": VERMILION, "alpha": 0.6, "edgecolor": INK, "hatch": HATCHES[2]},
}
_VERBS = {TOKEN: "a token each", WAITING: "waiting", PREEMPTED: "preempted"}
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


def steps_of(trace, prompts):
    """The steps of a played trace for `schedule_picture`.

    Parameters
    ----------
    trace : with frames, each with pieces (name, first token, number of tokens, pages, …), waiting and preempted, names
    prompts : dict, name -> tokens of its prompt
    """
    steps = []
    for frame in trace.frames:
        step = dict.fromkeys(frame.waiting, (WAITING, 0)) | dict.fromkeys(frame.preempted, (PREEMPTED, 0))
        for name, first, count, *_ in frame.pieces:
            step[name] = (PROMPT if first < prompts[name] else TOKEN, count)
        steps.append(step)
    return steps


def schedule_player(traces, prompts, num_pages):
    """Step through played traces: the schedule so far, and below it the pages of the pool.

    Parameters
    ----------
    traces : dict, title -> trace as in `steps_of`; its frames also have num_cached
    prompts : dict, name -> tokens of its prompt
    num_pages : int, pages of the pool
    """
    tracks = {}
    for title, trace in traces.items():
        steps = steps_of(trace, prompts)
        pictures = [_frame(title, steps, frame, num_pages) for frame in trace.frames]
        tracks[title] = counted(
            pictures, [_sentence(step, frame) for step, frame in zip(steps, trace.frames, strict=True)]
        )
    last = next(iter(tracks.values()))[-1].picture
    return Player(tracks, last, name="step", choice="policy", interval_ms=900)


def _sentence(step, frame):
    """A step in words."""
    groups = {kind: [name for name, (what, _) in step.items() if what == kind] for kind in _LOOKS}
    prompts = [f"{name} {step[name][1]} tokens" for name in groups[PROMPT]]
    parts = [f"prompts: {', '.join(prompts)}"] if prompts else []
    parts += [f"{verb}: {', '.join(groups[kind])}" for kind, verb in _VERBS.items() if groups[kind]]
    total = sum(count for _, count in step.values())
    return f"Step {frame.number}, {total} tokens; {'; '.join(parts)}."


def _frame(title, steps, frame, num_pages):
    index = frame.number
    rows = sorted({name for step in steps for name in step})
    lines = -(-num_pages // _PAGES_IN_A_ROW)
    heights = [len(rows) + 1.6, 1.3 * lines + 0.9]
    told = f"{title}, step {index}. {_told(steps[: index + 1])}. {_pool_title(frame, num_pages)}."
    figure = Picture(8.4, 0.25 + 0.27 * sum(heights), told)
    grid, pool = figure.subplots(2, 1, gridspec_kw={"height_ratios": heights})
    _draw_schedule(grid, steps, rows, len(steps), index + 1)
    canvas(grid, (-2.2, len(steps) + 0.1), (len(rows) + 0.9, -0.35), title=title)
    _draw_pool(pool, rows, frame, num_pages)
    return figure


def _pool_title(frame, num_pages):
    kept = f", {frame.num_cached} of them keep a prefix" if frame.num_cached else ""
    held = len({page for piece in frame.pieces for page in piece[3]})
    return f"pool of {num_pages} pages: {num_pages - held} in no table{kept}"


def _draw_pool(axes, rows, frame, num_pages):
    owners = {}
    for name, _, _, pages, *_ in frame.pieces:
        for page in pages:
            owners.setdefault(page, []).append(name)
    width = min(num_pages, _PAGES_IN_A_ROW)
    for page in range(num_pages):
        corner = page % width, 1.3 * (page // width)
        names = owners.get(page, [])
        box(axes, corner, _CELL, 1.0, linewidth=0.6, **_page_look(rows, names))
        said = names[0] if len(names) == 1 else f"{len(names)}x" if names else ""
        label(axes, (corner[0] + _CELL / 2, corner[1] + 0.5), said, size=6.5, pad=0.3)
    canvas(axes, (-0.2, width + 0.1), (1.3 * -(-num_pages // width) + 0.1, -0.2), title=_pool_title(frame, num_pages))


def _page_look(rows, names):
    if not names:
        return {"facecolor": "white", "edgecolor": PALE}
    index = rows.index(names[0])
    hatch = HATCHES[1] if len(names) > 1 else HATCHES[index // len(SERIES) % len(HATCHES)]
    return {"facecolor": SERIES[index % len(SERIES)], "alpha": 0.6, "edgecolor": INK, "hatch": hatch}
