"""A player holds every frame as it was drawn, in little space, with names for assistive technology."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser

import pytest

from course_lib import viz
from course_lib.book.notebooks import MAX_PLAYER_BYTES, pictures
from course_lib.viz.player import pack


def explorer(space, number):
    """What `access_explorer` saves, with a made-up recording."""
    pytest.importorskip("ipywidgets", reason="ipywidgets belongs to the notebook environment")
    return viz.access_explorer(lambda words: viz.Access(space, tuple(words), 7), number=number).player


PLAYERS = {  # as the chapters call them
    "bytes of a load": lambda: explorer("global", 3),
    "banks of a load": lambda: explorer("shared", 32),
    "growth": viz.growth_slider,
    "loops": viz.tile_loops,
    "ring": viz.ring_player,
    "waves": viz.waves_slider,
}


def unpack(text):
    """{track: [(svg, alt text, sentence)]} of a player's HTML, as player.js reads it."""
    encoded = re.search(r'data-frames="([^"]+)"', text)[1]
    data = json.loads(zlib.decompress(base64.b64decode(encoded)))
    shown = {}
    for track, frames in data["tracks"].items():
        for frame in frames:
            number, lines = 0, []
            for step in frame["steps"]:
                number += step
                lines.append(data["lines"][number])
            shown.setdefault(track, []).append(("\n".join(lines), frame["alt"], frame["sentence"]))
    return shown


def test_frames_come_back_as_they_were_drawn():
    (frames,) = unpack(viz.tile_loops(4, 6, 2, 2, 2).html()).values()
    (drawn,) = viz.tile_loops(4, 6, 2, 2, 2).tracks.values()
    assert frames == [(one.picture.svg().rstrip("\n"), one.picture.alt_text, one.sentence) for one in drawn]


def test_lines_that_frames_share_are_stored_once():
    player = viz.tile_loops(4, 6, 2, 2, 2)
    (drawn,) = player.tracks.values()
    alone = sum(len(pack({"": [frame]})) for frame in drawn)
    assert len(pack(player.tracks)) < 0.5 * alone


@pytest.mark.parametrize("name", PLAYERS)
def test_players_are_small_and_show_a_picture_without_a_script(name):
    player = PLAYERS[name]()
    data = player._repr_mimebundle_()
    assert len(data["text/html"]) < MAX_PLAYER_BYTES
    ((png, alt),) = pictures(data)
    assert png == player.still.png() and alt == data["text/plain"] == player.still.alt_text


class Controls(HTMLParser):
    """The form elements of a page: [(tag, attributes)]."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag in ("input", "button", "select", "img"):
            self.found.append((tag, dict(attributes)))


def test_every_control_has_a_name():
    text = viz.ring_player(1).html()
    controls = Controls(text).found
    assert [tag for tag, _ in controls] == ["select", "button", "button", "button", "input", "img"]
    assert all("data-lm-suppress-shortcuts" in attributes for _, attributes in controls[:-1])
    assert all(attributes.get("aria-label") for tag, attributes in controls if tag in ("button", "input"))
    assert "<label>first parities <select " in text and 'role="group"' in text and 'aria-live="polite"' in text


def test_the_same_data_give_the_same_player():
    assert viz.tile_loops(2, 2, 2, 2, 2).html() == viz.tile_loops(2, 2, 2, 2, 2).html()
