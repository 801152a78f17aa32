"""The verdict as a card: state, cases, first wrong element, map, diagnosis, hint; after a pass the ledger.

May import: card, error_map, error_map_svg, states, summary.
"""

from . import error_map, error_map_svg, summary
from .card import COLON, SEPARATOR, card, escape, folded, inline, paragraphs, span, table
from .states import FAIL, NOT_STARTED, NOT_VERIFIED_HERE, PASS


def render(verdict):
    """The card of a Verdict: HTML without any outside resource."""
    parts = {
        PASS: [_traffic, _remarks, _difference, _explanation, _cases, _printed],
        FAIL: [_smallest, _map, _diagnosis, _traffic, _remarks, _hint, _cases, _printed],
        NOT_STARTED: [_hint],
        NOT_VERIFIED_HERE: [_missing, _remarks, _printed],
    }[verdict.state]
    return card(
        _head(verdict), "\n".join(part(verdict) for part in parts), f"{verdict.state}: {summary.heading(verdict)}"
    )


def badge(state):
    """The state as a word with its symbol."""
    kind = state.lower().replace(" ", "")
    return f'<span class="state {kind}">{summary.SYMBOLS.get(state, "")} {escape(state)}</span>'


def _head(verdict):
    facts = [summary.count(verdict)]
    if verdict.cases:
        facts += [summary.seconds(verdict), summary.ENGINES.get(verdict.engine, verdict.engine)]
    said = " · ".join(fact for fact in facts if fact)
    name = span("name", summary.heading(verdict))
    return SEPARATOR.join([badge(verdict.state), name, *([span("facts", said)] if said else [])])


def _smallest(verdict):
    case, wrong = summary.smallest_failing(verdict), verdict.first_wrong
    if case is None:
        return ""
    text = f"<p>{span('lead', 'Smallest failing case:')} {inline(case.name)} {span('faint', f'({case.shape})')}</p>"
    if wrong is None:
        return text
    row = [
        f"<code>{escape(summary.element(wrong))}</code>",
        *(f"<b>{summary.number(value)}</b>" for value in (wrong.got, wrong.expected)),
        f"± {summary.number(wrong.tolerance)}",
    ]
    return text + table(["first wrong element", "got", "expected", "tolerance"], [row], numeric=(1, 2, 3))


def _map(verdict):
    return error_map_svg.render(verdict) if error_map.has_map(verdict) else ""


def _diagnosis(verdict):
    if verdict.diagnosis is None:
        return ""
    excerpt = f"\n<pre>{_marked(verdict.excerpt)}</pre>" if verdict.excerpt else ""
    return f'<div class="said"><span class=lead>Diagnosis.</span> {inline(verdict.diagnosis.sentence)}{excerpt}</div>'


def _marked(excerpt):
    return "\n".join(f"<b>{escape(line)}</b>" if line.startswith("→") else escape(line) for line in excerpt.split("\n"))


def _hint(verdict):
    if verdict.state == NOT_STARTED:
        return f'<div class="said tip">{span("lead", "Next.")} {inline(verdict.hint)}</div>' if verdict.hint else ""
    return f'<div class="said tip">{_open_hints(verdict.exercise, [verdict.hint] if verdict.hint else [], 3)}</div>'


def _open_hints(exercise, shown, total):
    """The hints that are open and how to open the next one.

    JupyterLab's extension (labextension/) makes a button of the words "Next hint", and replaces the whole by what
    `hint` then returns.
    """
    texts = "".join(
        f"<p>{span('lead', f'Hint {number} of {total}.')} {inline(text)}</p>\n" for number, text in enumerate(shown, 1)
    )
    name = escape(exercise)
    button = f'<b class="next-hint" data-exercise="{name}" data-shown="{len(shown)}">Next hint</b>'
    how = f'{button}{COLON}<code>hint("{name}")</code> here, or <code>course hint {name}</code> in a terminal.'
    return (
        f'<div class="hints">{texts}<p class="faint">{how if len(shown) < total else "These are all hints."}</p></div>'
    )


def _missing(verdict):
    return f'<div class="said remark"><span class=lead>Missing here.</span> {inline(verdict.missing)}</div>'


def _remarks(verdict):
    return "\n".join(
        f'<div class="said remark"><span class=lead>Remark.</span> {inline(text)}</div>' for text in verdict.remarks
    )


def _cases(verdict):
    rows = [
        [
            "✔ passes" if case.passed else "✘ fails",
            inline(case.name),
            escape(case.shape),
            summary.number(case.max_error) if case.max_error is not None else "",
            summary.number(case.tolerance) if case.tolerance is not None else "",
            inline(summary.note(verdict, case)),
        ]
        for case in verdict.cases
    ]
    head = ["", "case", "shape", "largest error", "allowed", "what happened"]
    shown = [column for column in range(len(head)) if column < 3 or any(row[column] for row in rows)]
    numeric = [place for place, column in enumerate(shown) if column in (3, 4)]
    cells = table([head[column] for column in shown], [[row[column] for column in shown] for row in rows], numeric)
    return folded(f"All {len(rows)} cases" if len(rows) > 1 else "The case", f'<div class="cases">{cells}</div>')


def _traffic(verdict):
    rows = [
        [escape(row.what), f"{row.value:,}", f"<span class=faint>{escape(row.against)}</span>"]
        for row in summary.traffic(verdict)
    ]
    if not rows:
        return ""
    return (
        f"{_bound(verdict)}{folded('Traffic as written', table(['', 'count', ''], rows, numeric=(1,)), is_open=True)}"
    )


def _bound(verdict):
    if not verdict.bound:
        return ""
    moved, fewest = summary.moved_bytes(verdict), verdict.bound["bytes"]
    longest = max(moved, fewest, 1)
    rows = [
        [
            f"<span class=lead>{words}</span>",
            f"{value:,} bytes",
            f'<div class="bar" style="width:{16 * value / longest:.2f}rem"></div>',
        ]
        for words, value in (("your kernel moves", moved), ("no kernel can do with less than", fewest))
    ]
    case = f", in the case “{verdict.bound['case']}”" if verdict.bound.get("case") else ""
    said = f"{moved / max(fewest, 1):.2f} times the bound{case}. The bound: {verdict.bound['why']}."
    why = f"<p class=faint>{inline(said)}</p>"
    return (
        "<table>"
        + "\n".join(f"<tr><td>{a}</td> <td class=n>{b}</td> <td>{c}</td></tr>" for a, b, c in rows)
        + f"</table>\n{why}\n"
    )


def _difference(verdict):
    lines = verdict.difference.rstrip("\n").split("\n")
    if len(lines) == 1:
        return f"<p class=faint>{escape(lines[0])}</p>" if lines[0] else ""
    kinds = {"+": "row add", "-": "row del", "@": "row at"}
    body = "".join(f'<span class="{kinds.get(line[:1], "row")}">{escape(line) or " "}\n</span>' for line in lines)
    return folded("Your answer (-) and the reference (+)", f"<pre>{body}</pre>")


def _explanation(verdict):
    return f"<p class=lead>What you have built:</p>\n{paragraphs(verdict.explanation)}" if verdict.explanation else ""


def _printed(verdict):
    return folded(
        "What it printed", f"<pre>{escape(verdict.printed.rstrip())}</pre>" if verdict.printed.strip() else ""
    )


def render_hints(hints):
    """The card of the hints that are open."""
    title = f"Hints for {hints.exercise} {hints.title}".strip()
    head = span("name", title) + SEPARATOR + span("facts", f"{len(hints.shown)} of {hints.total} open")
    return card(head, _open_hints(hints.exercise, hints.shown, hints.total), f"Hints for {hints.exercise}")
