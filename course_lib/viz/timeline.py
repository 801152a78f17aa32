"""What runs when: copies and products, launches and kernels, and blocks in waves on the slots of a card.

May import: style, drawing, matplotlib.
"""

from .drawing import box, clean, label, name_axes, plural
from .style import BLUE, GREY, HATCHES, INK, ORANGE, PALE, Picture

_MOST_LINES = 40  # a card of at most so many slots shows each block; on a larger one a wave is one area


def overlap_steps(num_tiles, copy, work, *, pipelined):
    """Copies and products of a walk over tiles: [(lane, tile, start, end)], lanes "copy" and "multiply".

    Parameters
    ----------
    num_tiles : int
    copy, work : float, how long a tile takes to arrive and to be multiplied, in any unit
    pipelined : bool; with two buffers, tile i + 1 is copied while tile i is multiplied
    """
    steps, free = [], 0.0
    for tile in range(num_tiles):
        if pipelined and steps:  # a buffer is free when the products of the previous tile begin
            start = steps[-1][2]
        else:
            start = free
        arrived = start + copy
        begin = max(arrived, free)
        free = begin + work
        steps += [("copy", tile, start, arrived), ("multiply", tile, begin, free)]
    return steps


def launch_steps(num_kernels, launch, kernel, *, graph):
    """Launches and kernels: [(lane, number, start, end)], lanes "host" and "device".

    Parameters
    ----------
    num_kernels : int
    launch, kernel : float, what the host needs to launch once and what a kernel runs, in any unit
    graph : bool; one launch starts all kernels
    """
    steps, free = [], 0.0
    for number in range(num_kernels):
        launched = launch if graph else (number + 1) * launch
        if number == 0 or not graph:
            steps.append(("host", number, launched - launch, launched))
        start = max(launched, free)
        free = start + kernel
        steps.append(("device", number, start, free))
    return steps


def overlap_picture(num_tiles=5, copy=0.8, work=1.0):
    """Two time axes, one above the other: copies before the products, and copies that overlap them.

    Parameters
    ----------
    num_tiles, copy, work : as in `overlap_steps`; the bars are a drawing, not a measurement
    """
    panels = {
        "load, barrier, multiply": overlap_steps(num_tiles, copy, work, pipelined=False),
        "two buffers: the next tile arrives under the products": overlap_steps(num_tiles, copy, work, pipelined=True),
    }
    sizes = f"A copy takes {copy:g} and the products of a tile {work:g}"
    return _two_lanes(f"{num_tiles} tiles", sizes, panels, ("copy", "multiply"))


def launch_picture(num_kernels=6, launch=1.6, kernel=1.0):
    """Two time axes, one above the other: a launch for each kernel, and one launch of a graph that holds them.

    Parameters
    ----------
    num_kernels, launch, kernel : as in `launch_steps`; the bars are a drawing, not a measurement
    """
    panels = {
        "a launch for each kernel": launch_steps(num_kernels, launch, kernel, graph=False),
        "one launch of a graph": launch_steps(num_kernels, launch, kernel, graph=True),
    }
    sizes = f"A launch takes the host {launch:g}, a kernel runs {kernel:g}"
    return _two_lanes(
        f"{num_kernels} kernels", sizes, panels, ("host", "device"), {("one launch of a graph", "host"): "graph"}
    )


def _two_lanes(items, sizes, panels, lanes, names=None):
    """A Gantt chart with a panel for each way, both on one time axis.

    Parameters
    ----------
    items, sizes : str, for the alternative text: "5 tiles", "A copy takes 0.8 …"
    panels : dict, title -> [(lane, number, start, end)]
    lanes : (upper, lower)
    names : dict, (title, lane) -> what its bars are labelled with in place of their number
    """
    ends = {title: steps[-1][3] for title, steps in panels.items()}
    alt_text = "; ".join(f"{title}: {end:.3g}" for title, end in ends.items())
    figure = Picture(8.2, 2.9, f"{items} on a time axis, a drawing and not a measurement. {sizes}. End: {alt_text}.")
    looks = ({"facecolor": ORANGE, "hatch": HATCHES[1]}, {"facecolor": BLUE, "hatch": ""})
    for axes, (title, steps) in zip(figure.subplots(len(panels), 1, sharex=True), panels.items(), strict=True):
        for lane, number, start, end in steps:
            y = 1 - lanes.index(lane)
            box(axes, (start, y), end - start, 0.8, edgecolor=INK, alpha=0.6, **looks[lanes.index(lane)])
            text = (names or {}).get((title, lane), f"{number + 1}")
            label(axes, ((start + end) / 2, y + 0.4), text, size=8, pad=1.0)
        _time_axis(axes, ends[title], max(ends.values()), (-0.15, 1.95))
        clean(axes, bottom=False)
        axes.set_yticks([0.4, 1.4], lanes[::-1])
        name_axes(axes, "", "", title)
    axes.set_xlabel("time", fontsize=9, color=INK)
    return figure


def _time_axis(axes, end, longest, ylim):
    """A dotted line at the end of the work, and room for the longest panel."""
    axes.axvline(end, color=INK, linewidth=1, linestyle=":")
    axes.set(xlim=(0, 1.02 * longest), ylim=ylim)


def block_waves(num_blocks, num_slots):
    """Blocks that run in each wave: [num_slots, …, rest]; a wave starts when the previous one has ended."""
    full, rest = divmod(num_blocks, num_slots)
    return [num_slots] * full + [rest] * (rest > 0)


def waves_picture(num_pairs=8, splits=(16, 17, 33), num_slots=132, start=0.0):
    """Wave quantisation: a panel for each number of splits, slots of the card against time, idle slots hatched.

    Parameters
    ----------
    num_pairs : int, blocks of a launch without a split: sequences times heads of keys and values
    splits : sequence of int; a launch has num_pairs * splits blocks, each as long as 1 / splits of all the keys
    num_slots : int, blocks that the card holds at a time; 132 on an H100 or H200 with one block on an SM
    start : float, what a block takes besides its keys, in units of a block that reads all of them
    """
    panels = [(count, block_waves(num_pairs * count, num_slots), 1 / count + start) for count in splits]
    ends = [len(busy) * length for _, busy, length in panels]
    alt_text = "; ".join(
        f"{plural(count, 'split')}: {sum(busy)} blocks in {plural(len(busy), 'wave')} of at most {num_slots}, the "
        f"last with {busy[-1]}, {_used(busy, num_slots)} of the slots used, end at {end:.3g}"
        for (count, busy, _), end in zip(panels, ends, strict=True)
    )
    unit = "in units of a block that reads all the keys"
    figure = Picture(8.2, 1.15 * len(panels) + 0.45, f"Slots of a card against time, {unit}. {alt_text}.")
    column = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (count, busy, length), end in zip(column, panels, ends, strict=True):
        for number, blocks in enumerate(busy):
            _draw_wave(axes, number * length, length, blocks, num_slots)
        _time_axis(axes, end, max(ends), (0, num_slots))
        clean(axes)
        axes.set_yticks([0, num_slots])
        words = f"{plural(count, 'split')}: {sum(busy)} blocks, {plural(len(busy), 'wave')}, "
        name_axes(axes, "", "slots", f"{words}{_used(busy, num_slots)} of the slots used")
    axes.set_xlabel(f"time, {unit}; hatched: idle", fontsize=9, color=INK)
    return figure


def _used(busy, num_slots):
    """The share of slots that hold a block, over all waves: "97 %"."""
    return f"{100 * sum(busy) / (len(busy) * num_slots):.0f} %"


def _draw_wave(axes, left, length, blocks, num_slots):
    """The blocks of a wave from the bottom up, and the idle slots above them."""
    each = num_slots <= _MOST_LINES
    for slot in range(blocks) if each else [0]:
        look = {"facecolor": BLUE, "alpha": 0.65, "edgecolor": "white" if each else INK, "linewidth": 0.6}
        box(axes, (left, slot), length, 1 if each else blocks, **look)
    box(axes, (left, 0), length, blocks, facecolor="none", edgecolor=INK, linewidth=0.9)
    if blocks < num_slots:
        look = {"facecolor": PALE, "edgecolor": GREY, "hatch": HATCHES[1], "linewidth": 0.6}
        box(axes, (left, blocks), length, num_slots - blocks, **look)
