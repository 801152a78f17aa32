"""Guess first: predictions are kept before the measurement, and shown beside it afterwards.

May import: work, report.card, report.summary.
"""

import contextlib
import warnings
from dataclasses import dataclass, field
from typing import Any

from ..report.card import SEPARATOR, card, escape, span, table
from ..report.summary import number
from . import work

_FILE = "predictions.json"
_CLOSE = 0.05  # a guess within 5 % counts as right


@dataclass(frozen=True)
class Prediction:
    """What was guessed under one key, and what was measured when that is known."""

    key: str
    guess: dict[str, Any]
    measured: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)  # the first guess, when it was another one

    def rows(self):
        """[(name, guess, measured, word)], in the order of the guess."""
        names = list(self.guess) + [name for name in self.measured if name not in self.guess]
        return [(name, _text(self.guess.get(name)), _text(self.measured.get(name)), self._word(name)) for name in names]

    def _word(self, name):
        if name not in self.measured:
            return "kept" if self.guess.get(name) is not None else "still open"
        return compare_values(self.guess.get(name), self.measured[name])

    def __str__(self):
        lines = [f"Prediction {self.key}"]
        for name, guess, measured, word in self.rows():
            lines.append(f"  {name}: {guess}" + (f", measured {measured}" if measured else "") + f" ({word})")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, **_):
        """No other form than text and card, but a mark: JupyterLab unfolds the answers to a guess that is made."""
        made = bool(self.guess) and None not in self.guess.values()
        return {}, {} if self.measured else {"guess": {"key": self.key, "made": made}}

    def _repr_html_(self):
        if self.measured:
            title, head, numeric = "Your guess and the measurement", ["", "your guess", "measured", ""], (1, 2)
            rows = self.rows()
        else:
            title, head, numeric = "Your guess", ["", "your guess", ""], (1,)
            rows = [(name, guess, word) for name, guess, _, word in self.rows()]
        body = table(head, [[escape(cell) for cell in row] for row in rows], numeric=numeric)
        note = f"<p class=faint>{escape(self._note())}</p>" if self._note() else ""
        return card(span("name", title) + SEPARATOR + span("facts", self.key), body + note, f"{title}: {self.key}")

    def _note(self):
        """What to do next; empty when there is nothing to do."""
        if self.measured:
            unkept = f"No guess was kept as {self.key} when this ran. Make yours, then run this cell again."
            return "" if self.guess else unkept
        still_open = [name for name, value in self.guess.items() if value is None]
        if still_open:
            return f"Still open: {', '.join(still_open)}. Put a number or a word in place of None."
        return "Kept. You will see it again beside the measurement."


def _text(value):
    if value is None:
        return "-"
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def compare_values(guess, measured):
    """ "right", "4 times too many", "not quite" …: a guess against a measurement, in words."""
    if guess is None:
        return "no guess"
    if isinstance(guess, int | float) and isinstance(measured, int | float):
        if guess == measured or abs(guess - measured) <= _CLOSE * abs(measured):
            return "✔ right" if guess == measured else "✔ close"
        if measured and guess / measured > 0:
            factor = guess / measured
            return f"{factor:.2g} times too much" if factor > 1 else f"{1 / factor:.2g} times too little"
        return "✘ no"
    return "✔ right" if str(guess).strip().lower() == str(measured).strip().lower() else "✘ no"


def predict(key, *values, **named):
    """Keep a guess in work/predictions.json.

    Parameters
    ----------
    key : str, "03.bytes"
    values, named : numbers or words; None means "still open" and is not kept

    Returns
    -------
    Prediction; a notebook shows it as a card
    """
    guess = {str(index): value for index, value in enumerate(values, 1)} | named
    given = {name: value for name, value in guess.items() if value is not None}
    if given:
        try:
            with work.changed(_FILE) as kept:
                entry = work.entry(kept, key)
                entry |= {} if "first" in entry else {"first": given, "first_at": work.stamp()}
                entry["guess"], entry["guess_at"] = given, work.stamp()
        except OSError as error:
            warnings.warn(f"The guess could not be kept in {work.root()}: {error.strerror or error}.", stacklevel=2)
    return Prediction(key, guess)


def compare(key, measured=None, **named):
    """Show what was guessed under `key` beside what was measured; the measurement is kept beside the guess.

    Parameters
    ----------
    key : str, as in `predict`
    measured, named : a dict, or one number when one was guessed, or the measurements by name

    Returns
    -------
    Prediction
    """
    entry = work.entry(work.load(_FILE), key)
    guess = _dict(entry, "guess")
    if measured is not None and not isinstance(measured, dict):
        measured = {next(iter(guess), "1"): measured}
    measured = {name: _plain(value) for name, value in ((measured or {}) | named).items()}
    if entry and measured:
        with contextlib.suppress(OSError), work.changed(_FILE) as books:  # a full disk does not hide the measurement
            work.entry(books, key).update({"measured": measured, "measured_at": work.stamp()})
    return Prediction(key, guess, measured, _dict(entry, "first"))


def _dict(entry, name):
    """What a record holds under `name`; empty where it is damaged."""
    return entry[name] if isinstance(entry.get(name), dict) else {}


def kept():
    """Every prediction that was made, of all chapters, with what was measured; in order of their keys."""
    books = work.load(_FILE)
    entries = [(key, work.entry(books, key)) for key in sorted(books)]
    return [Prediction(key, *(_dict(entry, name) for name in ("guess", "measured", "first"))) for key, entry in entries]


def _plain(value):
    """A number of torch or NumPy as Python's own, so that it can be kept."""
    return value.item() if hasattr(value, "item") else value
