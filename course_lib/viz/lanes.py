"""Lanes, sectors and banks: which words the 32 lanes of a warp touched, drawn where they lie.

One row of the picture is 32 words of 4 bytes: in global memory four sectors of 32 bytes, in shared memory one word of
each bank. What is drawn was recorded: the places come from a run, the number of sectors or wavefronts from its report.

May import: style, matplotlib.
"""

from dataclasses import dataclass

from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from .style import BLUE, GREY, INK, ORANGE, PALE, SKY, VERMILION, Picture

WORDS = 32  # in a row: a cache line, or one word of each bank
SECTOR_WORDS = 8
_MAX_ROWS = 33
_TINT = "#DCEBF5"


@dataclass(frozen=True)
class Access:
    """One request of a warp, as recorded.

    Attributes
    ----------
    space : "global" or "shared"
    places : tuple of int, the word (4 bytes) that each lane touched, from the start of the array
    counted : int, sectors (global) or wavefronts (shared) that the SIMT machine reported for the request
    """

    space: str
    places: tuple
    counted: int

    @property
    def unit(self):
        return "sector" if self.space == "global" else "wavefront"

    def sentence(self):
        """What the picture shows, in words."""
        distinct = len(set(self.places))
        words = "1 word" if distinct == 1 else f"{distinct} different words"
        rounds = f"{self.counted} {self.unit}{'s' if self.counted != 1 else ''}"
        if self.space == "global":
            share = 100 * 4 * distinct / (32 * self.counted)
            return f"{words} in {rounds}: {share:.0f} % of the bytes that travel are wanted."
        banks = len({place % WORDS for place in self.places})
        conflicts = "no bank conflict" if self.counted == 1 else f"{self.counted - 1} of them bank conflicts"
        return f"{words} in {banks} bank{'s' if banks != 1 else ''}: {rounds}, {conflicts}."


def lanes_picture(access, title=""):
    """The words that a warp touched, as squares with the numbers of the lanes inside.

    Parameters
    ----------
    access : Access
    title : str, for example the load itself
    """
    owners = _owners(access.places)
    rows = min(max(owners) // WORDS + 1, _MAX_ROWS)
    height = 0.24 if rows <= 8 else 0.14  # inches of a row
    figure = Picture(7.8, 0.9 + height * rows, f"{title}: {access.sentence()} {_told(access)}".strip())
    axes = figure.subplots()
    _squares(axes, rows, access, owners)
    for word, lanes in owners.items():
        row, column = divmod(word, WORDS)
        if row < rows:
            text = f"{len(lanes)}×" if len(lanes) > 1 else str(lanes[0])
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=6, color=INK)
    _outlines(axes, rows, access, owners)
    _labels(axes, rows, access, title)
    return figure


def _owners(places):
    """word -> the lanes that touched it."""
    owners = {}
    for lane, place in enumerate(places):
        owners.setdefault(place, []).append(lane)
    return owners


def _told(access):
    first = ", ".join(str(place) for place in access.places[:4])
    return f"The lanes 0, 1, 2, 3 touch the words {first}."


def _squares(axes, rows, access, owners):
    """One square a word: wanted by a lane, wanted by several, travelling along or waiting, left alone."""
    sectors, busiest = {word // SECTOR_WORDS for word in owners}, _busiest_bank(owners)

    def kind(word):
        if word in owners:
            return 3 if len(owners[word]) > 1 else 2
        along = word // SECTOR_WORDS in sectors if access.space == "global" else word % WORDS == busiest
        return int(along)

    kinds = [[kind(row * WORDS + column) for column in range(WORDS)] for row in range(rows)]
    colours = ListedColormap(["white", _TINT, SKY, ORANGE])
    axes.pcolormesh(kinds, cmap=colours, vmin=0, vmax=3, edgecolors=PALE, linewidth=0.4)


def _outlines(axes, rows, access, owners):
    """Round every sector that travels, or round the busiest bank."""
    if access.space == "shared":
        bank = _busiest_bank(owners)
        boxes = [] if bank is None else [(bank, 0, 1, rows, VERMILION)]
    else:
        starts = {word // SECTOR_WORDS * SECTOR_WORDS for word in owners}
        boxes = [(start % WORDS, start // WORDS, SECTOR_WORDS, 1, BLUE) for start in starts]
    for column, row, width, height, colour in boxes:
        if row < rows:
            box = Rectangle((column, row), width, height, fill=False, edgecolor=colour, linewidth=1.4, zorder=3)
            axes.add_patch(box)


def _busiest_bank(owners):
    """The bank in which most different words are wanted, None when no bank has two."""
    wanted = [sum(word % WORDS == bank for word in owners) for bank in range(WORDS)]
    return wanted.index(max(wanted)) if max(wanted) > 1 else None


def _labels(axes, rows, access, title):
    axes.set(xlim=(-0.1, WORDS + 0.1), ylim=(rows + 0.1, -0.1))
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0, labelsize=7, colors=INK)
    steps = range(0, rows, 1 if rows <= 8 else 4)
    if access.space == "global":
        axes.set_xticks([4, 12, 20, 28], ["sector 0", "sector 1", "sector 2", "sector 3"])
        axes.set_yticks([row + 0.5 for row in steps], [f"byte {128 * row}" for row in steps])
    else:
        axes.set_xticks([bank + 0.5 for bank in range(0, WORDS, 4)], [f"bank {bank}" for bank in range(0, WORDS, 4)])
        axes.set_yticks([row + 0.5 for row in steps], [f"word {WORDS * row}" for row in steps])
    axes.xaxis.tick_top()
    axes.set_title(f"{title}   {access.sentence()}", fontsize=9, color=INK, loc="left")
    kinds = "a number is a lane · 8× means that eight lanes want this word · "
    outline = "outline: a sector that travels" if access.space == "global" else "outline: the busiest bank"
    axes.set_xlabel(kinds + outline, fontsize=7.5, color=GREY)
