"""A dashboard of a serving engine that runs in a thread: what it does now, its last seconds, buttons that add load.

It reads `stats` of a service after each step and calls its `submit`; it knows neither the engine nor a model. Its saved
output is a player over what was seen, which needs no kernel.

May import: player, serving_curves, widgets, ipywidgets.
"""

import dataclasses
import threading
import time
from html import escape

import ipywidgets as widgets

from .player import Frame, Player
from .serving_curves import kv_picture
from .widgets import BoxWithPlayer

EVERY = 0.3  # seconds between two looks
REDRAW_SECONDS = 1.0  # between two pictures while the engine runs, which has the processor otherwise
IDLE_SECONDS = 2.0  # after which a thread that follows the engine ends
SAVED_FRAMES = 8
_COUNTED = ("num_output_tokens", "num_preemptions", "prefix_queries", "prefix_hits")


def serving_dashboard(service, loads):
    """A Dashboard; show its `box`, and `follow` it once where the output is to be saved.

    Parameters
    ----------
    service : serving.service.Service that runs; its stats are read and its submit is called
    loads : dict, the words on a button -> list of Request that it sends, under new names
    """
    return Dashboard(service, loads)


class Dashboard:
    """The parts of `serving_dashboard`: `numbers`, `picture`, `buttons`, and `box` that holds them.

    Attributes
    ----------
    history : list of dict, a look each: time (s), running, waiting, kv_use, tokens_per_s, and counts since the start
    """

    def __init__(self, service, loads, *, clock=time.monotonic, sleep=time.sleep):
        self.service, self.loads, self.clock, self.sleep = service, loads, clock, sleep
        self.history, self.sent, self.streams, self.thread = [], 0, [], None
        self.start, self.first, self.drawn, self.busy = clock(), None, 0.0, False
        self.numbers, self.picture, self.words = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.buttons = [widgets.Button(description=name, tooltip=f"send {name} now") for name in loads]
        for button in self.buttons:
            button.on_click(self._clicked)
        self.box = BoxWithPlayer([widgets.HBox(self.buttons), self.words, self.numbers, self.picture])
        self.look()

    def press(self, name):
        """Send the requests of a button."""
        refused = ""
        for request in self.loads[name]:
            self.sent += 1
            try:
                self.streams.append(self.service.submit(dataclasses.replace(request, name=f"board-{self.sent}")))
            except Exception as error:  # a full queue or a service that has stopped: said in the box
                refused = escape(str(error))
        self.words.value = refused

    def _clicked(self, button):
        """Send, and follow the engine in a thread until it is idle: the kernel stays free for other cells."""
        self.press(button.description)
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.Thread(target=self.follow, name="serving-dashboard", daemon=True)
            self.thread.start()

    def follow(self, seconds=600.0):
        """Look again and again, until nothing has run for a while or the time is over. Returns the dashboard."""
        end, busy = self.clock() + seconds, self.clock()
        while self.clock() < min(end, busy + IDLE_SECONDS):
            self.sleep(EVERY)
            now = self.look()
            busy = self.clock() if now["running"] or now["waiting"] else busy
        return self

    def look(self):
        """Take a sample and show it."""
        stats, now = self.service.stats, self.clock() - self.start
        counts = {name: getattr(stats, name, 0) for name in _COUNTED}
        self.first = self.first or counts
        counts = {name: value - self.first[name] for name, value in counts.items()}
        state = {"running": "num_running", "waiting": "num_waiting", "kv_use": "kv_usage"}
        found = {"time": now} | {name: getattr(stats, source, 0) for name, source in state.items()} | counts
        found["tokens_per_s"] = self._rate(found)
        self.history.append(found)
        self.numbers.value = _table(found)
        if now - self.drawn >= REDRAW_SECONDS or not (found["running"] or found["waiting"]) and self.busy:
            self.picture.value, self.drawn = self._picture(self.history).html(), now
        self.busy = bool(found["running"] or found["waiting"])
        self.box.player = self._player()
        return found

    def _rate(self, found):
        """New tokens a second since the look before."""
        if not self.history:
            return 0.0
        last = self.history[-1]
        seconds = found["time"] - last["time"]
        return (found["num_output_tokens"] - last["num_output_tokens"]) / seconds if seconds > 0 else 0.0

    def _picture(self, history):
        times = [b["time"] for a, b in zip(history, history[1:], strict=False) if _preempted(a, b)]
        return kv_picture(history, preemptions=times, title="this engine: pages in use, requests")

    def _player(self):
        """At most SAVED_FRAMES moments of the history."""
        last = len(self.history)
        ends = sorted({max(1, last * number // SAVED_FRAMES) for number in range(1, SAVED_FRAMES + 1)})
        return LazyPlayer(lambda: self._frames(ends), name="time")

    def _frames(self, ends):
        return [
            Frame(
                self._picture(self.history[:end]),
                sentence(self.history[end - 1]),
                f"{self.history[end - 1]['time']:.1f} s",
            )
            for end in ends
        ]


class LazyPlayer:
    """A player whose frames are drawn when it is saved, not at each look."""

    def __init__(self, frames, *, name):
        self.frames, self.name = frames, name

    def player(self):
        """The Player itself; it begins with its last frame."""
        frames = self.frames()
        return Player({"": frames}, frames[-1].picture, name=self.name, start=len(frames) - 1, interval_ms=600)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.player()._repr_mimebundle_()


def _preempted(before, after):
    return after["num_preemptions"] > before["num_preemptions"]


def sentence(look):
    """One look in words."""
    queried = look["prefix_queries"]
    hits = f"{100 * look['prefix_hits'] / queried:.0f} %" if queried else "none"
    return (
        f"{look['running']} requests run, {look['waiting']} wait; {100 * look['kv_use']:.0f} % of the pages in use; "
        f"{look['tokens_per_s']:,.0f} tokens/s; {look['num_preemptions']} preemptions; "
        f"prompt tokens from the prefix cache: {hits}."
    )


def _table(look):
    """The same as a small table."""
    queried = look["prefix_queries"]
    cells = {
        "running": look["running"], "waiting": look["waiting"], "pages in use": f"{100 * look['kv_use']:.0f} %",
        "tokens/s": f"{look['tokens_per_s']:,.0f}", "tokens": f"{look['num_output_tokens']:,}",
        "preemptions": look["num_preemptions"],
        "prefix hits": f"{100 * look['prefix_hits'] / queried:.0f} %" if queried else "–",
    }  # fmt: skip
    heads, values = ("".join(f"<{tag}>{value}</{tag}>" for value in row)
                     for tag, row in (("th", cells), ("td", cells.values())))  # fmt: skip
    return f"<table><tr>{heads}</tr><tr>{values}</tr></table>"
