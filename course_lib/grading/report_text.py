"""The verdict for a terminal: the same content, in the same order, as the card of report_html.py.

May import: verdict.
"""

import math
import textwrap

from .verdict import FAIL, NOT_STARTED, NOT_VERIFIED_HERE, PASS

SYMBOLS = {PASS: "✔", FAIL: "✘", NOT_STARTED: "○", NOT_VERIFIED_HERE: "?"}
_WIDTH = 100


def render(verdict):
    """The verdict as text, at most 100 characters wide."""
    parts = [headline(verdict), *_cases(verdict), *_first_wrong(verdict), *_map(verdict), *_diagnosis(verdict)]
    return "\n".join(parts)


def headline(verdict):
    return f"{SYMBOLS.get(verdict.state, '-')} {verdict.state}  {verdict.exercise}"


def number(value):
    """A number as a learner reads it: 4 significant digits, nan and inf in words."""
    if value is None or isinstance(value, float) and math.isnan(value):
        return "NaN" if value is not None else "-"
    return f"{value:.4g}"


def _cases(verdict):
    return [f"  {'✔' if case.passed else '✘'} {case.name} ({case.shape}) {case.note}" for case in verdict.cases]


def _first_wrong(verdict):
    wrong = verdict.first_wrong
    if wrong is None:
        return []
    return [f"  {wrong.output}{list(wrong.index)}: got {number(wrong.got)}, expected {number(wrong.expected)}"]


def _map(verdict):
    return []


def _diagnosis(verdict):
    return textwrap.wrap(verdict.diagnosis.sentence, _WIDTH) if verdict.diagnosis else []
