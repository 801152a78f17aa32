"""The generated parts of README.md and docs/: tables between markers, and pictures.

    python -m course_lib.book.pages        rewrites what is out of date (`make docs`)

A table is the text between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; the other text of a page is written by
hand. Numbers come from files only; without rows a table is empty.

May import: everything of the course.
"""

import re

from ...errors import CourseError
from ..keep import write_atomic
from ..outline import ROOT
from . import chapter_map, front, ladder
from .claims import claims
from .evidence import cohort_figures, counters_table, engines_table, kills_table, mutants_table, verdicts_table
from .overview import chapters_table, reading_table, short_cuts, support_table
from .promises import promises_table
from .speed import speed_table
from .verdict import verdict_card

# page -> marker -> function of the repository's root
PAGES = {
    "README.md": {"verdict": verdict_card, "chapters": chapters_table, "claims": claims},
    "docs/chapters.md": {"short cuts": short_cuts, "reading": reading_table},
    "docs/classes.md": {"cohort": cohort_figures},
    "docs/grader.md": {"kills": kills_table, "verdicts": verdicts_table},
    "docs/machine.md": {"mutants": mutants_table, "counters": counters_table, "engines": engines_table},
    "docs/promises.md": {"promises": promises_table},
    "docs/results.md": {"speed": speed_table},
    "docs/support.md": {"support": support_table},
}
PICTURES = {
    "docs/front.svg": front.picture,
    "docs/ladder.svg": ladder.picture,
    "docs/chapters.svg": chapter_map.picture,
}


def filled(page, text, root=ROOT, *, without=()):
    """`text` of `page` with its tables as the files of `root` give them, but for the tables named in `without`.

    Raises
    ------
    CourseError  a table without its pair of markers
    """
    for name, make in PAGES[page].items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise CourseError(f"{page}: expected one pair of markers '{begin}' … '{end}'")
        if name in without:
            continue
        body = make(root)
        new = f"{begin}\n{body}\n{end}" if body else f"{begin}\n{end}"
        text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, new=new: new, text, flags=re.DOTALL)
    return text


def between(text, name):
    """The table `name` of a page, without its markers."""
    return text.partition(f"<!-- begin {name} -->")[2].partition(f"<!-- end {name} -->")[0].strip("\n")


def main():
    """Write what changed; returns the exit status."""
    texts = {page: filled(page, (ROOT / page).read_text(encoding="utf-8")) for page in PAGES}
    texts |= {picture: draw(ROOT) for picture, draw in PICTURES.items()}
    written = [name for name, text in texts.items() if write_atomic(ROOT / name, text)]
    print("\n".join(f"{name}: written" for name in written) or f"{len(texts)} pages and pictures are up to date")
    return 0
