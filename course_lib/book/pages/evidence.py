"""What the course can show for itself, from benchmarks/results: the judge, the machine's counters, and waiting times.

Numbers come from files only; where a file is missing, its table is empty.

May import: measure, overview, speed.
"""

import csv
import statistics
from collections import Counter
from pathlib import Path

from ...measure import read_results
from .overview import markdown_table
from .speed import device_words

KILLS = ("cpu", "kills")  # device folder and family: one row an exercise, written by the kill-table test


def kills_table(root):
    """How many known-wrong answers the grader refuses, and how many right ones with it; one row an exercise."""
    path = Path(root) / "benchmarks" / "results" / KILLS[0] / f"{KILLS[1]}.csv"
    if not path.is_file():
        return ""
    rows, (killed, wrong, alarms, right) = kill_counts(path)
    table = markdown_table(
        ("Exercise", "Wrong answers refused", "Right answers refused"),
        [
            (row["exercise"], f"{row['killed']} of {row['wrong']}", f"{row['false_alarms']} of {row['right']}")
            for row in rows
        ],
    )
    return (
        f"killed {killed}/{wrong}, false alarms {alarms}/{right}: every exercise ships wrong answers that must fail "
        f"with their own diagnosis, and right ones written differently that must pass.{_on_cards(root)}{_seeds(root)}"
        f"\n\n{table}"
    )


def kill_counts(path):
    """Rows of a kills.csv, and (killed, wrong, false alarms, right) in all."""
    with path.open(newline="", encoding="utf-8") as file:  # an id like 03.10 is text, so read_results will not do
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return rows, [sum(int(row[name]) for row in rows) for name in ("killed", "wrong", "false_alarms", "right")]


def _on_cards(root):
    """One sentence on the same answers on GPUs; empty without files."""
    paths = sorted((Path(root) / "benchmarks" / "results").glob("*/kills.csv"))
    counts = [
        "killed {}/{}, false alarms {}/{} on {}".format(*kill_counts(path)[1], device_words(path.parent.name))
        for path in paths
        if path.parent.name != KILLS[0]
    ]
    return f" With a GPU: {', '.join(counts)}." if counts else ""


def _seeds(root):
    """One sentence on how often the tolerance rule refused a right answer over many seeds; empty without files."""
    totals = []
    for path in sorted((Path(root) / "benchmarks" / "results").glob("*/false_alarms.csv")):
        rows = read_results(path.parent.name, path.stem, root=path.parents[1]).rows
        refused, runs = (sum(row[column] for row in rows) for column in ("false_alarms", "runs"))
        totals.append(f"{refused} of {runs:,} on {device_words(path.parent.name)}")
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
            f"{sum(equal)} of {len(rows)} readings of Nsight Compute on {device_words(path.parent.name)} ({cases} "
            "launches) are exactly what the machine counts from the source. The others, by reason:\n\n"
            + markdown_table(("Readings", "What the compiler did"), [(n, why) for why, n in reasons.most_common()])
        )
    return "\n\n".join(parts)


def mutants_table(root):
    """What finds small mistakes in the kernels, a row a kind; then each mistake that nothing finds, and why."""
    path = Path(root) / "benchmarks" / "results" / "cpu" / "mutants.csv"
    if not path.is_file():
        return ""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(line for line in file if not line.startswith("#"))]
    outcomes = ("finding", "values", "nothing")
    rows = [row for row in rows if row["found_by"] in outcomes]
    found = {kind: Counter() for kind in sorted({row["kind"] for row in rows})}
    for row in rows:
        found[row["kind"]][row["found_by"]] += 1
    table = markdown_table(
        ("Mistake", "Mutants", "Found by a finding", "By wrong values", "By nothing"),
        [(kind, count.total(), *(count[one] for one in outcomes)) for kind, count in found.items()],
    )
    survivors = [row for row in rows if row["found_by"] == "nothing"]
    places = [(f"{row['file'] or row['step']}, {row['line']}", row["mutation"], row["why"]) for row in survivors]
    remaining = markdown_table(("Where", "Mistake that nothing finds", "Why"), places)
    return f"{table}\n\n{remaining}" if survivors else table


def engines_table(root):
    """What one launch of the same work takes on each CPU engine, and on Numba's simulator."""
    rows = read_results("cpu", "simt_speed", root=Path(root) / "benchmarks" / "results").rows
    if not rows:
        return ""
    sizes = list(dict.fromkeys((row["num_rows"], row["num_cols"]) for row in rows))
    times = {
        (row["engine"], row["num_rows"], row["num_cols"]): f"{_ms(row['median_ms'])} ms · {row['times_numba']:,.0f}"
        for row in rows
    }
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    lines = [(engine, *(times.get((engine, *size), "") for size in sizes)) for engine in engines]
    table = markdown_table(("rows x columns", *(f"{height} x {width:,}" for height, width in sizes)), lines)
    return (
        f"One launch of a softmax on {rows[0]['cores']} cores ({rows[0]['cpu']}): the time, and how many times as fast "
        f"as Numba's CUDA simulator that is.\n\n{table}"
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
        "From the call to the verdict on 2 cores, for texts that the judge has not seen before.\n\n"
        f"{markdown_table(head, lines)}"
    )


def cohort_figures(root):
    """A made-up class, graded with a judge killed in the middle: a paragraph."""
    rows = read_results("cpu", "cohort", root=Path(root) / "benchmarks" / "results").rows
    if not rows:
        return ""
    row = rows[0]
    same = {"equal": "the same bytes", "DIFFERENT": "other bytes"}
    return (
        f"{row['learners']:,} made-up learners handed in {row['answers']:,} answers in Python: {row['judges']} judges, "
        f"a sandbox for each answer, {row['seconds']:,} s, **{row['answers_an_hour']:,} answers an hour** on a machine "
        f"of {row['cores']} cores whose load was {row['load']}. A judge was killed in the middle: {row['lost']} "
        f"answers were lost, {row['as_expected']:,} got the verdict that they must get. Of {row['escapes']} attempts "
        f"to leave the sandbox {row['held']} were held. After a crash that tore the journal: {same[row['resume']]}; "
        f"with one judge in place of two: {same[row['one_against_two']]}; on a Dask cluster that lost a worker: "
        f"{same.get(row['cluster'], 'not tried')}."
    )


def _ms(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
