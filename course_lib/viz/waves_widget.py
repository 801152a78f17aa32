"""Waves with a slider over the number of splits; on a page its saved output is the still picture.

May import: wave_quantisation, widgets, ipywidgets.
"""

import ipywidgets as widgets

from .wave_quantisation import waves
from .widgets import BoxWithStill


def waves_slider(num_pairs=48, num_places=132, *, most_splits=24, still=(1, 2, 3, 11)):
    """A slider over the number of splits, each beside one split.

    Parameters
    ----------
    num_pairs, num_places : as in `waves`
    most_splits : int, where the slider ends
    still : sequence of int, the splits of the still picture

    Returns
    -------
    box : ipywidgets.VBox
    """
    return Waves(num_pairs, num_places, most_splits, still).box


class Waves:
    """The parts of `waves_slider`: `slider`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, num_pairs, num_places, most_splits, still):
        self.num_pairs, self.num_places, self.frames = num_pairs, num_places, {}
        limits = {"min": 2, "max": most_splits, "value": 3}
        self.slider = widgets.IntSlider(**limits, description="splits", continuous_update=True)
        self.picture = widgets.Image(format="png", layout=widgets.Layout(width="820px", max_width="100%"))
        self.words = widgets.HTML()
        self.slider.observe(self._show, names="value")
        self.box = BoxWithStill([self.slider, self.picture, self.words])
        self.box.still = waves(num_pairs, still, num_places)
        self._show()

    def _show(self, _change=None):
        splits = self.slider.value
        if splits not in self.frames:  # drawn once, then shown from memory: the slider stays smooth
            figure = waves(self.num_pairs, (1, splits), self.num_places)
            self.frames[splits] = figure.png(), figure.alt
        self.picture.value, self.picture.alt = self.frames[splits]
        self.words.value = self.picture.alt
