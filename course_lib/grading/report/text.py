"""The verdict for a terminal: the same content, in the same order, as the card of html.py.

May import: error_map, states, summary.
"""

import textwrap

from . import error_map, summary
from .states import FAIL, NOT_STARTED, NOT_VERIFIED_HERE, PASS

_WIDTH = 96
_MAP_ROWS, _MAP_COLS = 40, 72


def render(verdict):
    """The verdict as text, at most 100 characters wide.

    Parameters
    ----------
    verdict : Verdict

    Returns
    -------
    str, several lines
    """
    blocks = [[headline(verdict)]]
    if verdict.state == NOT_VERIFIED_HERE:
        blocks.append(wrap(verdict.missing))
    if verdict.state == FAIL:
        blocks += [_smallest(verdict), _map(verdict), _diagnosis(verdict), _traffic(verdict), _cases(verdict)]
    if verdict.state in (FAIL, NOT_STARTED):
        blocks.append(
            wrap(verdict.hint, "Hint: ") + next_hint(verdict.exercise)
            if verdict.state == FAIL
            else wrap(verdict.hint, "Next: ")
        )
    if verdict.state == PASS:
        blocks += [_traffic(verdict)]
    blocks.append([line for remark in verdict.remarks for line in wrap(remark, "Remark: ")])
    if verdict.state == PASS:
        blocks += [wrap(verdict.explanation), _titled("Your answer and the reference:", verdict.difference)]
    blocks.append(_titled("It printed:", verdict.printed.rstrip()))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def headline(verdict):
    """ "✘ FAIL  03.2 One warp a row · 2 of 9 cases fail · 0.8 s · CPU, SIMT machine" """
    rest = [summary.heading(verdict), summary.count(verdict)]
    if verdict.cases:
        rest += [summary.seconds(verdict), summary.ENGINES.get(verdict.engine, verdict.engine)]
    return f"{summary.SYMBOLS.get(verdict.state, '-')} {verdict.state}  " + " · ".join(part for part in rest if part)


def wrap(text, lead=""):
    lines = []
    for paragraph in text.split("\n"):
        lines += textwrap.wrap(paragraph, _WIDTH, initial_indent="  " + ("" if lines else lead), subsequent_indent="  ")
    return lines


def next_hint(exercise):
    """The line that says how to open the next hint."""
    return [f'  Next hint: hint("{exercise}") in the notebook, course hint {exercise} in a terminal.']


def _titled(title, text):
    return [f"  {title}"] + [f"    {line}" for line in text.split("\n")] if text else []


def _smallest(verdict):
    case, wrong = summary.smallest_failing(verdict), verdict.first_wrong
    if case is None:
        return []
    lines = [f"  Smallest failing case: {case.name} ({case.shape})"]
    if wrong is not None:
        lines.append(
            f"  First wrong element:   {summary.element(wrong)} = {summary.number(wrong.got)}, "
            f"expected {summary.number(wrong.expected)} ± {summary.number(wrong.tolerance)}"
        )
    return lines


def _map(verdict):
    if not error_map.has_map(verdict):
        return []
    levels, steps = error_map.coarse(verdict.error_map, _MAP_ROWS, _MAP_COLS)
    width = max(map(len, levels), default=0)
    down = error_map.borders(verdict.error_map, 0, steps, len(levels))
    across = error_map.borders(verdict.error_map, 1, steps, width)
    characters = [character for _, _, character in error_map.LEVELS] + [error_map.NAN_CHARACTER]
    rule = "".join(("┼" if col in across else "") + "─" for col in range(width))
    top, left = error_map.first_shown(verdict.error_map)
    lines = [*wrap(error_map.map_summary(verdict), "Where it is wrong: "), ""]
    for row, cells in enumerate(levels):
        if row in down:
            lines.append(f"  {'':>5} {rule}")
        text = "".join(("│" if col in across else "") + characters[cell] for col, cell in enumerate(cells))
        lines.append(f"  {top + row * steps[0]:>5} {text}")
    legend = [f"{character} {words}" for _, words, character in error_map.LEVELS]
    legend.append(f"{error_map.NAN_CHARACTER} {error_map.NAN_LEGEND}")
    one = "" if steps == (1, 1) else f"; one character is {steps[0]} x {steps[1]} elements, the worst of them"
    lined = "lines: tile borders" if down or across else "no tile borders"
    lined += f"; the first column shown is {left}" if left else ""
    lines += textwrap.wrap(",  ".join(legend), _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    lines.append(f"  {'':>5} {lined}{one}")
    return lines


def _diagnosis(verdict):
    if verdict.diagnosis is None:
        return []
    lines = wrap(verdict.diagnosis.sentence, "Diagnosis: ")
    return lines + [f"    {line}" for line in verdict.excerpt.split("\n") if verdict.excerpt]


def _cases(verdict):
    lines = []
    for case in verdict.cases:
        errors = [summary.number(value) for value in (case.max_error, case.tolerance)]
        error = "" if case.max_error is None else f"  error {errors[0]}, allowed {errors[1]}"
        said = summary.note(verdict, case)
        note = f"  {said}" if said else ""
        lines.append(f"  {'✔' if case.passed else '✘'} {case.name} ({case.shape}){error}{note}")
    return lines


def _traffic(verdict):
    rows = summary.traffic(verdict)
    lines = [f"  {row.value:>12,}  {row.what}{f' ({row.against})' if row.against else ''}" for row in rows]
    if verdict.bound and rows:
        moved, fewest = summary.moved_bytes(verdict), verdict.bound["bytes"]
        lines += wrap(
            f"{moved:,} bytes moved, {moved / max(fewest, 1):.2f} times the bound: no kernel can do with fewer than "
            f"{fewest:,} ({verdict.bound['why']})."
        )
    return lines
