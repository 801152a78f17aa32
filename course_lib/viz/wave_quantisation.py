"""Wave quantisation: equal blocks on the places of a card, wave after wave, and what stands idle in the last one.

May import: style, matplotlib.
"""

from matplotlib.patches import Rectangle

from .style import BLUE, GREY, HATCHES, INK, PALE, Picture, clean, name_axes

_MOST_LINES = 40  # a card of at most so many places shows each block; on a larger one a wave is one area


def block_waves(num_blocks, num_places):
    """Blocks that run in each wave: [num_places, …, rest]; a card takes the next wave when the one before has ended."""
    full, rest = divmod(num_blocks, num_places)
    return [num_places] * full + [rest] * (rest > 0)


def waves(num_pairs=8, splits=(16, 17, 33), num_places=132, start=0.0):
    """One panel a number of splits, all on one time axis: places of the card against time, idle places hatched.

    Parameters
    ----------
    num_pairs : int, blocks of a launch without a split: sequences times heads of keys and values
    splits : sequence of int; a launch has num_pairs * splits blocks, each as long as 1 / splits of all the keys
    num_places : int, blocks that the card holds at a time; 132 on an H100 or H200 with one block on an SM
    start : float, what a block takes besides its keys, in units of a block that reads all of them
    """
    panels = [(count, block_waves(num_pairs * count, num_places), 1 / count + start) for count in splits]
    ends = [len(busy) * length for _, busy, length in panels]
    told = "; ".join(
        f"{_plural(count, 'split')}: {sum(busy)} blocks in {_plural(len(busy), 'wave')} of at most {num_places}, the "
        f"last with {busy[-1]}, {100 * _used(busy, num_places):.0f} % of the places used, end at {end:.3g}"
        for (count, busy, _), end in zip(panels, ends, strict=True)
    )
    unit = "in units of a block that reads all the keys"
    figure = Picture(8.2, 1.15 * len(panels) + 0.45, f"Places of a card against time, {unit}. {told}.")
    column = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (count, busy, length), end in zip(column, panels, ends, strict=True):
        for number, blocks in enumerate(busy):
            _draw_wave(axes, number * length, length, blocks, num_places)
        axes.axvline(end, color=INK, linewidth=1, linestyle=":")
        axes.set_xlim(0, 1.02 * max(ends))
        axes.set_ylim(0, num_places)
        clean(axes)
        axes.set_yticks([0, num_places])
        words = f"{_plural(count, 'split')}: {sum(busy)} blocks, {_plural(len(busy), 'wave')}, "
        name_axes(axes, "", "places", f"{words}{100 * _used(busy, num_places):.0f} % of the places used")
    axes.set_xlabel(f"time, {unit}; hatched: idle", fontsize=9, color=INK)
    return figure


def _used(busy, num_places):
    """The share of places that have a block, over all waves."""
    return sum(busy) / (len(busy) * num_places)


def _plural(count, noun):
    return f"{count} {noun}{'s' * (count != 1)}"


def _draw_wave(axes, left, length, blocks, num_places):
    """The blocks of a wave from the bottom up, and the places that have none."""
    each = num_places <= _MOST_LINES
    for place in range(blocks) if each else [0]:
        look = {"facecolor": BLUE, "alpha": 0.65, "edgecolor": "white" if each else INK, "linewidth": 0.6}
        axes.add_patch(Rectangle((left, place), length, 1 if each else blocks, **look))
    axes.add_patch(Rectangle((left, 0), length, blocks, facecolor="none", edgecolor=INK, linewidth=0.9))
    if blocks < num_places:
        look = {"facecolor": PALE, "edgecolor": GREY, "hatch": HATCHES[1], "linewidth": 0.6}
        axes.add_patch(Rectangle((left, blocks), length, num_places - blocks, **look))
