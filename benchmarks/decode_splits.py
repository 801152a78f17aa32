"""Time dense decoding over the number of splits, and each rung of its ladder as it is launched; chapter 09.

    python3 -m benchmarks.decode_splits --out benchmarks/results/h200/decode_splits.csv --commit …
    python3 -m benchmarks.decode_splits --dry --out /tmp/dry.csv      tiny sizes on a CPU, to try the script

sweep = splits   04_grouped_heads over splits x length x batch; `chosen` is 1 where the launcher would have split so
sweep = rungs    01 to 04, CUDA and Triton, with the splits that the launcher chooses, and SDPA's flash backend

bfloat16, head_dim 128, 32 query heads on 8 of keys and values, layout bshd. All rows of one load are timed in turns, L2
flushed before each run, from CUDA graphs, so that no host time is counted. `read_only` reads as many bytes,
contiguous: the floor. Everything is checked against float64 before it is timed.
"""

import csv
import sys

import torch

from benchmarks.decode import HEAD_DIM, TOLERANCE, case, dense, error_of, graphed, parsed, read_only
from benchmarks.harness.about import COLUMNS as ABOUT
from benchmarks.harness.about import versions
from benchmarks.harness.turns import timed_in_turns
from course_lib.ops import decode as ops
from course_lib.reference import decode as reference

HEADS = (32, 8)  # of queries, of keys and values
BATCHES, SEQ_LENS = (1, 4, 16, 64), (1024, 4096, 16384, 65536)
MOST_BYTES = 12e9  # what has more keys and values is left out
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
LEAST_LEN = 64  # keys of a split, at least
RUNG_LOADS = ((1, 4096), (1, 32768), (8, 4096), (8, 32768))  # batch_size, seq_len
SWEPT = ("04_grouped_heads", "cuda")
COLUMNS = [
    "sweep", "variant", "language", "batch_size", "num_heads", "num_kv_heads", "seq_len", "dtype", "num_splits",
    "split_len", "chosen", "kv_megabytes", "median_us", "low_us", "high_us", "gbps", "percent_of_ceiling", "max_error",
    "note", *ABOUT,
]  # fmt: skip


def planned(load, variant, language, num_splits=None):
    """(the launch, its number of splits)."""
    inputs = (load.q, load.k_pages, load.v_pages, load.seq_lens)  # a page a sequence: dense, in layout bshd
    launch = ops.plan(*inputs, layout="bshd", variant=variant, language=language, num_splits=num_splits)
    first = getattr(launch, "launches", (launch,))[0]
    parts = [x for x in first.arguments if isinstance(x, torch.Tensor) and x.ndim == 3 and x.dtype == torch.float32]
    return launch, parts[0].shape[2] if parts else 1  # partial_lse is (batch_size, num_heads, num_splits)


def planned_splits(load, least_len=LEAST_LEN):
    """{(variant, language, splits): launch} of the sweep, and the number of splits that the launcher chooses."""
    _, chosen = planned(load, *SWEPT)
    seq_len = load.lengths[0]
    counts = {count for count in SPLITS if -(-seq_len // count) >= least_len} | {1, chosen}
    return {(*SWEPT, count): planned(load, *SWEPT, count)[0] for count in sorted(counts)}, chosen


def planned_rungs(load):
    """{(variant, language, splits): launch} of every rung."""
    found = {}
    for variant in ops.VARIANTS:
        for language in ("cuda", "triton"):
            launch, count = planned(load, variant, language)
            found[variant, language, count] = launch
    return found


def calls_of(load, launches, dry):
    """({name: function}, {name: error}, {name: why it is missing}) of launches that are right."""
    calls, errors, missing = {}, {}, {}
    last = (x[-1:] for x in (load.q, load.k_pages, load.v_pages, load.seq_lens))
    want = reference.decode_attention_lse(*last, layout="bshd")[0]
    for name, launch in launches.items():
        launch.outputs[0].fill_(float("nan"))
        launch.run()
        errors[name] = error_of(launch.outputs[0], want)
        if errors[name] <= TOLERANCE * (10 if dry else 1):
            calls[name] = graphed(launch.run, not dry)
        else:
            missing[name] = f"wrong by {errors[name]:.1e}: not timed"
    return calls, errors, missing


def rows_of(sweep, batch_size, seq_len, options):
    """The rows of one load."""
    load = case((batch_size, *HEADS, seq_len), seq_len, options.device)
    if sweep == "splits":
        launches, chosen = planned_splits(load, 16 if options.dry else LEAST_LEN)
    else:
        launches, chosen = planned_rungs(load), None
    calls, errors, missing = calls_of(load, launches, options.dry)
    if not options.dry:
        calls["read_only", "cuda", ""] = graphed(read_only(load), True)
        if sweep == "rungs":
            calls["sdpa_dense", "torch", ""] = graphed(dense(load), True)
    times = {} if options.dry else timed_in_turns(calls, options.runs)
    num_bytes = 2 * batch_size * seq_len * HEADS[1] * HEAD_DIM * 2
    for name in [*calls, *missing]:
        count = name[2]
        row = dict(zip(("variant", "language", "num_splits"), name, strict=True)) | {"sweep": sweep}
        row |= {"batch_size": batch_size, "num_heads": HEADS[0], "num_kv_heads": HEADS[1], "seq_len": seq_len}
        row |= {"dtype": "bfloat16", "kv_megabytes": f"{num_bytes / 1e6:.1f}", "note": missing.get(name, "")}
        if count:
            row |= {"split_len": -(-seq_len // count), "chosen": int(chosen in (count, None))}
            row["max_error"] = f"{errors[name]:.1e}"
        if name in times:
            median, low, high = times[name]
            row |= {"median_us": f"{median * 1e3:.1f}", "low_us": f"{low * 1e3:.1f}", "high_us": f"{high * 1e3:.1f}"}
            row["gbps"] = f"{num_bytes / median / 1e6:.0f}"
            row["percent_of_ceiling"] = f"{100 * times['read_only', 'cuda', ''][0] / median:.1f}"
        yield row


def loads(dry):
    """(sweep, batch_size, seq_len) of everything that is measured."""
    if dry:
        return [("splits", 2, 70), ("rungs", 2, 70)]
    swept = [
        ("splits", batch_size, seq_len)
        for batch_size in BATCHES
        for seq_len in SEQ_LENS
        if 4 * batch_size * seq_len * HEADS[1] * HEAD_DIM <= MOST_BYTES
    ]
    return [("rungs", *load) for load in RUNG_LOADS] + swept


def main():
    """Check and time everything, write the CSV; exit code 1 when a kernel was wrong."""
    options = parsed(__doc__)
    torch.manual_seed(0)
    about = versions(options.commit, on_gpu=not options.dry)
    wrong = 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events, graphs, in turns, L2 flushed; python3 -m benchmarks.decode_splits\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for load in loads(options.dry):
            for row in rows_of(*load, options):
                writer.writerow(row | about)
                wrong += bool(row["note"])
                speed = f"{row.get('median_us', ''):>8} us {row.get('percent_of_ceiling', ''):>6} %"
                name = f"{row['language']:<6} {row['variant']:<17} {row['num_splits']:>4} {row.get('chosen', ''):>2}"
                print(f"{load[0]:<6} {load[1:]} {name} {row['note'] or speed}", flush=True)
            file.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
