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
_BAR = 0.72  # of a lane's height
_LEVEL = 0.48  # height of one of several stacked bars, in lanes
_LEAST_WAIT = 0.015  # of the axis; a shorter wait has no arrow
_MOST_WAITS = 6  # named in the alternative text
_ARRIVAL = {"marker": "^", "markersize": 3.5, "color": INK, "linestyle": "none"}
_LOOKS = {  # kind -> words of the legend, look, height of the bar
    "copy": ("copy, issue to landing", {"facecolor": GREEN, "hatch": HATCHES[3], "alpha": 0.65}, _BAR),
    "wgmma": ("products in flight", {"facecolor": BLUE, "alpha": 0.5}, _BAR),
    "softmax": ("softmax", {"facecolor": ORANGE, "hatch": HATCHES[1], "alpha": 0.7}, _BAR),
    "issue": ("other work", {"facecolor": SKY, "hatch": HATCHES[4], "alpha": 0.7}, _BAR),
    "store": ("store", {"facecolor": PURPLE, "hatch": HATCHES[2], "alpha": 0.6}, _BAR),
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
    lanes = {title: _lanes(spans) for title, spans in panels.items()}
    heights = [sum(height for _, height in one.values()) for one in lanes.values()]
    drawn = {title: spans_between(spans, start, end) for title, spans in panels.items()}
    alt_text = " ".join(actors_sentence(spans, unit, title) for title, spans in drawn.items())
    figure = Picture(_WIDTH, _LANE * sum(heights) + 0.35 * len(panels) + 0.75, f"Who waits for whom. {alt_text}")
    column = figure.subplots(len(panels), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    arrows = 0
    for axes, (title, spans), height in zip(column, panels.items(), heights, strict=True):
        arrows += _draw_lanes(axes, spans, lanes[title], start, end)
        axes.set(xlim=(start, end if between else 1.01 * end), ylim=(height - 0.45, -0.55))
        finish = max(span.end for span in spans)
        if start < finish < end:
            axes.axvline(finish, color=INK, linewidth=1, linestyle=":")
        name_axes(axes, "", "", title)
    axes.set_xlabel(f"time{f', {unit}' * bool(unit)}", fontsize=9, color=INK)
    _legend(figure, {span.kind for spans in panels.values() for span in spans}, arrows)
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


def _lanes(spans):
    """{actor: (centre, height)} from the top down; a lane is higher when much is in flight in it at the same time."""
    most, top, lanes = {}, -0.5, {}
    for span, level in _levels(spans):
        most[span.actor] = max(most.get(span.actor, 0), level + 1)
    for actor in sorted(most, key=_rank):
        height = max(1.0, _LEVEL * most[actor])
        lanes[actor] = (top + height / 2, height)
        top += height
    return lanes


def _levels(spans):
    """[(span, level)]: copies and products that are in flight at the same time in one lane are stacked."""
    ends, placed = {}, []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        lane, level = ends.setdefault(span.actor, []), 0
        if span.kind in ("copy", "wgmma", "store"):
            free = (number for number, end in enumerate(lane) if end <= span.start + 1e-9)
            level = next(free, len(lane))
            lane[level : level + 1] = [span.end]
        placed.append((span, level))
    return placed


def _draw_lanes(axes, spans, lanes, start, end):
    """All bars, triangles and arrows of one panel, arrows behind the bars of other lanes; the number of arrows."""
    length, placed, most = end - start, _levels(spans), {}
    for centre, height in list(lanes.values())[1:]:
        axes.axhline(centre - height / 2, color=PALE, linewidth=0.6, zorder=0)
    for span, level in placed:
        most[span.actor] = max(most.get(span.actor, 1), level + 1)
    for span, level in placed:
        for part in spans_between([span], start, end):
            if part.kind == "arrive":
                axes.plot([part.end], [lanes[part.actor][0] - 0.43], **_ARRIVAL)
            elif part.end > part.start:
                centre, height = lanes[part.actor]
                stacked = most[part.actor] if part.kind != "wait" else 1
                offset = _BAR * height * ((level + 0.5) / stacked - 0.5)
                _draw_bar(axes, part, centre + offset, height / stacked if stacked > 1 else 1, length)
    pairs = releases(spans, least=_LEAST_WAIT * length)
    ended = [(wait, cause) for wait, cause in pairs if start <= cause.end and wait.end <= end]
    for wait, cause in ended:
        (here, size), (there, other) = lanes[cause.actor], lanes[wait.actor]
        side = _BAR / 2 if there > here else -_BAR / 2
        ends = ((cause.end, here + size * side), (wait.end, there - other * side))
        arrow(axes, *ends, size=7, linewidth=0.9, color=INK, shrinkA=0, shrinkB=0, zorder=0.5)
    clean(axes)
    axes.set_yticks([centre for centre, _ in lanes.values()], list(lanes))
    axes.tick_params(axis="y", length=0, labelsize=8)
    return len(ended)


def _draw_bar(axes, span, row, scale, length):
    """A bar with its text, if the text fits; `scale` of the usual height."""
    _, look, height = _LOOKS[span.kind]
    height *= scale
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


def _legend(figure, kinds, arrows):
    """The kinds that are drawn, by name, and what an arrow is if there are any."""
    entries = [Patch(edgecolor=INK, label=words, **look) for kind, (words, look, _) in _LOOKS.items() if kind in kinds]
    if "arrive" in kinds:
        entries.append(Line2D([], [], label="arrival at a barrier", **_ARRIVAL))
    if arrows:
        entries.append(Line2D([], [], label="what ended a wait", color=INK, linewidth=0.9, marker=">", markersize=4))
    look = {"fontsize": 8, "frameon": False, "ncols": len(entries) if len(entries) < 6 else 3, "labelcolor": INK}
    figure.legend(handles=entries, loc="outside lower center", **look)
