"""Copies and products of a walk over tiles on a time axis: one after the other, or the copies underneath.

May import: style, matplotlib.
"""

from matplotlib.patches import Rectangle

from .style import BLUE, GREY, HATCHES, INK, ORANGE, Picture, clean, name_axes

_COPY, _WORK = "copy", "multiply"
_LOOKS = {_COPY: {"facecolor": ORANGE, "hatch": HATCHES[1]}, _WORK: {"facecolor": BLUE, "hatch": ""}}


def overlap_steps(num_tiles, copy, work, *, pipelined):
    """Who does what when: [(lane, tile, start, end)].

    Parameters
    ----------
    num_tiles : int
    copy, work : float, how long a tile takes to arrive and to be multiplied, in any unit
    pipelined : bool; with two buffers, tile i + 1 is on its way while tile i is multiplied
    """
    steps, free = [], 0.0
    for tile in range(num_tiles):
        if pipelined and steps:  # a buffer is free when the products of the tile before begin
            start = steps[-1][2]
        else:
            start = free
        arrived = start + copy
        begin = max(arrived, free)
        free = begin + work
        steps += [(_COPY, tile, start, arrived), (_WORK, tile, begin, free)]
    return steps


def overlap_picture(num_tiles=5, copy=0.8, work=1.0):
    """Two time axes, one above the other, with the same bars in both: synchronous copies, and copies underneath.

    Parameters
    ----------
    num_tiles, copy, work : as in `overlap_steps`; the bars are a drawing, not a measurement
    """
    walks = {
        "load, barrier, multiply": overlap_steps(num_tiles, copy, work, pipelined=False),
        "two buffers: the next tile arrives under the products": overlap_steps(num_tiles, copy, work, pipelined=True),
    }
    ends = {name: steps[-1][3] for name, steps in walks.items()}
    told = "; ".join(f"{name}: {end:.3g}" for name, end in ends.items())
    sizes = f"A copy takes {copy:g} and the products of a tile {work:g}"
    figure = Picture(
        8.2, 2.9, f"{num_tiles} tiles on a time axis, a drawing and not a measurement. {sizes}. End: {told}."
    )
    for axes, (name, steps) in zip(figure.subplots(2, 1, sharex=True), walks.items(), strict=True):
        for lane, tile, start, end in steps:
            y = 1 if lane == _COPY else 0
            axes.add_patch(Rectangle((start, y), end - start, 0.8, edgecolor=INK, alpha=0.6, **_LOOKS[lane]))
            box = {"facecolor": "white", "pad": 1.0, "lw": 0}
            axes.text(
                (start + end) / 2, y + 0.4, f"{tile + 1}", ha="center", va="center", fontsize=8, color=INK, bbox=box
            )
        axes.axvline(ends[name], color=GREY, linewidth=1, linestyle=":")
        axes.set_xlim(0, max(ends.values()) * 1.02)
        axes.set_ylim(-0.15, 1.95)
        clean(axes, bottom=False)
        axes.set_yticks([0.4, 1.4], [_WORK, _COPY])
        name_axes(axes, "", "", name)
    axes.set_xlabel("time", fontsize=9, color=INK)
    return figure
