"""The loops of FlashAttention as an animation; on a page its saved output is the still picture.

May import: loop_grid, loop_orders, widgets, ipywidgets.
"""

import ipywidgets as widgets

from .loop_grid import loop_picture, loop_step_picture, loop_steps
from .loop_orders import both_sentences, loop_orders_picture, loop_orders_still
from .widgets import BoxWithStill

_PLAY_MS = 700


def tile_loops(seq_len_q=8, seq_len_kv=8, head_dim=4, block_m=2, block_n=2, *, loop_order="kv_outside"):
    """Play the two loops tile by tile.

    Parameters
    ----------
    seq_len_q, seq_len_kv, head_dim, block_m, block_n : as in `loop_steps`
    loop_order : "kv_outside", "q_outside" or "both", which plays them side by side

    Returns
    -------
    box : ipywidgets.VBox
    """
    if loop_order not in ("kv_outside", "q_outside", "both"):
        raise ValueError(f'loop_order={loop_order!r} is unknown; choose "kv_outside", "q_outside" or "both".')
    sizes = (seq_len_q, seq_len_kv, head_dim, block_m, block_n)
    if loop_order == "both":
        return LoopOrders(*(loop_steps(*sizes, q_outside=outside) for outside in (False, True))).box
    return TileLoops(loop_steps(*sizes, q_outside=loop_order == "q_outside")).box


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
        self.box.still = self._still()
        self._show()

    def _still(self):
        return loop_picture(self.steps)

    def _frame(self, number):
        return loop_step_picture(self.steps, number)

    def _sentence(self, number):
        return self.steps[number].sentence()

    def _show(self, _change=None):
        number = self.slider.value - 1
        if number not in self.frames:  # drawn once, then shown from memory: the slider stays smooth
            self.frames[number] = self._frame(number).png()
        self.picture.value = self.frames[number]
        self.picture.alt = self.words.value = self._sentence(number)


class LoopOrders(TileLoops):
    """The same with both orders at once; every step of one has its step of the other."""

    def __init__(self, kv_outside, q_outside):
        self.pair = (kv_outside, q_outside)
        super().__init__(kv_outside)

    def _still(self):
        return loop_orders_still(self.pair)

    def _frame(self, number):
        return loop_orders_picture(self.pair, number)

    def _sentence(self, number):
        return both_sentences(self.pair, number)
