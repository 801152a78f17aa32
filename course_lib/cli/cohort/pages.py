"""HTML of a class: a page for each learner with the cards of the notebook, and one for the teacher.

Submissions are hostile: every text from outside goes through the cards' `escape`, file names are made of letters and a
digest, and each page forbids scripts and anything from elsewhere.

May import: book.keep, gradebook, grading, viz.
"""

import hashlib
import re
from collections import Counter
from itertools import islice

from ...book.keep import write_atomic
from ...grading.exercise import registry
from ...grading.judge.client import verdict_from
from ...grading.report import html
from ...grading.report.card import STYLE, escape, inline, table
from ...grading.report.states import FAIL, NOT_STARTED, NOT_VERIFIED_HERE, PASS
from .gradebook import NOT_GRADED, NOT_HANDED_IN, number

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_LOOK = """
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:1.5rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.5rem} h2{font-size:1.15rem;margin-top:1.8rem} td,th{padding:.15rem .9rem .15rem 0;text-align:left;
vertical-align:top} th{border-bottom:1px solid #ccc} .n{text-align:right} .table{overflow-x:auto}
"""
_STATES = (PASS, FAIL, NOT_STARTED, NOT_GRADED, NOT_HANDED_IN)
_MOST_NAMES = 12  # of learners in one cell


def write(grades, folder):
    """Write index.html, for the teacher, and learners/NAME-DIGEST.html."""
    for learner in grades.entries:
        write_atomic(folder / page_name(learner), learner_page(grades, learner))
    write_atomic(folder / "index.html", teacher_page(grades))


def page_name(learner):
    """The path of a learner's page, whatever the name holds."""
    digest = hashlib.sha256(learner.encode()).hexdigest()[:8]
    return f"learners/{re.sub('[^A-Za-z0-9]+', '-', learner).strip('-')[:40]}-{digest}.html"


def learner_page(grades, learner):
    """The page that a learner may see: no other one's name, and a card for each exercise."""
    entries = grades.entries[learner]
    rows = [
        [escape(name), escape(_title(name)), escape(entry.state), _earned(grades, name, entry), escape(entry.where)]
        for name, entry in entries.items()
    ]
    total = f"{number(grades.earned(learner))} of {number(sum(grades.points.values()))} points"
    parts = [
        f"<p>{total}</p>",
        _table(["exercise", "", "verdict", "points", "from"], rows, (3,)),
        _sentences("What could not be used", grades.problems[learner]),
        STYLE,
        *(_card(name, entry) for name, entry in entries.items() if entry.verdict or entry.error),
    ]
    return _page(learner, parts)


def _card(name, entry):
    said = f"<p>There is no verdict: {escape(entry.error)}</p>"
    if entry.verdict:
        said = html.render(verdict_from(entry.verdict)).replace(STYLE, "")  # the page has it once
    return f"<h2>{escape(name)}</h2>\n{said}"


def teacher_page(grades):
    """The page for the teacher: pass rates, where learners get stuck, diagnoses, answers to read, every learner."""
    from ...viz.bar_charts import count_bars

    counts = {name: Counter(_column(one[name]) for one in grades.entries.values()) for name in grades.exercises}
    shown = [state for state in _STATES if any(count[state] for count in counts.values())]
    bars = {name: {state.lower(): count[state] for state in shown} for name, count in counts.items()}
    picture = count_bars(bars, title="What became of each exercise", unit="learners").html() if bars else ""
    parts = [
        f"<p>{len(grades.entries)} learners, {len(grades.exercises)} exercises.</p>",
        picture,
        _of_exercises(grades, counts),
        _stuck(grades),
        _diagnoses(grades),
        _to_read(grades),
        _of_learners(grades),
        _sentences(
            "What could not be used", [f"{who}: {one}" for who, all_ in grades.problems.items() for one in all_]
        ),
        _sentences("What belongs to no learner", grades.stray),
    ]
    return _page("The class", parts)


def _column(entry):
    return NOT_GRADED if entry.state == NOT_VERIFIED_HERE else entry.state


def _of_exercises(grades, counts):
    rows = []
    for name, count in counts.items():
        handed_in = len(grades.entries) - count[NOT_HANDED_IN]
        share = f"{100 * count[PASS] / handed_in:.0f} %" if handed_in else ""
        numbers = [handed_in, count[PASS], share, count[FAIL], count[NOT_STARTED], count[NOT_GRADED]]
        rows.append([escape(name), escape(_title(name)), *map(str, numbers)])
    head = ["exercise", "", "handed in", "pass", "pass rate", "fail", "not started", "not graded"]
    return "<h2>Pass rates</h2>" + _table(head, rows, range(2, 8))


def _stuck(grades):
    """For each exercise the learners who passed all that come before it and not it."""
    stuck = {name: [] for name in grades.exercises}
    for learner, entries in grades.entries.items():
        first = next((name for name, entry in entries.items() if entry.state != PASS), None)
        if first is not None:
            stuck[first].append(learner)
    rows = [
        [escape(name), escape(_title(name)), str(len(who)), _names(who)]
        for name, who in sorted(stuck.items(), key=lambda item: -len(item[1]))
        if who
    ]
    text = f"<p>{'The first exercise that a learner has not passed' if rows else 'No learner does'}.</p>"
    return f"<h2>Where learners get stuck</h2>{text}" + _table(["exercise", "", "learners", "who"], rows, (2,))


def _diagnoses(grades):
    rows = []
    for name in grades.exercises:
        of_code = {}
        for learner, entries in grades.entries.items():
            if entries[name].state == FAIL:
                said = entries[name].diagnosis or {"code": "none", "sentence": ""}
                of_code.setdefault(said["code"], []).append((learner, said["sentence"]))
        for code, found in sorted(of_code.items(), key=lambda item: (-len(item[1]), item[0])):
            example = inline(found[0][1][:400])
            who = _names([learner for learner, _ in found])
            rows.append([escape(name), f"<code>{escape(code)}</code>", str(len(found)), example, who])
    if not rows:
        return ""
    return "<h2>Diagnoses</h2>" + _table(["exercise", "diagnosis", "learners", "for example", "who"], rows, (2,))


def _to_read(grades):
    """Answers that the judge refused to run, and those without a verdict."""
    found = [
        f"{learner}, {name}: {said}"
        for learner, entries in grades.entries.items()
        for name, entry in entries.items()
        if (said := _unjudged(entry))
    ]
    return _sentences("Read these yourself", found)


def _unjudged(entry):
    """Why an answer was not run, or got no verdict; else ""."""
    if entry.verdict is None or entry.state == NOT_VERIFIED_HERE:
        return entry.error or (entry.verdict or {}).get("missing", "")
    return entry.diagnosis["sentence"] if entry.diagnosis and entry.diagnosis["code"] == "refused" else ""


def _of_learners(grades):
    rows = [
        [
            _link(learner),
            f"{sum(entry.state == PASS for entry in entries.values())} of {len(grades.exercises)}",
            number(grades.earned(learner)),
        ]
        for learner, entries in grades.entries.items()
    ]
    return "<h2>Learners</h2>" + _table(["learner", "passed", "points"], rows, (1, 2))


def _names(learners):
    more = len(learners) - _MOST_NAMES
    return ", ".join(map(_link, islice(learners, _MOST_NAMES))) + (f" and {more} more" if more > 0 else "")


def _link(learner):
    return f'<a href="{page_name(learner)}">{escape(learner)}</a>'


def _title(exercise):
    return registry.get_document(exercise).title


def _earned(grades, name, entry):
    return f"{number(grades.points[name]) if entry.state == PASS else 0} of {number(grades.points[name])}"


def _table(head, rows, numeric=()):
    return f'<div class="table">{table(head, rows, numeric=tuple(numeric))}</div>' if rows else ""


def _sentences(title, sentences):
    listed = "".join(f"<li>{escape(sentence)}</li>\n" for sentence in sentences)
    return f"<h2>{escape(title)}</h2><ul>{listed}</ul>" if listed else ""


def _page(title, parts):
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width"><style>{_LOOK}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )
