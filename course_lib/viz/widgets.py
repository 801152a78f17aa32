"""Pictures of what a reader types in: ipywidgets for the input, since the numbers come from a running kernel.

Each function returns an ipywidgets.VBox. Its saved output is a player, which needs no kernel.

May import: player, the pictures that are shown, ipywidgets.
"""

import ipywidgets as widgets

from .memory import lanes_picture
from .player import Frame, Player, counted
from .softmax import step_picture, walk, walk_picture

WARP_SIZE = 32
MAX_NUMBER = 33  # of a pattern: the largest stride is one more than there are banks
SAVED_NUMBERS = (1, 2, 3, 8, 16, 32, 33)  # of a pattern, in the saved output
_MAX_TILES = 64


class BoxWithPlayer(widgets.VBox):
    """A box whose saved output also holds a player, which a page without a kernel shows."""

    player = None  # Player

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, **self.player._repr_mimebundle_()}, metadata


def stepper(row, block_n=2):
    """Step through an online softmax: fields for the row and the tile width, and a player over the tiles.

    Parameters
    ----------
    row : sequence of numbers; can be changed in the widget, -inf is a masked score
    block_n : int, tile width
    """
    return Stepper(row, block_n).box


class Stepper:
    """The parts of `stepper`: `numbers`, `width`, `words`, `player`, and `box` that holds them."""

    def __init__(self, row, block_n):
        text = ", ".join(f"{value:g}" for value in row)
        self.numbers = widgets.Text(text, description="row", continuous_update=False)
        self.width = widgets.BoundedIntText(block_n, min=1, max=_MAX_TILES, description="tile width")
        self.words, self.output = widgets.HTML(), widgets.Output()
        for field in (self.numbers, self.width):
            field.observe(self._restart, names="value")
        self.box = BoxWithPlayer([widgets.HBox([self.numbers, self.width]), self.words, self.output])
        self._restart()
        self.box.player = self.player

    def _restart(self, _change=None):
        """Walk over new numbers or with a new tile width, from the first tile."""
        try:
            row = [float(word) for word in self.numbers.value.replace(",", " ").split()]
            steps = walk(row, self.width.value)
        except ValueError:
            self.words.value = "Write numbers separated by commas, for example: 1, 3, -inf, 0.5"
            return
        self.words.value = ""
        pictures = [step_picture(steps, number) for number in range(len(steps))]
        frames = counted(pictures, [step.sentence() for step in steps])
        self.player = Player({"": frames}, walk_picture(steps), name="tile")
        shown = {"output_type": "display_data", "data": self.player._repr_mimebundle_(), "metadata": {}}
        self.output.outputs = (shown,)


PATTERNS = {  # name -> (word that a lane touches, the load in code)
    "stride": (lambda lane, number: lane * number, "x[{} * lane]"),
    "offset": (lambda lane, number: lane + number, "x[lane + {}]"),
    "backwards, stride": (lambda lane, number: (WARP_SIZE - 1 - lane) * number, "x[{} * (31 - lane)]"),
    "groups of lanes share a word": (lambda lane, number: lane // number, "x[lane / {}]"),
    "one word for all": (lambda lane, number: number, "x[{}]"),
}


def access_explorer(record, *, pattern="stride", number=1):
    """A drop-down for the pattern and a slider for its number over the picture of the recorded access.

    Parameters
    ----------
    record : callable, list of 32 words -> memory.Access; runs a kernel that touches them
    pattern : str, a key of PATTERNS
    number : int, 0 to 33: stride, offset, size of a group or the word itself
    """
    return Explorer(record, pattern, number).box


class Explorer:
    """The parts of `access_explorer`: `pattern`, `number`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, record, pattern, number):
        self.record, self.frames = record, {}
        wide = {"description_width": "initial"}
        self.pattern = widgets.Dropdown(options=list(PATTERNS), value=pattern, description="pattern", style=wide)
        self.number = widgets.IntSlider(number, min=0, max=MAX_NUMBER, description="number", continuous_update=False)
        self.picture, self.words = widgets.HTML(), widgets.HTML()
        for control in (self.pattern, self.number):
            control.observe(self._show, names="value")
        self.box = BoxWithPlayer([widgets.HBox([self.pattern, self.number]), self.picture, self.words])
        self._show()
        self.box.player = self._player()

    def frame(self, pattern, number):
        """The Frame of one access, recorded when it is first asked for."""
        number = max(number, 1 if "group" in pattern else 0)  # a group has at least one lane
        if (pattern, number) not in self.frames:
            word, code = PATTERNS[pattern]
            access = self.record([word(lane, number) for lane in range(WARP_SIZE)])
            picture = lanes_picture(access, code.format(number))
            self.frames[pattern, number] = Frame(picture, f"Recorded: {access.sentence()}", code.format(number))
        return self.frames[pattern, number]

    def _show(self, _change=None):
        frame = self.frame(self.pattern.value, self.number.value)
        self.picture.value, self.words.value = frame.picture.html(), frame.sentence

    def _player(self):
        """The first pattern with several numbers, from the one asked for."""
        numbers = sorted({*SAVED_NUMBERS, self.number.value})
        frames = [self.frame(self.pattern.value, number) for number in numbers]
        shown = frames[numbers.index(self.number.value)]
        name, start = self.pattern.value, numbers.index(self.number.value)
        return Player({"": frames}, shown.picture, name=name, start=start)
