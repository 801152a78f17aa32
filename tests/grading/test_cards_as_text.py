"""Cards and tables where HTML is stripped (code hosts, untrusted notebooks, terminals): the words stay apart, and the
text says which command opens the next hint."""

from html.parser import HTMLParser

import pytest
from test_report import ALL, failing

from course_lib.cli.doctor_card import Doctor
from course_lib.cuda.ledgers import Comparison
from course_lib.cuda.simt.findings import Finding
from course_lib.cuda.simt.report import Report
from course_lib.grading.records.predictions import Prediction
from course_lib.grading.report.hints import Hints
from course_lib.measure.tables import Table
from course_lib.triton.report import TritonReport

WITHIN_A_WORD = {"b", "code", "i", "wbr"}  # tags between which no space is needed
CARDS = {
    **{make.__name__: make for make in ALL},
    "compile error": lambda: _failing_without_hint(),
    "hints": lambda: Hints("03.2", "One warp a row", ("First.", "Second."), 3),
    "all hints": lambda: Hints("03.2", "One warp a row", ("First.", "Second.", "Third."), 3),
    "prediction": lambda: Prediction("03.bytes", {"read": None, "written": 4}),
    "compared": lambda: Prediction("03.bytes", {"read": 3, "written": 4}, {"read": 6, "written": 4}),
    "doctor": Doctor,
    "table": lambda: Table(("name", "bytes"), (("q", 1024), ("k", 2048)), caption="Tensors", note="All of them."),
    "comparison": lambda: Comparison("copy_kernel", (("3", "global load", "4", "4", "as written"),)),
    "ledger": lambda: _ledger(),
    "Triton ledger": lambda: TritonReport(kernel="copy", grid=(2,), programs=2, launches=1, remarks=["a remark"]),
}


def _failing_without_hint():
    verdict = failing()
    verdict.hint = ""
    return verdict


def _ledger():
    report = Report(kernel="copy_kernel", findings=[Finding("race", 1, "two threads"), Finding("race", 2, "b")])
    report.global_load.requests, report.global_load.bytes, report.atomics = 4, 512, 2
    return report


class _Text(HTMLParser):
    """The text without tags; `joined` holds (before, tags, after) wherever tags alone separate two texts."""

    def __init__(self, html):
        super().__init__()
        self.text, self.joined, self._tags, self._skipped = "", [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self._tags.append(tag)
        if tag in ("style", "title"):
            self._skipped = tag

    def handle_endtag(self, tag):
        self._tags.append(tag)
        if tag == self._skipped:
            self._skipped = None

    def handle_data(self, data):
        if self._skipped:
            return
        if self.text and not self.text[-1].isspace() and not data[0].isspace() and set(self._tags) - WITHIN_A_WORD:
            self.joined.append((self.text[-20:], tuple(self._tags), data[:20]))
        self.text += data
        self._tags = []


def bare(card):
    return " ".join(_Text(card._repr_html_()).text.split())


@pytest.mark.parametrize("name", CARDS)
def test_words_stay_apart_without_tags(name):
    seen = _Text(CARDS[name]()._repr_html_())
    closing = [one for one in seen.joined if one[2][0] not in ".,;:)"]
    assert seen.text.strip() and closing == []


def test_joined_words_are_found():
    assert _Text("<span>FAIL</span><span>00.1</span>").joined
    assert not _Text("a <b>bold</b>, <code>x</code>y <p>one</p> <p>two</p>").joined


def test_a_failure_reads_as_a_sentence_without_tags():
    text = bare(failing())
    assert text.startswith(
        "✘ FAIL · 03.2 One warp a row · 2 of 3 cases fail · 0.8 s · on the CPU Smallest failing case:"
    )
    assert "got expected tolerance out[0, 32] 0.03125 0.01875 ± 2.4e-07" in text


@pytest.mark.parametrize("name", ["failing", "compile error", "hints"])
def test_the_text_says_which_command_opens_the_next_hint(name):
    card = CARDS[name]()
    assert 'Next hint: hint("03.2") here, or course hint 03.2 in a terminal.' in bare(card)
    assert 'Next hint: hint("03.2") in the notebook, course hint 03.2 in a terminal.' in str(card)


def test_after_the_last_hint_there_is_no_next_one():
    card = CARDS["all hints"]()
    assert "Next hint" not in bare(card) + str(card) and "Hint 3 of 3. Third." in bare(card)
