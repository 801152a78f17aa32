"""An access to play with: sliders choose the places, a run records them, the picture of lanes shows what was recorded.

May import: lanes, widgets (the box with a still picture), ipywidgets.
"""

import ipywidgets as widgets

from .lanes import lanes_picture
from .widgets import BoxWithStill

WARP_SIZE = 32
PATTERNS = {
    "stride": lambda lane, number: lane * number,
    "offset": lambda lane, number: lane + number,
    "backwards, stride": lambda lane, number: (WARP_SIZE - 1 - lane) * number,
    "groups of lanes share a word": lambda lane, number: lane // number,
    "one word for all": lambda lane, number: number,
}
MOST = 33  # the largest stride: one more than there are banks


def access_explorer(record, *, pattern="stride", number=1):
    """A drop-down for the pattern and a slider for its number over the picture of the recorded access.

    Parameters
    ----------
    record : callable, list of 32 words -> lanes.Access; runs a kernel that touches them
    pattern : str, a key of PATTERNS
    number : int, 0 to 33: stride, offset, size of a group or the word itself

    Returns
    -------
    box : ipywidgets.VBox; where nothing runs, its saved output is the still picture
    """
    return Explorer(record, pattern, number).box


class Explorer:
    """The parts of `access_explorer`: `pattern`, `number`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, record, pattern, number):
        self.record, self.frames = record, {}
        wide = {"description_width": "initial"}
        self.pattern = widgets.Dropdown(options=list(PATTERNS), value=pattern, description="pattern", style=wide)
        self.number = widgets.IntSlider(number, min=0, max=MOST, description="number", continuous_update=False)
        self.picture = widgets.Image(format="png", layout=widgets.Layout(width="780px", max_width="100%"))
        self.words = widgets.HTML()
        for source in (self.pattern, self.number):
            source.observe(self._show, names="value")
        self.box = BoxWithStill([widgets.HBox([self.pattern, self.number]), self.picture, self.words])
        self.box.still = self._put(pattern, number)

    def _frame(self, name, number):
        """(picture, its PNG, its sentence) of one pattern and number; recorded and drawn once."""
        key = (name, max(number, 1 if "group" in name else 0))
        if key not in self.frames:
            pattern = PATTERNS[key[0]]
            access = self.record([pattern(lane, key[1]) for lane in range(WARP_SIZE)])
            picture = lanes_picture(access, self._title(*key))
            self.frames[key] = picture, picture.png(), f"Recorded: {access.sentence()}"
        return self.frames[key]

    def _title(self, pattern, number):
        return {
            "stride": f"x[{number} * lane]",
            "offset": f"x[lane + {number}]",
            "backwards, stride": f"x[{number} * (31 - lane)]",
            "groups of lanes share a word": f"x[lane / {number}]",
            "one word for all": f"x[{number}]",
        }[pattern]

    def _show(self, _change=None):
        self._put(self.pattern.value, self.number.value)

    def _put(self, name, number):
        """Show one access; returns its picture."""
        picture, png, sentence = self._frame(name, number)
        self.picture.value, self.picture.alt, self.words.value = png, picture.alt, sentence
        return picture
