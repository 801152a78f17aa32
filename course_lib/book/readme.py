"""The generated tables of README.md: chapters, and what is stored in benchmarks/results.

    python -m course_lib.book.readme        rewrites the text between the markers

A table stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``. Numbers come from files only; where a file is
not there, its table is empty and takes its heading with it.

May import: errors, measure, chapters, keep, overview, speed.
"""

import csv
import re
import statistics
import sys
from collections import Counter
from pathlib import Path

from ..errors import CourseError
from ..measure import read_results
from .chapters import ROOT
from .keep import write_atomic
from .overview import chapters_table, graph, markdown_table, support_table
from .speed import device_words, speed_table

KILLS = ("cpu", "kills")  # device folder and family: one row an exercise, written by the kill-table test


def kills_table(root):
    """How many known-wrong answers the grader refuses, and how many right ones with it; one row an exercise."""
    path = Path(root) / "benchmarks" / "results" / KILLS[0] / f"{KILLS[1]}.csv"
    if not path.is_file():
        return ""
    rows, (killed, wrong, alarms, right) = _kills(path)
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
        f"with their own diagnosis, and right ones written differently that must pass.{_on_cards(root)}{_seeds(root)}"
        f"\n\n{table}"
    )


def _kills(path):
    """Rows of a kills.csv, and (killed, wrong, false alarms, right) in all."""
    with path.open(newline="", encoding="utf-8") as file:  # an id like 03.10 is text, so read_results will not do
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return rows, [sum(int(row[name]) for row in rows) for name in ("killed", "wrong", "false_alarms", "right")]


def _on_cards(root):
    """One sentence on the same answers on GPUs; empty without files."""
    paths = sorted((Path(root) / "benchmarks" / "results").glob("*/kills.csv"))
    said = [
        "killed {}/{}, false alarms {}/{} on {}".format(*_kills(path)[1], device_words(path))
        for path in paths
        if path.parent.name != KILLS[0]
    ]
    return f" With a GPU: {', '.join(said)}." if said else ""


def _seeds(root):
    """One sentence on how often the tolerance rule refused a right answer over many seeds; empty without files."""
    totals = []
    for path in sorted((Path(root) / "benchmarks" / "results").glob("*/false_alarms.csv")):
        rows = read_results(path.parent.name, path.stem, root=path.parents[1]).rows
        refused, runs = (sum(row[column] for row in rows) for column in ("false_alarms", "runs"))
        totals.append(f"{refused} of {runs:,} on {device_words(path)}")
    if not totals:
        return ""
    return f" Runs of right answers that it refused, with new inputs over many seeds: {', '.join(totals)}."


def counters_table(root):
    """Nsight Compute's readings beside what the SIMT machine counts, on every device that has both; reasons named."""
    parts = []
    folder = Path(root) / "benchmarks" / "results"
    for path in sorted(folder.glob("*/counters.csv")):
        rows = read_results(path.parent.name, "counters", root=folder).rows
        equal = [row["as_written"] == row["measured"] for row in rows]
        cases = len({row["case"] for row in rows})
        reasons = Counter(row["why"] or "not explained" for row, same in zip(rows, equal, strict=True) if not same)
        parts.append(
            f"{sum(equal)} of {len(rows)} readings of Nsight Compute on {device_words(path)} ({cases} launches) are "
            "exactly what the machine counts from the source. The others, by reason:\n\n"
            + markdown_table(("Readings", "What the compiler did"), [(n, why) for why, n in reasons.most_common()])
        )
    return "### Does the machine count right?\n\n" + "\n\n".join(parts) if parts else ""


def engines_table(root):
    """What one launch of the same work takes on each CPU engine, and on Numba's simulator."""
    rows = read_results("cpu", "simt_speed", root=Path(root) / "benchmarks" / "results").rows
    if not rows:
        return ""
    sizes = list(dict.fromkeys((row["num_rows"], row["num_cols"]) for row in rows))
    found = {
        (row["engine"], row["num_rows"], row["num_cols"]): f"{_ms(row['median_ms'])} ms · {row['times_numba']:,.0f}"
        for row in rows
    }
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    lines = [(engine, *(found.get((engine, *size), "") for size in sizes)) for engine in engines]
    table = markdown_table(("rows x columns", *(f"{height} x {width:,}" for height, width in sizes)), lines)
    return (
        f"### How fast is a CPU?\n\nOne launch of a softmax on {rows[0]['cores']} cores ({rows[0]['cpu']}): the time, "
        f"and how many times as fast as Numba's CUDA simulator that is.\n\n{table}"
    )


def verdicts_table(root):
    """How long a check takes, by language of the exercise."""
    rows = read_results("cpu", "verdict_times", root=Path(root) / "benchmarks" / "results").rows
    if not rows:
        return ""
    lines = []
    for language in dict.fromkeys(row["language"] for row in rows):
        chosen = [row for row in rows if row["language"] == language]
        middle = [statistics.median(row[column] for row in chosen) for column in ("pass_s", "fail_median_s")]
        slowest = max(row["fail_slowest_s"] for row in chosen)
        lines.append((language, len(chosen), *(f"{value:.1f} s" for value in (*middle, slowest))))
    head = ("Answers in", "Exercises", "Right answer, median", "Wrong answer, median", "Slowest")
    return (
        "### How long does a check take?\n\nFrom the call to the verdict on 2 cores, for texts that the judge has not "
        f"seen before.\n\n{markdown_table(head, lines)}"
    )


def _ms(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


TABLES = {
    "chapters": chapters_table,
    "graph": graph,
    "support": support_table,
    "kills": kills_table,
    "verdicts": verdicts_table,
    "counters": counters_table,
    "engines": engines_table,
    "speed": speed_table,
}


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
