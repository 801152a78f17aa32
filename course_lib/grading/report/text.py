"""The verdict for a terminal: the same content, in the same order, as the card of report_html.py.

May import: verdict, reading.
"""

import textwrap
from dataclasses import dataclass

from . import summary as reading
from .summary import number
from .verdict import FAIL, NOT_STARTED, NOT_VERIFIED_HERE, PASS

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
        blocks.append(_wrap(verdict.missing))
    if verdict.state == FAIL:
        blocks += [_smallest(verdict), _map(verdict), _diagnosis(verdict), _traffic(verdict), _cases(verdict)]
    if verdict.state in (FAIL, NOT_STARTED):
        blocks.append(_wrap(verdict.hint, "Hint: " if verdict.state == FAIL else "Next: "))
    if verdict.state == PASS:
        blocks += [_traffic(verdict)]
    blocks.append([line for remark in verdict.remarks for line in _wrap(remark, "Remark: ")])
    if verdict.state == PASS:
        blocks += [_wrap(verdict.explanation), _titled("Your answer and the reference:", verdict.difference)]
    blocks.append(_titled("It printed:", verdict.printed.rstrip()))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def headline(verdict):
    """ "✘ FAIL  03.2 One warp a row · 2 of 9 cases fail · 0.8 s · CPU, SIMT machine" """
    rest = [reading.heading(verdict), reading.count(verdict)]
    if verdict.cases:
        rest += [f"{verdict.seconds:.1f} s", reading.ENGINES.get(verdict.engine, verdict.engine)]
    return f"{reading.SYMBOLS.get(verdict.state, '-')} {verdict.state}  " + " · ".join(part for part in rest if part)


def _wrap(text, lead=""):
    lines = []
    for paragraph in text.split("\n"):
        lines += textwrap.wrap(paragraph, _WIDTH, initial_indent="  " + ("" if lines else lead), subsequent_indent="  ")
    return lines


def _titled(title, text):
    return [f"  {title}"] + [f"    {line}" for line in text.split("\n")] if text else []


def _smallest(verdict):
    case, wrong = reading.smallest_failing(verdict), verdict.first_wrong
    if case is None:
        return []
    lines = [f"  Smallest failing case: {case.name} ({case.shape})"]
    if wrong is not None:
        lines.append(
            f"  First wrong element:   {reading.element(wrong)} = {number(wrong.got)}, "
            f"expected {number(wrong.expected)} ± {number(wrong.tolerance)}"
        )
    return lines


def _map(verdict):
    if not reading.has_map(verdict):
        return []
    levels, steps = reading.coarse(verdict.error_map, _MAP_ROWS, _MAP_COLS)
    width = max(map(len, levels), default=0)
    down = reading.borders(verdict.error_map, 0, steps, len(levels))
    across = reading.borders(verdict.error_map, 1, steps, width)
    characters = [character for _, _, character in reading.LEVELS] + [reading.NAN_CHARACTER]
    rule = "".join(("┼" if col in across else "") + "─" for col in range(width))
    top, left = reading.first_shown(verdict.error_map)
    lines = [*_wrap(reading.map_summary(verdict), "Where it is wrong: "), ""]
    for row, cells in enumerate(levels):
        if row in down:
            lines.append(f"  {'':>5} {rule}")
        text = "".join(("│" if col in across else "") + characters[cell] for col, cell in enumerate(cells))
        lines.append(f"  {top + row * steps[0]:>5} {text}")
    legend = [f"{character} {words}" for _, words, character in reading.LEVELS]
    legend.append(f"{reading.NAN_CHARACTER} {reading.NAN_LEGEND}")
    one = "" if steps == (1, 1) else f"; one character stands for {steps[0]} x {steps[1]} elements, the worst of them"
    lined = "lines: tile borders" if down or across else "no tile borders"
    lined += f"; the first column shown is {left}" if left else ""
    lines += textwrap.wrap(",  ".join(legend), _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    lines.append(f"  {'':>5} {lined}{one}")
    return lines


def _diagnosis(verdict):
    if verdict.diagnosis is None:
        return []
    lines = _wrap(verdict.diagnosis.sentence, "Diagnosis: ")
    return lines + [f"    {line}" for line in verdict.excerpt.split("\n") if verdict.excerpt]


def _cases(verdict):
    lines = []
    for case in verdict.cases:
        error = "" if case.max_error is None else f"  error {number(case.max_error)}, allowed {number(case.tolerance)}"
        said = reading.note(verdict, case)
        note = f"  {said}" if said else ""
        lines.append(f"  {'✔' if case.passed else '✘'} {case.name} ({case.shape}){error}{note}")
    return lines


def _traffic(verdict):
    rows = reading.traffic(verdict)
    lines = [f"  {row.value:>12,}  {row.what}{f' ({row.against})' if row.against else ''}" for row in rows]
    if verdict.bound and rows:
        moved, fewest = reading.moved_bytes(verdict), verdict.bound["bytes"]
        lines += _wrap(
            f"{moved:,} bytes moved, {moved / max(fewest, 1):.2f} times the bound: no kernel can do with fewer than "
            f"{fewest:,} ({verdict.bound['why']})."
        )
    return lines


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
            lines += _wrap(text, f"{index}. ")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self):
        from .html import render_hints

        return render_hints(self)
