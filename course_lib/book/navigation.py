"""A line of links for each notebook: the lecture before and after, its exercises, its solutions, the front page.

Made from chapters/plan.csv and the chapters' texts. The links are relative: they work in JupyterLab, on a code host
and, by way of `on_the_site`, on the site.

May import: outline.
"""

import re
from dataclasses import dataclass

from .outline import chapter_files, exercises_name, lecture_name, lecture_titles, plan, solutions_name, split_parts

TAG = "navigation"  # of the cells that hold such a line
FRONT_PAGE = "[Front page](../README.md)"


@dataclass(frozen=True)
class Stop:
    number: str  # of the chapter
    title: str  # "06 FlashAttention-1"; where a chapter has several lectures, "09a Split the keys"
    stem: str | None  # None of a chapter that is not written

    def __str__(self):
        return f"[{self.title}](../{lecture_name(self.stem)})" if self.stem else f"{self.title} (planned)"


def stops(root):
    """The lectures of the course in order, and one stop for each chapter that is only planned."""
    planned = {row["number"]: f"{row['number']} {row['title']}" for row in plan(root)}
    written = []
    for path in chapter_files(root):
        number = path.name[:2]
        titles = lecture_titles(path.stem, split_parts(path.read_text(encoding="utf-8"))[1])
        for stem, title in titles.items():
            written.append(Stop(number, planned.get(number, title) if len(titles) == 1 else _short(title), stem))
    numbers = {stop.number for stop in written}
    rest = [Stop(number, title, None) for number, title in planned.items() if number not in numbers]
    return sorted(written + rest, key=lambda stop: stop.number)


def _short(title):
    """ "09a Split the keys" of the title "09a Flash-Decoding: split the keys"."""
    label, _, words = title.partition(" ")
    words = words.partition(": ")[2] or words
    return f"{label} {words[0].upper()}{words[1:]}"


def lines(number, has_exercises, stops):
    """Name -> line of links, of every notebook of the chapter `number`."""
    mine = [place for place, stop in enumerate(stops) if stop.number == number]
    exercises = f"[Exercises](../{exercises_name(number)})" if has_exercises else None
    found = {}
    for place in mine:
        before, after = _around(stops, place, place, "Previous", "Next")
        onward = (exercises, after) if place == mine[-1] else (after, exercises)  # exercises follow the last lecture
        found[lecture_name(stops[place].stem)] = _line(before, *onward)
    if exercises:
        before, after = _around(stops, mine[0], mine[-1], "Previous lecture", "Next lecture")
        lecture = f"Lecture{'s' * (len(mine) > 1)}: {', '.join(str(stops[place]) for place in mine)}"
        found[exercises_name(number)] = _line(before, lecture, after, f"[Solutions](../{solutions_name(number)})")
        found[solutions_name(number)] = _line(before, lecture, after, exercises)
    return found


def on_the_site(line):
    """A line of links as the site has it: its front page is index.md, and it shows no solutions."""
    return re.sub(r" · \[Solutions\]\([^)]*\)", "", line).replace("../README.md", "../index.md")


def _around(stops, first, last, *names):
    """The stops before the place `first` and after `last`, each with its name; None at an end of the course."""
    around = (stops[first - 1] if first else None, stops[last + 1] if last + 1 < len(stops) else None)
    return [stop and f"{name}: {stop}" for name, stop in zip(names, around, strict=True)]


def _line(*parts):
    return " · ".join(part for part in (*parts, FRONT_PAGE) if part)
