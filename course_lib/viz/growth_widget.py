"""The growing matrix of scores with a slider over N; on a page its saved output is the still picture.

May import: growth, widgets, ipywidgets.
"""

import ipywidgets as widgets

from .growth import growth_picture, growth_sentence, growth_step
from .widgets import BoxWithStill

SEQ_LENS = (512, 1024, 2048, 4096, 8192, 16384)


def growth_slider(seq_lens=SEQ_LENS, *, start=4096, head_dim=64):
    """A slider over N.

    Parameters
    ----------
    seq_lens : sequence of int, the stops of the slider, smallest first
    start : int, where it stands at first; one of `seq_lens`
    head_dim : int

    Returns
    -------
    box : ipywidgets.VBox
    """
    return Growth(seq_lens, start, head_dim).box


class Growth:
    """The parts of `growth_slider`: `slider`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, seq_lens, start, head_dim):
        self.largest, self.head_dim, self.frames = max(seq_lens), head_dim, {}
        stops = [(f"{n:,}", n) for n in seq_lens]
        self.slider = widgets.SelectionSlider(options=stops, value=start, description="N", continuous_update=True)
        self.picture = widgets.Image(format="png", layout=widgets.Layout(width="640px", max_width="100%"))
        self.words = widgets.HTML()
        self.slider.observe(self._show, names="value")
        self.box = BoxWithStill([self.slider, self.picture, self.words])
        self.box.still = growth_picture(head_dim=head_dim)
        self._show()

    def _show(self, _change=None):
        seq_len = self.slider.value
        if seq_len not in self.frames:  # drawn once, then shown from memory: the slider stays smooth
            self.frames[seq_len] = growth_step(seq_len, self.largest, head_dim=self.head_dim).png()
        self.picture.value = self.frames[seq_len]
        self.picture.alt = growth_sentence(seq_len, head_dim=self.head_dim)
        self.words.value = f"{self.picture.alt}."
