"""The card and the text say the same, in the order of the design; nothing of the learner's can break out of them."""

import re
from html.parser import HTMLParser

import pytest

from course_lib.grading.report import summary
from course_lib.grading.report.states import FAIL, NOT_STARTED, NOT_VERIFIED_HERE, PASS
from course_lib.grading.report.verdict import CaseOutcome, Diagnosis, FirstWrong, Verdict

NAN = float("nan")
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)> \" ' & `code`"


def failing():
    ratio = [[0.5 if col < 32 else 50.0 for col in range(53)] for _ in range(37)]
    ratio[5][40] = NAN
    return Verdict(
        "03.2",
        FAIL,
        Diagnosis("tail", "row 0 saw 32 keys, it may see 53", 12),
        [
            CaseOutcome("one element", "1 x 1, float32", True, 1e-8, 1e-7),
            CaseOutcome("large", "113 x 203, float32", False, 0.3, 1e-7),
            CaseOutcome("ragged", "37 x 53, float32", False, 0.2, 1e-7),
        ],
        FirstWrong("ragged", "out", (0, 32), 0.03125, 0.01875, 2.4e-7),
        {"case": "ragged", "output": "out", "ratio": ratio, "tile": (8, 32)},
        hint="Which columns does lane 0 take next?",
        printed="lane 3",
        seconds=0.8,
        title="One warp a row",
        excerpt="→   12 |     for (;;)",
    )


def passing():
    counts = {"requests": 32, "sectors": 256, "bytes": 8192, "ideal_sectors": 128}
    return Verdict(
        "03.2",
        PASS,
        cases=[CaseOutcome("ragged", "37 x 53, float32", True, 1e-8, 1e-7)],
        remarks=["Right, but slow."],
        ledger={
            "global_load": counts,
            "global_store": counts | {"bytes": 4096},
            "shared_load": {"requests": 4, "wavefronts": 8, "conflicts": 4},
        },
        bound={"bytes": 8192, "why": "read once, written once", "case": "ragged"},
        explanation="First `code`.\n\nSecond.",
        difference="--- your answer\n+++ reference\n-a < b\n+b\n",
        title="One warp a row",
    )


def waiting():
    return Verdict("03.4", NOT_STARTED, hint="Replace the line.")


def elsewhere():
    return Verdict("08.1", NOT_VERIFIED_HERE, missing="It needs compute capability 9.0.")


ALL = [failing, passing, waiting, elsewhere]


class _Balance(HTMLParser):
    """Complains about a tag that is not closed, and collects the names of all tags and attributes."""

    VOID = {"br", "img", "path", "rect", "circle"}

    def __init__(self):
        super().__init__()
        self.stack, self.tags, self.attributes = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1] == tag, (tag, self.stack)
        self.stack.pop()


def parsed(html):
    parser = _Balance()
    parser.feed(html)
    assert parser.stack == []
    return parser


@pytest.mark.parametrize("make", ALL)
def test_cards_are_well_formed_and_load_nothing(make):
    html = make()._repr_html_()
    seen = parsed(html)
    assert "script" not in seen.tags and "link" not in seen.tags and "img" not in seen.tags
    assert not [value for name, value in seen.attributes if name in ("src", "href")]
    assert "url(" not in html and "@import" not in html


@pytest.mark.parametrize("make", ALL)
def test_state_is_said_by_word_and_symbol_and_to_screen_readers(make):
    verdict = make()
    symbol = summary.SYMBOLS[verdict.state]
    assert f"{symbol} {verdict.state}" in verdict._repr_html_() and f"{symbol} {verdict.state}" in str(verdict)
    assert f'aria-label="{verdict.state}: ' in verdict._repr_html_()


@pytest.mark.parametrize("show", [str, lambda verdict: verdict._repr_html_()], ids=["text", "card"])
def test_a_failure_reads_in_the_order_of_the_design(show):
    text = show(failing())
    parts = [
        "FAIL",
        "2 of 3 cases fail",
        "Smallest failing case",
        "ragged",
        "0.03125",
        "0.01875",
        "2.4e-07",
        "are wrong",
        "row 0 saw 32 keys",
        "Which columns does lane 0 take next?",
    ]
    positions = [text.index(part) for part in parts]
    assert positions == sorted(positions)
    assert "lane 3" in text and "for (;;)" in text


@pytest.mark.parametrize("show", [str, lambda verdict: verdict._repr_html_()], ids=["text", "card"])
def test_a_pass_shows_traffic_against_the_bound(show):
    text = " ".join(re.sub(r"<[^>]+>", "", show(passing())).split())
    for part in (
        "12,288",
        "8,192",
        "1.50 times the bound",
        "read once, written once",
        "Right, but slow.",
        "128 would do",
    ):
        assert part in text, part


def test_the_map_has_tile_borders_and_a_sentence():
    html = failing()._repr_html_()
    svg = re.search(r"<svg role=.img.*?</svg>", html, re.S)[0]
    squares = re.findall(r'class="squares" d="([^"]*)"', svg)
    assert [path.count("z") for path in squares] == [37 * 32, 37 * 21 - 1, 1]  # fine, wrong, not a number
    assert "777 of 1,961 elements of out are wrong" in svg and "columns 32 to 52" in svg
    lines = re.search(r'<path d="([^"]*)" stroke="var\(--jp-content', svg)[1]
    assert lines.count("H") == 4 and lines.count("V") == 1  # rows 8, 16, 24, 32 and column 32


def test_the_text_map_marks_wrong_elements_and_tiles():
    lines = [line for line in str(failing()).splitlines() if "·" in line and "│" in line]
    assert len(lines) == 37
    assert lines[0].split()[1] == "·" * 32 + "│" + "▒" * 21
    assert "N" in lines[5] and max(map(len, str(failing()).splitlines())) <= 100


def test_a_large_map_stays_small():
    verdict = failing()
    verdict.error_map = {"case": "c", "output": "out", "ratio": [[NAN] * 128 for _ in range(128)], "tile": (16, 16)}
    assert len(verdict._repr_html_()) < 300_000
    assert max(map(len, str(verdict).splitlines())) <= 100


@pytest.mark.parametrize("ratio", [[], [[]], [[NAN]], [[0.0]], [[float("inf"), 1e300]]])
def test_odd_maps_do_no_harm(ratio):
    verdict = failing()
    verdict.error_map = {"case": "c", "output": "out", "ratio": ratio, "tile": (1, 1)}
    parsed(verdict._repr_html_())
    str(verdict)


def test_everything_of_the_learners_is_escaped():
    verdict = failing()
    verdict.printed = verdict.excerpt = verdict.title = verdict.hint = EVIL
    verdict.diagnosis = Diagnosis("x", EVIL)
    verdict.cases = [CaseOutcome(EVIL, EVIL, False, note=EVIL)]
    verdict.first_wrong = FirstWrong(EVIL, EVIL, (0,), NAN, 1.0, 1.0)
    verdict.error_map["output"] = EVIL
    verdict.remarks = [EVIL]
    assert not {"script", "img"} & parsed(verdict._repr_html_()).tags
    right = passing()
    right.difference = right.explanation = right.printed = right.missing = EVIL
    right.bound["why"] = EVIL
    assert not {"script", "img"} & parsed(right._repr_html_()).tags


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (NAN, "NaN"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (None, "none"),
        (1234567, "1,234,567"),
        (0.1 + 0.2, "0.3"),
    ],
)
def test_numbers_as_a_learner_reads_them(value, word):
    assert summary.number(value) == word


def test_the_legend_says_of_what_an_error_is_a_multiple():
    verdict = failing()
    for shown in (verdict._repr_html_(), " ".join(str(verdict).split())):
        assert "to 100 times the tolerance" in shown and "NaN where a number belongs" in shown
        assert "100 x" not in shown
