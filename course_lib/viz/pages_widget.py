"""A pool of pages through its history; on a page its saved output is a still picture of some of it.

May import: pages, widgets, ipywidgets.
"""

import ipywidgets as widgets

from .pages import pages_frames, pool_sentence
from .widgets import BoxWithStill

_PLAY_MS = 1200


def pages_player(frames, page_size, num_pages, *, still=()):
    """Play the states of a pool one after the other.

    Parameters
    ----------
    frames : sequence of (title, sequences), as in `pages_frames`
    page_size, num_pages : int, as in `pages_picture`
    still : sequence of int, which frames stand on a page where nothing runs; default: the last

    Returns
    -------
    box : ipywidgets.VBox
    """
    return PagesPlayer(frames, page_size, num_pages, still or (len(frames) - 1,)).box


class PagesPlayer:
    """The parts of `pages_player`: `slider`, `play`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, frames, page_size, num_pages, still):
        self.frames, self.sizes, self.drawn = list(frames), (page_size, num_pages), {}
        self.play = widgets.Play(interval=_PLAY_MS, min=1, max=len(frames), value=1)
        self.slider = widgets.IntSlider(min=1, max=len(frames), description="step", continuous_update=True)
        self.picture = widgets.Image(format="png", layout=widgets.Layout(width="840px", max_width="100%"))
        self.words = widgets.HTML()
        widgets.jslink((self.play, "value"), (self.slider, "value"))
        self.slider.observe(self._show, names="value")
        self.box = BoxWithStill([widgets.HBox([self.play, self.slider]), self.picture, self.words])
        self.box.still = self._picture([self.frames[number] for number in still])
        self._show()

    def _picture(self, chosen):
        return pages_frames(chosen, *self.sizes, among=self.frames)

    def _show(self, _change=None):
        number = self.slider.value - 1
        if number not in self.drawn:  # drawn once, then shown from memory: the slider stays smooth
            self.drawn[number] = self._picture([self.frames[number]]).png()
        title, sequences = self.frames[number]
        self.picture.value = self.drawn[number]
        self.picture.alt = self.words.value = f"{title}: {pool_sentence(sequences, self.sizes[1])}"
