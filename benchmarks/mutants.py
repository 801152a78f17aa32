"""One small mistake after the other in every kernel of the course: what finds it.

    python -m benchmarks.mutants                          prints a line for each mutant of every step
    python -m benchmarks.mutants decode softmax/02_online     for some families or steps
    python -m benchmarks.mutants decode --write           replaces their rows in results/cpu/mutants.csv

A mistake in a header of kernels_cu/common is tried with every step that includes it until one finds it, and
counts once.
`course mutate` does the same for one file. No GPU.
"""

import argparse
import sys

from benchmarks import RESULTS
from benchmarks.harness.rows import read, stored
from course_lib.cli import mutant_runs, mutate
from course_lib.cuda import source
from course_lib.cuda.steps import steps

PATH = RESULTS / "cpu" / "mutants.csv"
HEAD = "small mistakes in every kernel, on its examples in four schedules; python -m benchmarks.mutants --write"
COLUMNS = ("step", "file", "line", "kind", "mutation", "found_by", "detail", "why")
# (file or step, words of the mutation): why nothing has to find it
WHY = {
    ("decode/03_fused_combine", "`__ldcg("): "says which cache to read from; the fence orders the read",
    ("common/decode_merge.cuh", "`__ldcg("): "says which cache to read from; the fence orders the read",
    ("softmax/01_three_pass", "`reduce_smem[0]`"): "softmax is the same for every shift near the maximum",
    ("softmax/04_log_sum_exp", "`reduce_smem[0]`"): "log-sum-exp is the same for every shift near the maximum",
    ("flash_attention_3/01_wgmma", "`__syncthreads()`"): "one warpgroup: each warp has waited for the whole product",
    ("flash_attention_3/01_wgmma", "`cp_async_wait_all()`"): "nothing reads Q then; no copy outlives its block",
    ("flash_attention_3/02_tma_ring", "`__syncthreads()`"): "one warpgroup: each warp has waited for the whole product",
    (
        "flash_attention_3/07_persistent",
        "`named_barrier_sync(TILE_BARRIER",
    ): "for speed: consumers begin a tile in step",
    ("flash_attention_3_backward/01_keys_as_rows", "`__syncwarp()`"): "bar.arrive takes converged warps; not modelled",
    ("flash_attention_3_backward/01_keys_as_rows", "`wgmma_wait"): "frees registers of P, which no array here shares",
    ("common/attention_wgmma_backward.cuh", "`wgmma_fence()`"): "its caller has fenced since it touched the registers",
}


# a better one replaces a worse one, where a header is mutated with several steps
RANK = {name: rank for rank, name in enumerate(("finding", "values", "nothing", "does not compile", "not run"))}


def place(row):
    return row["file"], row["line"], row["mutation"]


def rows_of(stem, found):
    """Yield a dict for each mutant of a step; found: places of headers that need no more runs."""
    subject = mutate.subject_of(source.KERNELS_ROOT / f"{stem}.cu")
    for row in mutant_runs.rows(subject, headers=True, without=found):
        yield {"step": stem} | vars(row)


def why(row):
    """The reason for a survivor, or ""."""
    reasons = [
        text
        for (place, words), text in WHY.items()
        if place == (row["file"] or row["step"]) and words in row["mutation"]
    ]
    return reasons[0] if reasons and row["found_by"] == mutant_runs.NOTHING else ""


def best(rows):
    """The rows with one for each place of a header, that of the step that says most."""
    kept = {}
    for row in rows:
        key = place(row) if row["file"] else (row["step"], *place(row), len(kept))
        if key not in kept or RANK[row["found_by"]] < RANK[kept[key]["found_by"]]:
            kept[key] = row
    return list(kept.values())


def write(rows, chosen):
    """Store rows; those of other steps stay."""
    kept = [row | {"line": int(row["line"])} for row in read(PATH) if row["step"] not in chosen]
    with stored(PATH, [HEAD], COLUMNS) as add:
        for row in sorted(best(kept + rows), key=lambda row: (row["step"], row["file"], row["line"])):
            add(row | {"why": why(row)})


def main():
    """Run, print, store when asked to; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", help="families or steps; all without")
    parser.add_argument("--write", action="store_true", help="store the rows")
    options = parser.parse_args()
    chosen = [one.stem for one in steps() if not options.steps or one.stem.startswith(tuple(options.steps))]
    rows, found = [], set()
    for stem in chosen:
        for row in rows_of(stem, found):
            rows.append(row)
            if row["file"] and row["found_by"] in (mutant_runs.FINDING, mutant_runs.VALUES):
                found.add(place(row))
            shown = mutant_runs.Row(**{name: row[name] for name in COLUMNS[1:-1]})
            print(f"{stem} {mutate.line_of(shown)}", flush=True)
    if options.write:
        write(rows, chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
