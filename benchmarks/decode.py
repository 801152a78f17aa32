"""Time decoding over pages beside FlashInfer, cuDNN, SDPA on dense keys and values, and beside reading alone.

    python3 -m benchmarks.decode --out benchmarks/results/h200/decode.csv
    python3 -m benchmarks.decode --dry      tiny sizes on a CPU, to try the script

Eight loads, bfloat16, head_dim 128, pages of 16 and 64 tokens in random order. All variants of one load are timed in
turns, L2 flushed before each run, from CUDA graphs, so that no host time is counted. `read_only` reads as many bytes,
contiguous: the ceiling of the card. Every variant is checked against float64 before it is timed, quantised pools
against their restored values. Peers are timed where they are installed (harness/decode_peers.py); the note of a
missing one says so.
"""

import sys
from functools import partial
from types import SimpleNamespace

import torch

from benchmarks.harness import Benchmark, Variants, in_languages, launched, main, ratio_to_best
from benchmarks.harness.about import package
from benchmarks.harness.decode_peers import PEERS
from benchmarks.pages import (
    HEAD_DIM,
    SIZES,
    dense,
    dense_reference,
    error_of,
    paged_inputs,
    read_only,
    sizes_of,
    tolerance,
)
from course_lib.ops import paged, paged_quantised
from course_lib.reference import paged as reference
from course_lib.reference import quantised_kv

LOADS = (  # batch_size, num_heads, num_kv_heads, seq_len
    (1, 32, 8, 4096), (1, 32, 8, 32768), (8, 32, 8, 4096), (32, 32, 8, 4096), (8, 32, 8, 32768), (64, 32, 8, 8192),
    (16, 32, 32, 4096), (128, 32, 8, 1024),
)  # fmt: skip
PAGE_SIZES = (16, 64)
ONE_QUERY_HEAD = "02_paged_v1"  # its Triton twin is a lesson, not a contender
READ_ONLY = ("read_only", "cuda", "bfloat16")


def loads(dry):
    sizes, page_sizes = (((2, 8, 2, 70),), (16,)) if dry else (LOADS, PAGE_SIZES)
    return [
        dict(zip(SIZES, size, strict=True)) | {"page_size": page_size} for size in sizes for page_size in page_sizes
    ]


def ours():
    """[(variant, language)] of the course's kernels on pools of the dtype of q."""
    names = in_languages("paged", paged.DECODE_VARIANTS)
    return [name for name in names if name != (ONE_QUERY_HEAD, "triton")]


def planned(inputs, variant, language):
    """The launch of one of the course's variants."""
    tensors = (inputs.q, inputs.k_pages, inputs.v_pages, inputs.block_table, inputs.seq_lens)
    return paged.plan(*tensors, variant=variant, language=language)


def quantised(inputs, dtype):
    """The launch over pools of one byte, and ((k, scales), (v, scales))."""
    small = [quantised_kv.quantise(pages, dtype, per="head") for pages in (inputs.k_pages, inputs.v_pages)]
    (k, k_scales), (v, v_scales) = small
    launch = paged_quantised.plan(inputs.q, k, v, k_scales, v_scales, inputs.block_table, inputs.seq_lens)
    return launch, small


def wanted(inputs, pools=None):
    """Attention of the last sequence in float64."""
    k, v = pools or (inputs.k_pages, inputs.v_pages)
    last = (inputs.q[-1:], k, v, inputs.block_table[-1:], inputs.seq_lens[-1:])
    return reference.paged_attention_lse(*last)[0]


def wanted_quantised(inputs, small):
    """The same over the restored values of quantised pools; only the pages of the last sequence are restored."""
    pages = inputs.block_table[-1].long()
    restored = [quantised_kv.restored(x[pages], scales[pages]) for x, scales in small]
    table = torch.arange(len(pages), device=pages.device).int()[None]
    return wanted(SimpleNamespace(**vars(inputs) | {"block_table": table}), restored)


def rows_of(load, options):
    """The rows of one load."""
    inputs = paged_inputs(sizes_of(load), load["page_size"], options.device)
    variants, limit, want = Variants(options, graphs=True), tolerance(options), wanted(inputs)

    def add(variant, language, prepare, want=want, dtype="bfloat16", optional=False):
        columns = {"variant": variant, "language": language, "dtype": dtype}
        variants.add(columns, prepare, partial(error_of, want=want), limit, optional=optional)

    for variant, language in ours():
        add(f"paged/{variant}", language, lambda name=(variant, language): launched(planned(inputs, *name)))
    for dtype in (torch.int8, torch.float8_e4m3fn):
        launch, small = quantised(inputs, dtype)
        right, name = wanted_quantised(inputs, small), str(dtype).removeprefix("torch.")
        add("paged/06_quantised_kv", "cuda", partial(launched, launch), right, name)
    if not options.dry:
        for peer, make in PEERS.items():
            add(peer, "cuda", lambda make=make: _as_outputs(make(inputs)), optional=True)
        add("sdpa_dense", "torch", lambda: dense(inputs), dense_reference(inputs), optional=True)
        variants.add(dict(zip(("variant", "language", "dtype"), READ_ONLY, strict=True)), lambda: read_only(inputs))
    full = 2 * sum(inputs.lengths) * load["num_kv_heads"] * HEAD_DIM * 2
    for row in variants.timed(load, partial(speed, full)):
        yield row | {"kv_megabytes": f"{num_bytes(full, row['dtype']) / 1e6:.1f}"}


def _as_outputs(call):
    return lambda: (call(),)


def num_bytes(full, dtype):
    """Bytes of keys and values, of which bfloat16 takes `full`."""
    return full if dtype == "bfloat16" else full // 2


def speed(full, row, median_ms, times):
    """Columns of a timed row: the rate, and how it compares with reading alone and with the fastest peer."""
    rate, ceiling = num_bytes(full, row["dtype"]) / median_ms, full / times[READ_ONLY].median_ms
    return {
        "gbps": f"{rate / 1e6:.0f}",
        "percent_of_ceiling": f"{100 * rate / ceiling:.1f}",
        "ratio_to_fastest_peer": ratio_to_best(PEERS, median_ms, times),
    }


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, graphs, in turns, L2 flushed",
    keys=("variant", "language", *SIZES, "page_size", "dtype"),
    values=(
        "kv_megabytes", "median_us", "low_us", "high_us", "gbps", "percent_of_ceiling", "ratio_to_fastest_peer",
        "max_error", "note",
    ),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "percent_of_ceiling", "ratio_to_fastest_peer"),
    quick={"page_size": (16,), "batch_size": (1, 8, 64)},
    head=lambda: [", ".join(f"{name} {package(name) or 'absent'}" for name in ("flashinfer", "cudnn"))],
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
