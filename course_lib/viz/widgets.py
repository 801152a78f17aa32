"""Interactive pictures: ipywidgets on top of the still ones. They need a running kernel; each has a still twin.

May import: steps, ipywidgets.
"""

import ipywidgets as widgets

from .steps import step_picture, walk, walk_picture

_PLAY_MS = 1500
_MAX_TILES = 64


def stepper(row, block_n=2):
    """Step through an online softmax: a slider and a play button for the tile, fields for the row and the tile width.

    Parameters
    ----------
    row : sequence of numbers; can be changed in the widget, -inf is a masked score
    block_n : int, tile width

    Returns
    -------
    box : ipywidgets.VBox; where nothing runs, its saved output is the still picture of all steps
    """
    return Stepper(row, block_n).box


class BoxWithStill(widgets.VBox):
    """A box whose saved output also holds a picture: a page without a kernel shows that."""

    still = None  # Picture

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        metadata = bundle[1] if isinstance(bundle, tuple) else {}
        png, png_metadata = self.still._repr_mimebundle_()
        return {**data, **png}, {**metadata, **png_metadata}


class Stepper:
    """The parts of `stepper`: `slider`, `play`, `numbers`, `width`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, row, block_n):
        text = ", ".join(f"{value:g}" for value in row)
        self.numbers = widgets.Text(text, description="row", continuous_update=False)
        self.width = widgets.BoundedIntText(block_n, min=1, max=_MAX_TILES, description="tile width")
        self.play = widgets.Play(interval=_PLAY_MS, min=1, max=1, value=1)
        self.slider = widgets.IntSlider(min=1, max=1, description="tile", continuous_update=True)
        self.picture = widgets.Image(format="png", layout=widgets.Layout(width="750px", max_width="100%"))
        self.words = widgets.HTML()
        widgets.jslink((self.play, "value"), (self.slider, "value"))
        for source, change in ((self.numbers, self._restart), (self.width, self._restart), (self.slider, self._show)):
            source.observe(change, names="value")
        self.box = BoxWithStill(
            [widgets.HBox([self.numbers, self.width]), widgets.HBox([self.play, self.slider]), self.picture, self.words]
        )
        self.box.still = walk_picture(walk(row, block_n))
        self._restart()

    def _restart(self, _change=None):
        """New numbers or a new tile width: walk again and go back to the first tile."""
        try:
            row = [float(word) for word in self.numbers.value.replace(",", " ").split()]
            self.steps = walk(row, self.width.value)
        except ValueError:
            self.words.value = "Write numbers separated by commas, for example: 1, 3, -inf, 0.5"
            return
        self.frames = {}
        self.play.max = self.slider.max = len(self.steps)
        self.slider.value = 1
        self._show()

    def _show(self, _change=None):
        number = self.slider.value - 1
        if number not in self.frames:  # drawn once, then shown from memory: the slider stays smooth
            self.frames[number] = step_picture(self.steps, number).png()
        self.picture.value = self.frames[number]
        self.picture.alt = self.words.value = self.steps[number].sentence()
