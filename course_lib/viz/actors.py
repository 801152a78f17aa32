"""The actors of a block on one time axis: warps, copies and products in lanes, and an arrow where a wait ends.

May import: schedule, style, drawing, matplotlib.
"""

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from .drawing import arrow, box, clean, label, name_axes
from .schedule import releases, spans_between, waiting_time
from .style import BLUE, GREEN, GREY, HATCHES, INK, ORANGE, PALE, PURPLE, SKY, Picture

_WIDTH = 8.6  # inches
_LANE = 0.36  # inches of one lane
_TEXT = 6.5  # points
_CHARACTER = 0.0088 * _TEXT  # inches, at most
_LEAST_WAIT = 0.015  # of the axis; a shorter wait has no arrow
_MOST_WAITS = 6  # named in the alternative text
_ARRIVAL = {"marker": "^", "markersize": 3.5, "color": INK, "linestyle": "none"}
_LOOKS = {  # kind -> words of the legend, look, height of the bar
    "copy": ("copy, issue to landing", {"facecolor": GREEN, "hatch": HATCHES[3], "alpha": 0.65}, 0.72),
    "wgmma": ("products in flight", {"facecolor": BLUE, "alpha": 0.5}, 0.72),
    "softmax": ("softmax", {"facecolor": ORANGE, "hatch": HATCHES[1], "alpha": 0.7}, 0.72),
    "issue": ("other work", {"facecolor": SKY, "hatch": HATCHES[4], "alpha": 0.7}, 0.72),
    "store": ("store", {"facecolor": PURPLE, "hatch": HATCHES[2], "alpha": 0.6}, 0.72),
    "wait": ("waiting", {"facecolor": "white", "linestyle": (0, (3, 2))}, 0.4),
}


def actors_picture(spans, *, unit="", title="", between=None):
    """One lane for each actor, a bar for each span, an arrow from what ended a wait to the end of the wait.

    Bars carry their label and waits the barrier with its parity, where they fit; a triangle is an arrival.

    Parameters
    ----------
    spans : sequence of schedule.Span, of one block
    unit : str, of start and end: "ns", "steps"
    title : str
    between : (start, end), the part of the time axis that is drawn; default: all of it
    """
    return actors_panels({title: spans}, unit=unit, between=between)


def actors_panels(panels, *, unit="", between=None):
    """Several timelines, one above the other on one time axis, as in `actors_picture`.

    Parameters
    ----------
    panels : dict, title -> sequence of Span
    unit, between : as in `actors_picture`; default: from 0 to the last end of all of them
    """
    if not all(panels.values()) or not panels:
        raise ValueError("A timeline needs at least one span; check that the run recorded its events.")
    first = min(span.start for spans in panels.values() for span in spans)
    start, end = between or (min(0, first), max(span.end for spans in panels.values() for span in spans))
    lanes = {title: list(dict.fromkeys(span.actor for span in spans)) for title, spans in panels.items()}
    lanes = {title: sorted(actors, key=_rank) for title, actors in lanes.items()}
    heights = [len(actors) for actors in lanes.values()]
    drawn = {title: spans_between(spans, start, end) for title, spans in panels.items()}
    alt_text = " ".join(actors_sentence(spans, unit, title) for title, spans in drawn.items())
    figure = Picture(_WIDTH, _LANE * sum(heights) + 0.35 * len(panels) + 0.75, f"Who waits for whom. {alt_text}")
    column = figure.subplots(len(panels), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    for axes, (title, spans) in zip(column, panels.items(), strict=True):
        _draw_lanes(axes, spans, lanes[title], start, end)
        axes.set(xlim=(start, end if between else 1.01 * end), ylim=(len(lanes[title]) - 0.45, -0.55))
        finish = max(span.end for span in spans)
        if start < finish < end:
            axes.axvline(finish, color=INK, linewidth=1, linestyle=":")
        name_axes(axes, "", "", title)
    axes.set_xlabel(f"time{f', {unit}' * bool(unit)}", fontsize=9, color=INK)
    _legend(figure, {span.kind for spans in panels.values() for span in spans})
    return figure


def actors_sentence(spans, unit="", title=""):
    """First start and last end, how long each actor waits, and the longest waits with their barriers and lines."""
    if not spans:
        return f"{title}: nothing happens."
    start, finish = min(span.start for span in spans), max(span.end for span in spans)
    waits = "; ".join(f"{actor} {time:.4g}" for actor, time in waiting_time(spans).items()) or "none"
    pairs = sorted(releases(spans), key=lambda pair: pair[0].start - pair[0].end)[:_MOST_WAITS]
    named = "; ".join(f"{wait.sentence()}, ended by {cause.actor}" for wait, cause in pairs)
    words = f"{title + ': ' if title else ''}{start:.4g} to {finish:.4g}{f' {unit}' * bool(unit)}."
    return f"{words} Time in waits: {waits}.{f' Longest waits: {named}.' * bool(named)}"


def _rank(actor):
    """Producer and copies first, then each consumer with its products; other actors keep their order after these."""
    digits = "".join(character for character in actor if character.isdigit())
    kinds = ("producer", "TMA", "consumer", "products")
    kind = next((number for number, word in enumerate(kinds) if actor.startswith(word)), len(kinds))
    if kind in (2, 3):
        return 1, int(digits or 0), kind
    return (0 if kind < 2 else 2), kind, 0


def _draw_lanes(axes, spans, actors, start, end):
    """All bars, triangles and arrows of one panel; an arrow passes behind the bars of the lanes between."""
    rows, length = {actor: row for row, actor in enumerate(actors)}, end - start
    for row in range(1, len(actors)):
        axes.axhline(row - 0.5, color=PALE, linewidth=0.6, zorder=0)
    for span in spans_between(spans, start, end):
        if span.kind == "arrive":
            axes.plot([span.end], [rows[span.actor] - 0.43], **_ARRIVAL)
        elif span.end > span.start:
            _draw_bar(axes, span, rows[span.actor], length)
    for wait, cause in releases(spans, least=_LEAST_WAIT * length):
        if start <= cause.end and wait.end <= end:
            here, there = rows[cause.actor], rows[wait.actor]
            side = 1 if there > here else -1
            ends = ((cause.end, here + 0.36 * side), (wait.end, there - 0.36 * side))
            arrow(axes, *ends, size=7, linewidth=0.9, color=INK, shrinkA=0, shrinkB=0, zorder=0.5)
    clean(axes)
    axes.set_yticks(range(len(actors)), actors)
    axes.tick_params(axis="y", length=0, labelsize=8)


def _draw_bar(axes, span, row, length):
    """A bar with its text, if the text fits."""
    _, look, height = _LOOKS[span.kind]
    edge = {"edgecolor": GREY if span.kind == "wait" else INK, "linewidth": 0.7}
    bar = (span.start, row - height / 2), span.end - span.start, height
    box(axes, *bar, facecolor="white", edgecolor="none")  # hides the arrows behind
    box(axes, *bar, **look, **edge)
    room = (span.end - span.start) / length * (_WIDTH - 1.3)
    texts = (span.label,)
    if span.kind == "wait":
        texts = (span.barrier or span.label, span.barrier.split(" parity")[0].split(",")[0])
    text = next((one for one in texts if one and len(one) * _CHARACTER <= room), "")
    if text:
        pad = 0.6 if look.get("hatch") else None
        label(axes, ((span.start + span.end) / 2, row), text, size=_TEXT, pad=pad)


def _legend(figure, kinds):
    """The kinds that are drawn, by name."""
    entries = [Patch(edgecolor=INK, label=words, **look) for kind, (words, look, _) in _LOOKS.items() if kind in kinds]
    if "arrive" in kinds:
        entries.append(Line2D([], [], label="arrival at a barrier", **_ARRIVAL))
    look = {"fontsize": 8, "frameon": False, "ncols": len(entries), "labelcolor": INK}
    figure.legend(handles=entries, loc="outside lower center", **look)
