"""The loops of FlashAttention-1 as an animation; on a page its saved output is the still picture.

May import: tile_loops, widgets, ipywidgets.
"""

import ipywidgets as widgets

from .tile_loops import loop_picture, loop_step_picture, loop_steps
from .widgets import BoxWithStill

_PLAY_MS = 700


def tile_loops(seq_len_q=8, seq_len_kv=8, head_dim=4, block_m=2, block_n=2):
    """Play the two loops tile by tile; the arguments are those of `loop_steps`.

    Returns
    -------
    box : ipywidgets.VBox
    """
    return TileLoops(loop_steps(seq_len_q, seq_len_kv, head_dim, block_m, block_n)).box


class TileLoops:
    """The parts of `tile_loops`: `slider`, `play`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, steps):
        self.steps, self.frames = steps, {}
        self.play = widgets.Play(interval=_PLAY_MS, min=1, max=len(steps), value=1)
        self.slider = widgets.IntSlider(min=1, max=len(steps), description="step", continuous_update=True)
        self.picture = widgets.Image(format="png", layout=widgets.Layout(width="750px", max_width="100%"))
        self.words = widgets.HTML()
        widgets.jslink((self.play, "value"), (self.slider, "value"))
        self.slider.observe(self._show, names="value")
        self.box = BoxWithStill([widgets.HBox([self.play, self.slider]), self.picture, self.words])
        self.box.still = loop_picture(steps)
        self._show()

    def _show(self, _change=None):
        number = self.slider.value - 1
        if number not in self.frames:  # drawn once, then shown from memory: the slider stays smooth
            self.frames[number] = loop_step_picture(self.steps, number).png()
        self.picture.value = self.frames[number]
        self.picture.alt = self.words.value = self.steps[number].sentence()
