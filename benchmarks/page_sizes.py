"""Time decoding over pages of 1 to 256 tokens, in both layouts, in random and in running order.

    python3 -m benchmarks.page_sizes --out benchmarks/results/h200/page_sizes.csv
    python3 -m benchmarks.page_sizes --dry      tiny sizes on a CPU, to try the script

One load, 32 sequences of 4,096 tokens, 32 query heads on 8 heads of 128 numbers in bfloat16: 537 MB of keys and values
in every page size, so that only the table and the order differ. 03_paged_v2, 04_paged_grouped in CUDA and in Triton,
and `read_only`, which reads as many bytes from one end to the other. All variants of one page size are timed in turns,
L2 flushed before each run, from CUDA graphs; every one is checked against float64 before it is timed.
"""

import sys
from functools import partial
from types import SimpleNamespace

import torch

from benchmarks.harness import Benchmark, Variants, launched, main, rate_beside
from benchmarks.pages import SIZES, error_of, paged_inputs, read_only, sizes_of, tolerance
from course_lib.ops import paged
from course_lib.reference import paged as reference

LOAD, DRY_LOAD = (32, 32, 8, 4096), (2, 8, 2, 70)  # batch_size, num_heads, num_kv_heads, seq_len
PAGE_SIZES = (1, 4, 16, 64, 256)
OURS = (
    ("paged/03_paged_v2", "cuda", "NHD", "random"),
    ("paged/04_paged_grouped", "cuda", "NHD", "random"),
    ("paged/04_paged_grouped", "cuda", "HND", "random"),
    ("paged/04_paged_grouped", "cuda", "NHD", "running"),
    ("paged/04_paged_grouped", "triton", "NHD", "random"),
)
READ_ONLY = ("read_only", "cuda", "", "")
NAMES = ("variant", "language", "layout", "order")


def loads(dry):
    size = dict(zip(SIZES, DRY_LOAD if dry else LOAD, strict=True))
    return [size | {"page_size": page_size} for page_size in ((1, 16) if dry else PAGE_SIZES)]


def arranged(inputs, layout, order):
    """The same load in another layout of its pages, or with its pages in running order."""
    table, pools = inputs.block_table, inputs.pools
    if order == "running":
        table = torch.arange(table.numel(), device=table.device, dtype=torch.int32).view_as(table)
    if layout == "HND":
        pools = pools.transpose(2, 3).contiguous()
    return SimpleNamespace(**vars(inputs) | {"block_table": table, "k_pages": pools[0], "v_pages": pools[1]})


def planned(inputs, variant, language, layout):
    """The launch of one variant."""
    tensors = (inputs.q, inputs.k_pages, inputs.v_pages, inputs.block_table, inputs.seq_lens)
    return paged.plan(*tensors, variant=variant.removeprefix("paged/"), layout=layout, language=language)


def wanted(inputs, layout):
    """Attention of the last sequence in float64."""
    last = (inputs.q[-1:], inputs.k_pages, inputs.v_pages, inputs.block_table[-1:], inputs.seq_lens[-1:])
    return reference.paged_attention_lse(*last, layout=layout)[0]


def rows_of(load, options):
    """The rows of one page size."""
    inputs = paged_inputs(sizes_of(load), load["page_size"], options.device)
    variants = Variants(options, graphs=True)
    for name in OURS:
        variant, language, layout, order = name
        own = arranged(inputs, layout, order)
        launch = planned(own, variant, language, layout)
        check = partial(error_of, want=wanted(own, layout))
        variants.add(dict(zip(NAMES, name, strict=True)), partial(launched, launch), check, tolerance(options))
    if not options.dry:
        variants.add(dict(zip(NAMES, READ_ONLY, strict=True)), lambda: read_only(inputs))
    num_bytes = inputs.pools.numel() * inputs.pools.element_size()
    common = load | {"kv_megabytes": f"{num_bytes / 1e6:.1f}"}
    yield from variants.timed(common, rate_beside(READ_ONLY, "percent_of_ceiling", num_bytes))


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, graphs, in turns, L2 flushed",
    keys=(*NAMES, *SIZES, "page_size"),
    values=("kv_megabytes", "median_us", "low_us", "high_us", "gbps", "percent_of_ceiling", "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "percent_of_ceiling"),
    quick={"page_size": (16,)},
    runs=25,
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
