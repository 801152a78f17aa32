"""The generated tables of README.md: chapters, and what is stored in benchmarks/results.

    python -m course_lib.build.readme        rewrites the text between the markers

A table stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``. Numbers come from files only; where a file is
not there, its table is empty and takes its heading with it.

May import: errors, measure, chapters, keep.
"""

import csv
import re
import sys
from pathlib import Path

from ..errors import CourseError
from ..measure import read_results
from .chapters import ROOT, chapter_files, read_chapter
from .keep import write_atomic

KILLS = ("cpu", "kills")  # device folder and family: one row an exercise, written by the kill-table test


def chapters_table(root):
    """One row a chapter, in order, with links to its notebooks."""
    rows = []
    for path in chapter_files(root):
        chapter = read_chapter(path, root)
        exercises = sum(cell.exercise is not None for cell in chapter.cells)
        links = f"[read](notebooks/{chapter.stem}.ipynb)"
        if exercises:
            links += f" · [{exercises} exercises](exercises/{chapter.stem}.ipynb)"
        number, _, title = chapter.title.partition(" ")
        rows.append((number, title, links))
    return markdown_table(("", "Chapter", ""), rows)


def kills_table(root):
    """How many known-wrong answers the grader refuses, and how many right ones with it; one row an exercise."""
    path = Path(root) / "benchmarks" / "results" / KILLS[0] / f"{KILLS[1]}.csv"
    if not path.is_file():
        return ""
    with path.open(newline="", encoding="utf-8") as file:  # an id like 03.10 is text, so read_results will not do
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    killed, wrong, alarms, right = (
        sum(int(row[column]) for row in rows) for column in ("killed", "wrong", "false_alarms", "right")
    )
    table = markdown_table(
        ("Exercise", "Wrong answers refused", "Right answers refused"),
        [
            (row["exercise"], f"{row['killed']} of {row['wrong']}", f"{row['false_alarms']} of {row['right']}")
            for row in rows
        ],
    )
    return (
        "### Does the grader notice?\n\n"
        f"killed {killed}/{wrong}, false alarms {alarms}/{right}: every exercise ships wrong answers that must fail "
        f"with their own diagnosis, and right ones written differently that must pass.\n\n{table}"
    )


def speed_table(root):
    """Times of the course's kernels on each device that has rows, beside the library's where the row has it."""
    parts = []
    folder = Path(root) / "benchmarks" / "results"
    for path in sorted(folder.glob("*/*.csv")):
        device, family = path.parent.name, path.stem
        results = read_results(device, family, root=folder)
        if (device, family) == KILLS or not results or "milliseconds" not in results.rows[0]:
            continue
        columns = [name for name in results.rows[0] if name in SPEED_COLUMNS]
        rows = [tuple(_shown(row[name]) for name in columns) for row in results.rows]
        parts.append(
            f"**{family}** on {device.upper()}\n\n" + markdown_table([SPEED_COLUMNS[c] for c in columns], rows)
        )
    return "### How fast?\n\n" + "\n\n".join(parts) if parts else ""


SPEED_COLUMNS = {
    "kernel": "Kernel",
    "step": "Step",
    "engine": "Engine",
    "shape": "Shape",
    "dtype": "dtype",
    "milliseconds": "ms",
    "gbps": "GB/s",
    "tflops": "TFLOP/s",
    "library_ratio": "against the library",
}

TABLES = {"chapters": chapters_table, "kills": kills_table, "speed": speed_table}


def _shown(value):
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def markdown_table(head, rows):
    """A Markdown table; `head` and every row have the same length."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def refreshed(text, root=ROOT):
    """`text` with every generated table as the files of `root` give it.

    Raises
    ------
    CourseError  a table without its pair of markers
    """
    for name, make in TABLES.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise CourseError(f"README.md: expected one pair of markers '{begin}' … '{end}'")
        body = make(root)
        replacement = f"{begin}\n{body}\n{end}" if body else f"{begin}\n{end}"
        text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, new=replacement: new, text, flags=re.DOTALL)
    return text


def main():
    path = ROOT / "README.md"
    changed = write_atomic(path, refreshed(path.read_text()))
    print("README.md: tables refreshed" if changed else "README.md: tables are fresh")
    return 0


if __name__ == "__main__":
    sys.exit(main())
