"""How many processors of a card have work: one square an SM, filled when a block of the launch runs on it.

May import: style, matplotlib.
"""

from matplotlib.patches import Rectangle

from .style import BLUE, GREY, HATCHES, INK, ORANGE, Picture

_COLUMNS = 22


def blocks_by_sm(num_blocks, num_sms):
    """How many blocks each SM gets when they are handed out in turn: [count], the longest first."""
    return [num_blocks // num_sms + (sm < num_blocks % num_sms) for sm in range(num_sms)]


def card_picture(launches, num_sms=132):
    """One panel a launch: the SMs of a card, those with a block filled, those with more than one hatched as well.

    Parameters
    ----------
    launches : dict, name -> number of blocks
    num_sms : int; 132 on an H100 or H200
    """
    counts = {name: blocks_by_sm(blocks, num_sms) for name, blocks in launches.items()}
    busy = {name: sum(count > 0 for count in each) for name, each in counts.items()}
    told = "; ".join(f"{name}: {launches[name]} blocks, {busy[name]} SMs have work" for name in launches)
    rows = -(-num_sms // _COLUMNS)
    figure = Picture(4.2 * len(launches), 0.19 * rows + 0.5, f"A card of {num_sms} SMs as squares. {told}.")
    for axes, (name, each) in zip(figure.subplots(1, len(launches), squeeze=False)[0], counts.items(), strict=True):
        for sm, count in enumerate(each):
            place = (sm % _COLUMNS, sm // _COLUMNS)
            look = {"facecolor": "none"}
            if count:
                look = {"facecolor": BLUE if count == 1 else ORANGE, "hatch": HATCHES[0 if count == 1 else 1]}
            axes.add_patch(Rectangle(place, 0.84, 0.84, edgecolor=INK if count else GREY, linewidth=0.6, **look))
        axes.set_title(
            f"{name}: {launches[name]} blocks, {busy[name]} of {num_sms} SMs", fontsize=9.5, color=INK, loc="left"
        )
        axes.set_xlim(-0.2, _COLUMNS + 0.2)
        axes.set_ylim(rows + 0.1, -0.3)
        axes.set_aspect("equal")
        axes.axis("off")
    return figure
