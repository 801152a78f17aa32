"""Frames rendered ahead and played in the browser: one piece of HTML with a slider, step and play buttons.

It needs no kernel, so it also plays in a stored notebook and on the site. Frames are SVG; a line that several of them
have in common is stored once, and all of it is compressed. Without JavaScript a page shows the still picture.

May import: style.
"""

import base64
import json
import zlib
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from .style import Picture

SCRIPT = Path(__file__).with_name("player.js").read_text(encoding="utf-8")
_STYLE = (
    ".course-player{max-width:100%}.course-player [data-part=controls]{display:flex;flex-wrap:wrap;gap:.5em;"
    "align-items:center}.course-player [hidden]{display:none!important}.course-player [data-part=slider]{width:16em}"
    ".course-player [data-part=sentence]{margin:.3em 0;max-width:60em}"
)
_OWN_KEYS = 'data-lm-suppress-shortcuts="true"'  # JupyterLab leaves the keys to the element that has this
_BUTTON = f'<button type="button" {_OWN_KEYS} data-part="{{part}}" aria-label="{{label}}">{{text}}</button>'


@dataclass(frozen=True)
class Frame:
    """A picture, the sentence under it, and what the slider says about it."""

    picture: Picture
    sentence: str
    stop: str


class Player:
    """Pictures with a slider over them; one track after the other can be chosen.

    Parameters
    ----------
    tracks : dict, name -> sequence of Frame; with several a drop-down named `choice` is shown
    still : Picture, for a page without JavaScript
    name : str, of the slider
    start : int, the frame shown first, from 0
    interval_ms : int, between two frames when it plays
    """

    def __init__(self, tracks, still, *, name, choice="", start=0, interval_ms=1500):
        self.tracks = {track: list(frames) for track, frames in tracks.items()}
        self.still, self.name, self.choice, self.start, self.interval_ms = still, name, choice, start, interval_ms

    def html(self):
        """The player as HTML that stands alone."""
        first = next(iter(self.tracks.values()))
        numbers = f'min="1" max="{len(first)}" value="{self.start + 1}"'
        slider = f'<input type="range" {_OWN_KEYS} data-part="slider" aria-label="{escape(self.name)}" {numbers}>'
        buttons = (("previous", "previous", "◀"), ("play", "play or pause", "Play"), ("next", "next", "▶"))
        previous, play, following = (_BUTTON.format(part=p, label=label, text=text) for p, label, text in buttons)
        return (
            f'<style>{_STYLE}</style><div class="course-player" '
            f'data-interval="{self.interval_ms}" data-width="{first[0].picture.css_size[0]}" '
            f'data-frames="{pack(self.tracks)}">'
            f'<div data-part="controls" role="group" aria-label="{escape(self.name)}" hidden>{self._choice()}'
            f'{previous}{play}{following}<label>{escape(self.name)} {slider}</label> <output data-part="stop"></output>'
            f'</div>{self.still.html("image")}<p data-part="sentence" aria-live="polite"></p></div>'
            f"<script>{SCRIPT}</script>"
        )

    def _choice(self):
        """The drop-down over the tracks, if there are several."""
        if len(self.tracks) == 1:
            return ""
        options = "".join(f"<option>{escape(track)}</option>" for track in self.tracks)
        return f'<label>{escape(self.choice)} <select {_OWN_KEYS} data-part="track">{options}</select></label>'

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": self.html(), "text/plain": self.still.alt_text}


def counted(pictures, sentences):
    """Frames whose slider says "3 of 16"."""
    pairs = list(zip(pictures, sentences, strict=True))
    return [Frame(picture, words, f"{number} of {len(pairs)}") for number, (picture, words) in enumerate(pairs, 1)]


def pack(tracks):
    """All frames as text: lines of SVG once each, a frame as steps from line to line, compressed, in base64."""
    lines, packed = {}, {}
    for track, frames in tracks.items():
        packed[track] = []
        for frame in frames:
            numbers = [lines.setdefault(line, len(lines)) for line in frame.picture.svg().splitlines()]
            steps = [after - before for before, after in pairwise([0, *numbers])]  # mostly 1, which compresses well
            words = {"alt": frame.picture.alt_text, "sentence": frame.sentence, "stop": frame.stop}
            packed[track].append({"steps": steps, **words})
    text = json.dumps({"lines": list(lines), "tracks": packed}, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()
