"""Time decoding over pages of 1 to 256 tokens, in both layouts, in random and in running order.

    python3 -m benchmarks.page_sizes --out benchmarks/results/h200/page_sizes.csv --commit …
    python3 -m benchmarks.page_sizes --dry --out /tmp/dry.csv      tiny sizes on a CPU, to try the script

One load, 32 sequences of 4,096 tokens, 32 query heads on 8 heads of 128 numbers in bfloat16: 537 MB of keys and values
in every page size, so what differs is the table and the order. 03_paged_v2, 04_paged_grouped in CUDA and in Triton, and
`read_only`, which reads as many bytes from one end to the other. All variants of one page size are timed in turns, L2
flushed before each run, from CUDA graphs; every one is checked against float64 before it is timed.
"""

import csv
import sys
from types import SimpleNamespace

import torch

from benchmarks.decode import TOLERANCE, case, error_of, graphed, parsed, read_only
from benchmarks.harness.about import COLUMNS as ABOUT
from benchmarks.harness.about import versions
from benchmarks.harness.turns import timed_in_turns
from course_lib.ops import paged
from course_lib.reference import paged as reference

LOAD = (32, 32, 8, 4096)  # batch_size, num_heads, num_kv_heads, seq_len
PAGE_SIZES = (1, 4, 16, 64, 256)
OURS = (
    ("paged/03_paged_v2", "cuda", "NHD", "random"),
    ("paged/04_paged_grouped", "cuda", "NHD", "random"),
    ("paged/04_paged_grouped", "cuda", "HND", "random"),
    ("paged/04_paged_grouped", "cuda", "NHD", "running"),
    ("paged/04_paged_grouped", "triton", "NHD", "random"),
)
READ_ONLY = ("read_only", "cuda", "", "")
COLUMNS = [
    "variant", "language", "layout", "order", "batch_size", "num_heads", "num_kv_heads", "seq_len", "page_size",
    "kv_megabytes", "median_us", "low_us", "high_us", "gbps", "percent_of_ceiling", "max_error", *ABOUT,
]  # fmt: skip


def arranged(load, layout, order):
    """The same load in another layout of its pages, or with its pages one behind the other."""
    table, pools = load.block_table, load.pools
    if order == "running":
        table = torch.arange(table.numel(), device=table.device, dtype=torch.int32).view_as(table)
    if layout == "HND":
        pools = pools.transpose(2, 3).contiguous()
    return SimpleNamespace(**vars(load) | {"block_table": table, "k_pages": pools[0], "v_pages": pools[1]})


def checked(load, variant, language, layout):
    """(the launch, its largest error against float64 in the last sequence)."""
    inputs = (load.q, load.k_pages, load.v_pages, load.block_table, load.seq_lens)
    launch = paged.plan(*inputs, variant=variant, layout=layout, language=language)
    launch.run()
    last = (load.q[-1:], load.k_pages, load.v_pages, load.block_table[-1:], load.seq_lens[-1:])
    return launch, error_of(launch.outputs[0], reference.paged_attention_lse(*last, layout=layout)[0])


def rows_of(page_size, options):
    """The rows of one page size; SystemExit when a kernel is wrong."""
    load = case((2, 8, 2, 70) if options.dry else LOAD, page_size, options.device)
    calls, errors = {}, {}
    for name in OURS:
        variant, language, layout, order = name
        launch, errors[name] = checked(arranged(load, layout, order), variant[6:], language, layout)
        if errors[name] > TOLERANCE * (10 if options.dry else 1):
            raise SystemExit(f"{name}, pages of {page_size}: wrong by {errors[name]:.1e}; nothing was stored.")
        calls[name] = graphed(launch.run, not options.dry)
    if not options.dry:
        calls[READ_ONLY] = graphed(read_only(load), True)
    times = {} if options.dry else timed_in_turns(calls, options.runs)
    sizes = dict(zip(("batch_size", "num_heads", "num_kv_heads", "seq_len"), LOAD, strict=True))
    num_bytes = load.pools.numel() * load.pools.element_size()
    for name in calls:
        row = dict(zip(("variant", "language", "layout", "order"), name, strict=True)) | sizes
        row |= {"page_size": page_size, "kv_megabytes": f"{num_bytes / 1e6:.1f}"}
        row["max_error"] = f"{errors[name]:.1e}" if name in errors else ""
        if name in times:
            median, low, high = times[name]
            row |= {"median_us": f"{median * 1e3:.1f}", "low_us": f"{low * 1e3:.1f}", "high_us": f"{high * 1e3:.1f}"}
            row["gbps"] = f"{num_bytes / median / 1e6:.0f}"
            row["percent_of_ceiling"] = f"{100 * times[READ_ONLY][0] / median:.1f}"
        yield row


def main():
    """Check and time everything, write the CSV."""
    options = parsed(__doc__, runs=25)
    torch.manual_seed(0)
    about = versions(options.commit, on_gpu=not options.dry)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events, graphs, in turns, L2 flushed; python3 -m benchmarks.page_sizes\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for page_size in (1, 16) if options.dry else PAGE_SIZES:
            for row in rows_of(page_size, options):
                writer.writerow(row | about)
                name = f"{row['variant']:<24} {row['language']:<6} {row['layout']:<3} {row['order']:<7}"
                print(
                    f"page {page_size:<3} {name} {row.get('median_us', ''):>7} us {row.get('percent_of_ceiling', '')}"
                )
            file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
