"""Interactive pictures of a pipeline inside a block: its timeline and the life of its barriers.

Each function returns an ipywidgets.VBox whose saved output holds a still picture.

May import: widgets, the pictures they animate, ipywidgets.
"""

import ipywidgets as widgets

from .actors import actors_panels, actors_picture
from .mbarrier import ring_steps
from .ring import ring_picture, ring_step_picture
from .widgets import Frames, Player

_PARTS = 20  # of the time axis: the stops of the slider
PARITIES = {  # of the ring: name -> (producer's first parity, consumers' first parity)
    "right: producer 1, consumers 0": (1, 0),
    "producer begins with 0": (0, 0),
    "consumers begin with 1": (1, 1),
}


def actors_explorer(runs, *, unit="", start=None):
    """Timelines of several runs: a drop-down for the run, a slider for the part of the time that is drawn.

    Parameters
    ----------
    runs : dict, name -> sequence of schedule.Span; all of them are in the still picture, on one time axis
    unit : str, of the times
    start : str, the run shown first; default: the first
    """
    return Actors(runs, unit, start or next(iter(runs))).box


class Actors(Frames):
    """The parts of `actors_explorer`: `run`, `part`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, runs, unit, start):
        self.runs, self.unit = runs, unit
        self.begin = min(span.start for spans in runs.values() for span in spans)
        self.length = max(span.end for spans in runs.values() for span in spans) - self.begin
        self.run = widgets.Dropdown(options=list(runs), value=start, description="run")
        look = {"description": "time, 1/20", "continuous_update": False}
        self.part = widgets.IntRangeSlider(value=(0, _PARTS), min=0, max=_PARTS, **look)
        super().__init__([widgets.HBox([self.run, self.part])], 860, actors_panels(runs, unit=unit))
        for control in (self.run, self.part):
            control.observe(lambda _change: self.show(self._key()), names="value")
        self.show(self._key())

    def _key(self):
        first, last = self.part.value
        return self.run.value, first, max(last, first + 1)

    def draw(self, key):
        name, *ends = key
        between = tuple(self.begin + self.length * end / _PARTS for end in ends)
        picture = actors_picture(self.runs[name], unit=self.unit, title=name, between=between)
        return picture, picture.alt_text


def ring_player(num_tiles=3, *, num_stages=2, num_consumers=2):
    """Play the events of a ring of stages one by one, with the right first parities or with wrong ones.

    Parameters
    ----------
    num_tiles, num_stages, num_consumers : as in `ring_steps`
    """
    return RingPlayer(num_tiles, num_stages, num_consumers).box


class RingPlayer(Player):
    """The parts of `ring_player`: `parities`, `slider`, `play`, `picture`, `words`, and `box` that holds them."""

    def __init__(self, num_tiles, num_stages, num_consumers):
        self.runs = {
            name: ring_steps(num_tiles, num_stages=num_stages, num_consumers=num_consumers, parities=pair)
            for name, pair in PARITIES.items()
        }
        wide = {"description_width": "initial"}
        names = list(PARITIES)
        self.parities = widgets.Dropdown(options=names, value=names[0], description="first parities", style=wide)
        self.parities.observe(self._restart, names="value")
        steps = self.runs[self.parities.value]
        super().__init__(len(steps), 840, ring_picture(steps), name="event", fields=[self.parities])
        self.show(0)

    def _restart(self, _change=None):
        """Play the other run from its first event."""
        self.frames = {}
        self.play.max = self.slider.max = len(self.runs[self.parities.value])
        self.slider.value = 1
        self.show(0)

    def draw(self, number):
        steps = self.runs[self.parities.value]
        return ring_step_picture(steps, number), steps[number].sentence()
