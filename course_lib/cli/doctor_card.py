"""`course doctor` as a card in a notebook: the same findings, with shortened paths.

May import: doctor, grading's card.
"""

import re
import tempfile
from pathlib import Path

from ..grading.report.card import SEPARATOR, card, escape, inline, span
from ..grading.report.card import table as card_table
from .doctor import GOOD, MISSING, NOTE, examine

_ROOT = Path(__file__).resolve().parents[2]
_LABELS = {GOOD: "✔ ok", MISSING: "✘ missing", NOTE: "· note"}


class Doctor:
    """What this machine can run. `findings` is a list of doctor.Finding; a notebook shows it as a card."""

    def __init__(self, findings=None):
        self.findings = examine() if findings is None else findings

    def rows(self):
        """Return [(state, topic, sentence)]; findings about temporary folders are left out."""
        shortened = [(finding, short(finding.sentence)) for finding in self.findings]
        return [
            (_LABELS[finding.state], finding.topic, sentence)
            for finding, sentence in shortened
            if finding.state == MISSING or tempfile.gettempdir() not in sentence
        ]

    def summary(self):
        """Return one sentence: what is missing, if anything."""
        missing = [finding.topic for finding in self.findings if finding.state == MISSING]
        if missing:
            return f"Missing here: {', '.join(missing)}. The sentences below say what to do."
        return "Nothing is missing: you can run, write and check everything that the chapters ask for."

    def __str__(self):
        lines = [f"{state:10} {topic}: {sentence}" for state, topic, sentence in self.rows()]
        return "\n".join([self.summary(), *lines])

    __repr__ = __str__

    def _repr_html_(self):
        rows = [
            [_unbroken(state), f"<b>{_unbroken(topic)}</b>", inline(sentence)] for state, topic, sentence in self.rows()
        ]
        body = f"<p>{escape(self.summary())}</p>" + card_table(["", "", "what the doctor found"], rows)
        return card(
            span("name", "This machine") + SEPARATOR + span("facts", "course doctor"), body, "What this machine can run"
        )


def short(sentence):
    """Shorten paths: relative to the course's folder, or to the home folder as ~."""
    sentence = sentence.replace(f"{_ROOT}/", "")
    return re.sub(rf"(?<![\w/]){re.escape(str(Path.home()))}(?=/)", "~", sentence)


def _unbroken(text):
    """Escape for HTML, without line breaks."""
    return escape(text).replace(" ", "&nbsp;")
