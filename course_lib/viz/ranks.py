"""Several ranks on one time axis: what each computes, sends and waits for; and the timetable of a pipeline.

May import: style, drawing, matplotlib.
"""

from .drawing import box, clean, label, name_axes, plural
from .style import BLUE, GREEN, GREY, HATCHES, INK, ORANGE, PURPLE, SKY, Picture

_LOOKS = {
    "compute": {"facecolor": BLUE, "alpha": 0.6},
    "all_reduce": {"facecolor": ORANGE, "hatch": HATCHES[1], "alpha": 0.7},
    "all_gather": {"facecolor": GREEN, "hatch": HATCHES[2], "alpha": 0.6},
    "reduce_scatter": {"facecolor": PURPLE, "hatch": HATCHES[4], "alpha": 0.6},
    "all_to_all": {"facecolor": SKY, "hatch": HATCHES[3], "alpha": 0.7},
    "exchange": {"facecolor": ORANGE, "hatch": HATCHES[2], "alpha": 0.6},
    "barrier": {"facecolor": GREY, "alpha": 0.4},
}
_HEIGHT = 0.38  # of a lane: a rank has one for what it computes, and one below for what it sends


def ranks_picture(events, title=""):
    """What every rank did when: computing above, collectives and exchanges below.

    Parameters
    ----------
    events : sequence with rank, kind, label, begin, end (seconds) and sent (bytes), as `Outcome.events`
    """
    ranks = sorted({event.rank for event in events})
    start, end = min(event.begin for event in events), max(event.end for event in events)
    told = "; ".join(f"rank {rank}: {_told([event for event in events if event.rank == rank])}" for rank in ranks)
    figure = Picture(8.4, 1.0 + 0.55 * len(ranks), f"{title + ': ' if title else ''}{told}.")
    axes = figure.subplots()
    scale = 1e3  # s to ms
    for event in events:
        lane = event.rank + (0 if event.kind == "compute" else _HEIGHT + 0.04)
        left, width = (event.begin - start) * scale, max((event.end - event.begin) * scale, 1e-9)
        box(axes, (left, lane), width, _HEIGHT, edgecolor=INK, linewidth=0.4, **_LOOKS[event.kind])
    kinds = list(dict.fromkeys(event.kind for event in events))
    handles = [axes.bar(0, 0, color=_LOOKS[k]["facecolor"], hatch=_LOOKS[k].get("hatch", ""), alpha=0.7) for k in kinds]
    axes.legend(handles, kinds, loc="upper center", bbox_to_anchor=(0.5, 1.0 + 0.35 / len(ranks)), ncols=len(kinds),
                frameon=False, fontsize=8)  # fmt: skip
    axes.set(xlim=(0, (end - start) * scale * 1.01), ylim=(len(ranks), -0.1))
    clean(axes, left=False)
    for rank in ranks:
        label(axes, (-0.005 * (end - start) * scale, rank + _HEIGHT), f"rank {rank}", size=8.5, ha="right")
    name_axes(axes, "ms", "", title)
    return figure


def _told(events):
    """One rank in words."""
    kinds = {}
    for event in events:
        kinds.setdefault(event.kind, []).append(event)
    parts = [plural(len(found), kind.replace("_", "-")) for kind, found in kinds.items()]
    return f"{', '.join(parts)}, {sum(event.sent for event in events):,.0f} bytes sent"


def timetable_picture(timetables):
    """Stages of a pipeline, a row each: forwards plain, backwards hatched, with the number of the micro-batch.

    Parameters
    ----------
    timetables : dict, title -> entries with stage, kind ("F" or "B"), micro, begin, end
    """
    told, ends = [], {title: max(entry.end for entry in entries) for title, entries in timetables.items()}
    for title, entries in timetables.items():
        busy, stages = sum(entry.end - entry.begin for entry in entries), 1 + max(entry.stage for entry in entries)
        told.append(f"{title}: {stages} stages end at {ends[title]}, waiting {1 - busy / stages / ends[title]:.0%}")
    stages = 1 + max(entry.stage for entries in timetables.values() for entry in entries)
    figure = Picture(8.4, len(timetables) * (0.7 + 0.3 * stages), f"Timetables of a pipeline. {'; '.join(told)}.")
    panels = figure.subplots(len(timetables), 1, squeeze=False, sharex=True)[:, 0]
    for axes, entries, words in zip(panels, timetables.values(), told, strict=True):
        for entry in entries:
            look = {"facecolor": BLUE} if entry.kind == "F" else {"facecolor": ORANGE, "hatch": HATCHES[1]}
            width = entry.end - entry.begin
            box(axes, (entry.begin, entry.stage), width, 0.88, edgecolor=INK, linewidth=0.5, alpha=0.6, **look)
            label(axes, (entry.begin + width / 2, entry.stage + 0.45), f"{entry.micro}", size=7, pad=0.4)
        axes.set(xlim=(0, max(ends.values()) * 1.01), ylim=(stages, -0.1), yticks=[])
        clean(axes, bottom=axes is panels[-1])
        name_axes(axes, "time, in forwards of a micro-batch" if axes is panels[-1] else "", "stages", words)
    return figure
