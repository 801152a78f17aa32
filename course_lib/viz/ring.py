"""A ring of stages and its mbarriers: the state after one event, and phases, arrivals and bytes over all events.

May import: style, drawing, matplotlib.
"""

from itertools import groupby

from .drawing import box, canvas, clean, label, name_axes, plural
from .style import BLUE, GREEN, GREY, HATCHES, INK, LIGHT_BLUE, LIGHT_ORANGE, PALE, VERMILION, Picture

_COLUMNS = (("barrier", 0.0), ("phase", 1.5), ("arrivals pending", 3.5), ("bytes missing", 5.6), ("blocked here", 7.2))
_WIDTH = 11.0  # of the drawing, in its own units
_CHARACTER = 0.052  # inches, of 6.5 points


def ring_step_picture(steps, number):
    """The stages and the table of their barriers after one event; `number` counts from 0.

    Parameters
    ----------
    steps : list of mbarrier.RingStep, as `ring_steps` returns them
    number : int
    """
    step, previous = steps[number], steps[max(number - 1, 0)]
    alt_text = f"Event {number + 1} of {len(steps)}. {step.sentence()} {_states_text(step)}"
    figure = Picture(8.4, 1.3 + 0.34 * len(step.barriers), alt_text)
    axes = figure.subplots()
    num_rows = len(step.barriers)
    canvas(axes, (-0.15, _WIDTH), (num_rows + 0.95, -1.5))
    label(axes, (0, -1.25), f"{number + 1}. {step.actor}: {step.text}", size=10, ha="left")
    _draw_slots(axes, step)
    for name, x in _COLUMNS:
        label(axes, (x, 0.75), name, size=8.5, ha="left", color=GREY)
    for row, (name, state) in enumerate(step.barriers.items()):
        changed = state != previous.barriers[name]
        _draw_state(axes, row + 1.35, name, state, changed)
        label(axes, (_COLUMNS[4][1], row + 1.35), _blocked_at(step.waiting, name), size=8.5, ha="left")
        if name == step.barrier:
            frame = {"fill": False, "edgecolor": VERMILION, "linewidth": 1.6}
            box(axes, (-0.1, row + 0.92), _WIDTH - 0.05, 0.86, **frame)
    return figure


def _blocked_at(waiting, name):
    """The actors that wait for one barrier, and the parity: "parity 0: consumers 0, 1"."""
    actors = [actor for actor, (one, _) in waiting.items() if one == name]
    if len(actors) > 1 and all(actor.startswith("consumer ") for actor in actors):
        actors = ["consumers " + ", ".join(actor.removeprefix("consumer ") for actor in actors)]
    parities = {parity for one, parity in waiting.values() if one == name}
    return f"parity {', '.join(map(str, sorted(parities)))}: {', '.join(actors)}" if actors else "–"


def _states_text(step):
    return "; ".join(f"{name}: {state.sentence()}" for name, state in step.barriers.items()) + "."


_SLOT_LOOKS = {  # by how the text of a slot ends
    "empty": {"facecolor": "white", "linestyle": "--"},
    "on its way": {"facecolor": GREEN, "hatch": HATCHES[3], "alpha": 0.55},
    "": {"facecolor": BLUE, "alpha": 0.45},
}


def _draw_slots(axes, step):
    """One box a stage with what it holds."""
    width = (_WIDTH - 0.3) / len(step.slots)
    for stage, held in enumerate(step.slots):
        look = next(look for end, look in _SLOT_LOOKS.items() if held.endswith(end))
        box(axes, (stage * width, -0.75), width - 0.2, 0.95, edgecolor=INK, **look)
        label(axes, (stage * width + (width - 0.2) / 2, -0.275), f"stage {stage}: {held}", pad=1)


def _draw_state(axes, y, name, state, changed):
    """One row of the table: pending arrivals as circles, filled for those that have come; bold what has changed."""
    weight = "bold" if changed else "normal"
    label(axes, (0, y), name, size=9, ha="left")
    label(axes, (_COLUMNS[1][1], y), f"{state.phase}, parity {state.phase % 2}", ha="left", fontweight=weight)
    came = state.num_arrivals - state.pending
    circles = "●" * came + "○" * state.pending if state.num_arrivals <= 4 else ""
    words = f"{state.pending} of {state.num_arrivals}  {circles}"
    label(axes, (_COLUMNS[2][1], y), words, ha="left", fontweight=weight)
    label(axes, (_COLUMNS[3][1], y), f"{state.tx_bytes:,}", ha="left", fontweight=weight)


def ring_picture(steps):
    """The life of every barrier over all events, and below it which actor is blocked where.

    A box is a phase, hatched when its parity is 1; the numbers in it are pending arrivals, the bar at its foot the time
    in which bytes are missing.

    Parameters
    ----------
    steps : list of mbarrier.RingStep
    """
    names, actors = list(steps[0].barriers), _actors(steps)
    phases = "; ".join(f"{name} completes {plural(state.phase, 'phase')}" for name, state in steps[-1].barriers.items())
    blocked = "; ".join(f"{actor} {sum(actor in step.waiting for step in steps)}" for actor in actors)
    alt_text = f"{len(steps)} events of a ring. {phases}. Events during which an actor is blocked: {blocked}. "
    figure = Picture(8.6, 0.62 * len(names) + 0.3 * len(actors) + 0.8, f"{alt_text}Last: {steps[-1].sentence()}")
    heights = (0.62 * len(names), 0.3 * len(actors))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    for row, name in enumerate(names):
        _draw_life(upper, row, [step.barriers[name] for step in steps])
    for row, actor in enumerate(actors):
        _draw_blocked(lower, row, [step.waiting.get(actor) for step in steps])
    for axes, rows in ((upper, names), (lower, actors)):
        axes.set(xlim=(0, len(steps)), ylim=(len(rows) - 0.5, -0.5))
        clean(axes, left=False)
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(axis="y", length=0, labelsize=8.5)
    name_axes(upper, "", "", "phases; numbers: arrivals pending; dotted bar: bytes missing")
    name_axes(lower, "event", "", "blocked, and at which barrier")
    return figure


def _actors(steps):
    """Actors that wait for barriers, in the order of their first event."""
    seen = dict.fromkeys(step.actor for step in steps[:-1])
    return [actor for actor in seen if actor not in ("thread 0", "TMA")]


def _runs(values):
    """[(value, first, last + 1)] of equal neighbours."""
    start = 0
    for value, group in groupby(values):
        length = len(list(group))
        yield value, start, start + length
        start += length


def _room(steps):
    """Characters that fit into so many of the events' columns of a picture."""
    return lambda first, last: (last - first) / steps * 7.3 / _CHARACTER


def _draw_life(axes, row, states):
    """The phases of one barrier as boxes with their arrivals and bytes."""
    fits = _room(len(states))
    for phase, first, last in _runs([state.phase for state in states]):
        look = {"facecolor": LIGHT_ORANGE, "hatch": HATCHES[1]} if phase % 2 else {"facecolor": LIGHT_BLUE}
        box(axes, (first, row - 0.42), last - first, 0.84, edgecolor=GREY, linewidth=0.8, **look)
        words = next((w for w in (f"phase {phase}, parity {phase % 2}", f"{phase}") if len(w) <= fits(first, last)), "")
        label(axes, ((first + last) / 2, row - 0.25), words, size=6.5, pad=0.6 if phase % 2 else None)
    for (phase, pending), first, _ in _runs([(state.phase, state.pending) for state in states]):
        label(axes, (first + 0.5, row + 0.04), f"{pending}", size=7.5, pad=0.6 if phase % 2 else None)
    for missing, first, last in _runs([state.tx_bytes for state in states]):
        if missing:
            look = {"facecolor": GREEN, "hatch": HATCHES[3], "edgecolor": INK, "linewidth": 0.6}
            box(axes, (first, row + 0.2), last - first, 0.22, **look)


def _draw_blocked(axes, row, waits):
    """Bars of one actor with the barrier, and the parity where it fits."""
    axes.axhline(row, color=PALE, linewidth=0.8, zorder=0)
    fits = _room(len(waits))
    for wait, first, last in _runs(waits):
        if wait:
            box(axes, (first, row - 0.32), last - first, 0.64, facecolor="white", edgecolor=INK, linewidth=0.8)
            texts = (f"{wait[0]}, parity {wait[1]}", wait[0])
            words = next((text for text in texts if len(text) <= fits(first, last)), "")
            label(axes, ((first + last) / 2, row), words, size=6.5)
