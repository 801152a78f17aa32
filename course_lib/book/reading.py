"""How long a lecture is: words, lines of code, and minutes by one rule; and the line in it that says so.

The rule: WORDS_A_MINUTE of the text, answers that are folded included, and SECONDS_A_LINE for each line of code that is
not empty, in cells and in listings. Minutes are rounded to five.

A line ``@time`` of a lecture becomes its **Time**, with the minutes of the chapter's exercises from their task.md;
``@time 07.1 07.2`` names those that build on this lecture of several, and ``@time none`` says that none does. More text
may follow on the line.

May import: grading.exercise (documents only).
"""

import re
from dataclasses import dataclass, replace

from ..grading.exercise import registry

WORDS_A_MINUTE, SECONDS_A_LINE = 200, 10
_LISTING = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_NOT_READ = re.compile(r"</?[a-z]+[^<>\n]*>|\]\([^)]*\)")  # tags, and where links lead
_TIME = re.compile(r"^@time( none|(?: \d\d\.\d+)*)(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Extent:
    words: int
    code_lines: int

    @property
    def exact_minutes(self):
        return self.words / WORDS_A_MINUTE + self.code_lines * SECONDS_A_LINE / 60

    @property
    def minutes(self):
        return max(5, 5 * round(self.exact_minutes / 5))


def extent(cells):
    """The Extent of a lecture's cells."""
    text = "\n\n".join(cell.source for cell in cells if cell.kind == "markdown")
    code = [match[2] for match in _LISTING.finditer(text)] + [cell.source for cell in cells if cell.kind == "code"]
    prose = _NOT_READ.sub(" ", _LISTING.sub("", text))
    words = sum(any(letter.isalnum() for letter in word) for word in prose.split())
    return Extent(words, sum(bool(line.strip()) for block in code for line in block.splitlines()))


def with_time(cells, number, root):
    """The cells of a lecture of chapter `number`, with the line ``@time`` filled in."""
    if not any(cell.kind == "markdown" and _TIME.search(cell.source) for cell in cells):
        return cells
    tasks = {name: task for name, task in registry.documents(root).items() if name.startswith(f"{number}.")}
    minutes = extent(cells).minutes

    def filled(match):
        named = match[1].split()
        if named == ["none"]:
            return sentence(minutes, [], []) + match[2]
        return sentence(minutes, [tasks[name] for name in named or tasks], named) + match[2]

    return [replace(cell, source=_TIME.sub(filled, cell.source)) if cell.kind == "markdown" else cell for cell in cells]


def sentence(minutes, tasks, named):
    """ "**Time** about 45 minutes here, 95 minutes for the 4 exercises."; `named` are ids to name, if not all."""
    here = f"**Time** about {duration(minutes)} here"
    if not tasks:
        return f"{here}."
    own = duration(sum(task.minutes for task in tasks))
    several = len(tasks) > 1
    if named:
        which = f"exercises {listed(named)}, which build" if several else f"exercise {named[0]}, which builds"
        return f"{here}, {own} for {which} on this lecture."
    return f"{here}, {own} for the {f'{len(tasks)} exercises' if several else 'exercise'}."


def listed(ids):
    """ "07.1 to 07.4" of neighbours, "10.1, 10.2 and 10.6" of others."""
    places = [int(name.partition(".")[2]) for name in ids]
    if len(ids) > 2 and places == list(range(places[0], places[0] + len(ids))):
        return f"{ids[0]} to {ids[-1]}"
    return " and ".join(filter(None, (", ".join(ids[:-1]), ids[-1])))


def duration(minutes):
    """ "95 minutes", and from two hours on "2.5 hours"."""
    return f"{minutes} minutes" if minutes < 120 else f"{round(minutes / 30) / 2:g} hours"
