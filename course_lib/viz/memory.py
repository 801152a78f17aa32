"""The levels of memory, and which words of it the 32 lanes of a warp touched.

In a picture of lanes one row is 32 words of 4 bytes: in global memory four sectors of 32 bytes, in shared memory one
word of each bank. Words and counts come from a recorded run, never from the access pattern that was asked for.

May import: style, drawing, matplotlib.
"""

from dataclasses import dataclass

from matplotlib.colors import ListedColormap

from .drawing import box, clean, grid_lines, hide_spines, label, name_axes, plural
from .style import BLUE, GREY, HATCHES, INK, LIGHT_BLUE, ORANGE, PALE, SERIES, SKY, VERMILION, Picture

WORDS = 32  # in a row: a cache line, or one word of each bank
SECTOR_WORDS = 8
_MAX_ROWS = 33


def levels_picture(levels, title):
    """Size and rate of each level on logarithmic axes; an unknown value is labelled as unknown.

    Parameters
    ----------
    levels : sequence with .name, .scope, .size_bytes, .gbps, nearest first
    title : str, the card
    """
    alt_text = "; ".join(
        f"{one.name}, shared by {one.scope}: {_size(one.size_bytes)}, {_rate(one.gbps)}" for one in levels
    )
    figure = Picture(7.8, 2.7, f"Memory of {title}. {alt_text}.")
    left, right = figure.subplots(1, 2, sharey=True)
    columns = (
        (left, [one.size_bytes for one in levels], _size, "bytes on the whole card", (1e6, 3e13)),
        (right, [one.gbps for one in levels], _rate, "GB/s at best", (1, 3e7)),
    )
    for axes, values, value_text, axis_label, limits in columns:
        for row, value in enumerate(values):
            look = {"color": SERIES[row % 5], "hatch": HATCHES[row % 5], "edgecolor": INK, "linewidth": 0.7}
            axes.barh(row, value or limits[0], height=0.62, **look)
            axes.text((value or limits[0]) * 1.3, row, value_text(value), va="center", fontsize=8.5, color=INK)
        axes.set(xscale="log", xlim=limits)
        name_axes(axes, axis_label)
        clean(axes)
        grid_lines(axes, "x")
    left.set_yticks(range(len(levels)), [one.name for one in levels])
    left.invert_yaxis()
    figure.suptitle(title, fontsize=10, color=INK, x=0.01, ha="left")
    return figure


def _size(value):
    if value is None:
        return "not the card's"
    return f"{value / 1e9:.0f} GB" if value >= 1e10 else f"{value / 2**20:.3g} MiB"


def _rate(value):
    if value is None:
        return "not published"
    return f"{value / 1000:.3g} TB/s" if value >= 1000 else f"{value:.3g} GB/s"


@dataclass(frozen=True)
class Access:
    """One request of a warp, as recorded.

    Attributes
    ----------
    space : "global" or "shared"
    words : tuple of int, the word (4 bytes) that each lane touched, counted from the start of the array
    counted : int, sectors (global) or wavefronts (shared) that the SIMT machine reported for the request
    """

    space: str
    words: tuple
    counted: int

    @property
    def unit(self):
        return "sector" if self.space == "global" else "wavefront"

    def sentence(self):
        """Words, sectors or wavefronts, and the share of useful bytes or the conflicts."""
        distinct = len(set(self.words))
        words = "1 word" if distinct == 1 else f"{distinct} different words"
        cost = plural(self.counted, self.unit)
        if self.space == "global":
            share = 100 * 4 * distinct / (32 * self.counted)
            return f"{words} in {cost}: {share:.0f} % of the bytes that travel are wanted."
        banks = len({word % WORDS for word in self.words})
        conflicts = "no bank conflict" if self.counted == 1 else f"{self.counted - 1} of them bank conflicts"
        return f"{words} in {plural(banks, 'bank')}: {cost}, {conflicts}."


def lanes_picture(access, title=""):
    """The words that a warp touched, as squares with the numbers of the lanes inside.

    Parameters
    ----------
    access : Access
    title : str, for example the load itself
    """
    owners = _owners(access.words)
    num_rows = min(max(owners) // WORDS + 1, _MAX_ROWS)
    height = 0.24 if num_rows <= 8 else 0.14  # inches of a row
    first = f"The lanes 0, 1, 2, 3 touch the words {', '.join(map(str, access.words[:4]))}."
    figure = Picture(7.8, 0.9 + height * num_rows, f"{title}: {access.sentence()} {first}".strip())
    axes = figure.subplots()
    _draw_words(axes, num_rows, access, owners)
    for word, lanes in owners.items():
        row, column = divmod(word, WORDS)
        if row < num_rows:
            text = f"{len(lanes)}×" if len(lanes) > 1 else str(lanes[0])
            label(axes, (column + 0.5, row + 0.5), text, size=6)
    _outline_transfers(axes, num_rows, access, owners)
    _name_lanes_axes(axes, num_rows, access, title)
    return figure


def _owners(words):
    """word -> the lanes that touched it."""
    owners = {}
    for lane, word in enumerate(words):
        owners.setdefault(word, []).append(lane)
    return owners


def _draw_words(axes, num_rows, access, owners):
    """One square a word: 3 wanted by several lanes, 2 by one, 1 in a sector or bank that is read, 0 untouched."""
    sectors, busiest = {word // SECTOR_WORDS for word in owners}, _busiest_bank(owners)

    def kind(word):
        if word in owners:
            return 3 if len(owners[word]) > 1 else 2
        return int(word // SECTOR_WORDS in sectors if access.space == "global" else word % WORDS == busiest)

    kinds = [[kind(row * WORDS + column) for column in range(WORDS)] for row in range(num_rows)]
    colours = ListedColormap(["white", LIGHT_BLUE, SKY, ORANGE])
    axes.pcolormesh(kinds, cmap=colours, vmin=0, vmax=3, edgecolors=PALE, linewidth=0.4)


def _outline_transfers(axes, num_rows, access, owners):
    """Outline every sector that travels, or the busiest bank."""
    if access.space == "shared":
        bank = _busiest_bank(owners)
        outlines = [] if bank is None else [(bank, 0, 1, num_rows, VERMILION)]
    else:
        starts = {word // SECTOR_WORDS * SECTOR_WORDS for word in owners}
        outlines = [(start % WORDS, start // WORDS, SECTOR_WORDS, 1, BLUE) for start in starts]
    for column, row, width, height, colour in outlines:
        if row < num_rows:
            box(axes, (column, row), width, height, fill=False, edgecolor=colour, linewidth=1.4, zorder=3)


def _busiest_bank(owners):
    """The bank in which most different words are wanted, None when no bank has two."""
    wanted = [sum(word % WORDS == bank for word in owners) for bank in range(WORDS)]
    return wanted.index(max(wanted)) if max(wanted) > 1 else None


def _name_lanes_axes(axes, num_rows, access, title):
    """Sectors or banks across, bytes or words down, the sentence above and the key below."""
    axes.set(xlim=(-0.1, WORDS + 0.1), ylim=(num_rows + 0.1, -0.1))
    hide_spines(axes)
    axes.tick_params(length=0, labelsize=7, colors=INK)
    steps = range(0, num_rows, 1 if num_rows <= 8 else 4)
    if access.space == "global":
        axes.set_xticks([4, 12, 20, 28], ["sector 0", "sector 1", "sector 2", "sector 3"])
        axes.set_yticks([row + 0.5 for row in steps], [f"byte {128 * row}" for row in steps])
    else:
        axes.set_xticks([bank + 0.5 for bank in range(0, WORDS, 4)], [f"bank {bank}" for bank in range(0, WORDS, 4)])
        axes.set_yticks([row + 0.5 for row in steps], [f"word {WORDS * row}" for row in steps])
    axes.xaxis.tick_top()
    axes.set_title(f"{title}   {access.sentence()}", fontsize=9, color=INK, loc="left")
    key = "a number is a lane · orange, 8×: eight lanes want this word · pale, outlined: "
    outline = "a sector that travels" if access.space == "global" else "the busiest bank"
    axes.set_xlabel(key + outline, fontsize=7.5, color=GREY)
