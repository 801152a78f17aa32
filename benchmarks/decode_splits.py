"""Time dense decoding over the number of splits, and each rung of its ladder as it is launched; chapter 09.

    python3 -m benchmarks.decode_splits --out benchmarks/results/h200/decode_splits.csv
    python3 -m benchmarks.decode_splits --dry      tiny sizes on a CPU, to try the script

sweep = splits   04_grouped_heads over splits x length x batch; `chosen` is 1 for the launcher's own number of splits
sweep = rungs    01 to 04, CUDA and Triton, with the splits that the launcher chooses, and SDPA's flash backend

bfloat16, head_dim 128, 32 query heads on 8 of keys and values, layout bshd. All rows of one load are timed in turns, L2
flushed before each run, from CUDA graphs, so that no host time is counted. `read_only` reads as many bytes,
contiguous: the floor. Everything is checked against float64 before it is timed.
"""

import sys
from functools import partial

import torch

from benchmarks.harness import Benchmark, Variants, in_languages, launched, main, rate_beside
from benchmarks.pages import HEAD_DIM, SIZES, dense, error_of, paged_inputs, read_only, sizes_of, tolerance
from course_lib.ops import decode as ops
from course_lib.reference import decode as reference

HEADS = (32, 8)  # of queries, of keys and values
BATCHES, SEQ_LENS = (1, 4, 16, 64), (1024, 4096, 16384, 65536)
MOST_BYTES = 12e9  # loads with more bytes of keys and values are left out
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
LEAST_LEN = 64  # keys of a split, at least
RUNG_LOADS = ((1, 4096), (1, 32768), (8, 4096), (8, 32768))  # batch_size, seq_len
SWEPT = ("04_grouped_heads", "cuda")
READ_ONLY, PEER = ("read_only", "cuda", ""), ("sdpa_dense", "torch", "")


def loads(dry):
    """Every load; its sweep says which launches are timed on it."""

    def load(sweep, batch_size, seq_len):
        return {"sweep": sweep} | dict(zip(SIZES, (batch_size, *HEADS, seq_len), strict=True))

    if dry:
        return [load("splits", 2, 70), load("rungs", 2, 70)]
    swept = [
        load("splits", batch_size, seq_len)
        for batch_size in BATCHES
        for seq_len in SEQ_LENS
        if num_bytes(batch_size, seq_len) <= MOST_BYTES
    ]
    return [load("rungs", *size) for size in RUNG_LOADS] + swept


def num_bytes(batch_size, seq_len):
    """Bytes of keys and values in bfloat16."""
    return 2 * batch_size * seq_len * HEADS[1] * HEAD_DIM * 2


def planned(inputs, variant, language, num_splits=None):
    """(the launch, its number of splits)."""
    tensors = (inputs.q, inputs.k_pages, inputs.v_pages, inputs.seq_lens)  # a page a sequence: dense, in layout bshd
    launch = ops.plan(*tensors, layout="bshd", variant=variant, language=language, num_splits=num_splits)
    parts = [
        x
        for x in launch.launches[0].arguments
        if isinstance(x, torch.Tensor) and x.ndim == 3 and x.dtype == torch.float32
    ]
    return launch, parts[0].shape[2] if parts else 1  # partial_lse is (batch_size, num_heads, num_splits)


def planned_splits(inputs, least_len=LEAST_LEN):
    """{(variant, language, splits): launch} of the sweep, and the number of splits that the launcher chooses."""
    _, chosen = planned(inputs, *SWEPT)
    counts = {count for count in SPLITS if -(-inputs.lengths[0] // count) >= least_len} | {1, chosen}
    return {(*SWEPT, count): planned(inputs, *SWEPT, count)[0] for count in sorted(counts)}, chosen


def planned_rungs(inputs):
    """{(variant, language, splits): launch} of every rung."""
    found = {}
    for variant, language in in_languages("decode", ops.VARIANTS):
        launch, count = planned(inputs, variant, language)
        found[variant, language, count] = launch
    return found


def rows_of(load, options):
    """The rows of one load."""
    inputs = paged_inputs(sizes_of(load), load["seq_len"], options.device)
    last = (x[-1:] for x in (inputs.q, inputs.k_pages, inputs.v_pages, inputs.seq_lens))
    want = reference.decode_attention_lse(*last, layout="bshd")[0]
    if load["sweep"] == "splits":
        launches, chosen = planned_splits(inputs, 16 if options.dry else LEAST_LEN)
    else:
        launches, chosen = planned_rungs(inputs), None
    variants = Variants(options, graphs=True)

    def add(name, prepare, *check):
        variants.add(dict(zip(("variant", "language", "num_splits"), name, strict=True)), prepare, *check)

    for name, launch in launches.items():
        add(name, partial(launched, launch), partial(error_of, want=want), tolerance(options))
    if not options.dry:
        add(READ_ONLY, lambda: read_only(inputs))
        if load["sweep"] == "rungs":
            add(PEER, lambda: dense(inputs))
    moved = num_bytes(load["batch_size"], load["seq_len"])
    common = load | {"dtype": "bfloat16", "kv_megabytes": f"{moved / 1e6:.1f}"}
    for row in variants.timed(common, rate_beside(READ_ONLY, "percent_of_ceiling", moved)):
        count = row["num_splits"]
        if count:
            row |= {"split_len": -(-load["seq_len"] // count), "chosen": int(chosen in (count, None))}
        yield row


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, graphs, in turns, L2 flushed",
    keys=("sweep", "variant", "language", *SIZES, "dtype", "num_splits", "split_len"),
    values=(
        "chosen", "kv_megabytes", "median_us", "low_us", "high_us", "gbps", "percent_of_ceiling", "max_error", "note",
    ),
    loads=loads,
    rows=rows_of,
    shown=("chosen", "median_us", "percent_of_ceiling"),
    quick={"batch_size": (1, 16), "seq_len": (4096, 16384)},
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
