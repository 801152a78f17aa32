"""The hints of an exercise that are open, as text and as a card.

May import: html, text.
"""

from dataclasses import dataclass

from .html import render_hints
from .text import next_hint, wrap


@dataclass(frozen=True)
class Hints:
    """The hints of an exercise that are open so far."""

    exercise: str
    title: str
    shown: tuple[str, ...]
    total: int

    def __str__(self):
        lines = [f"Hints for {self.exercise} {self.title}: {len(self.shown)} of {self.total} open"]
        for index, text in enumerate(self.shown, 1):
            lines += wrap(text, f"{index}. ")
        if len(self.shown) < self.total:
            lines += next_hint(self.exercise)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self):
        return render_hints(self)
