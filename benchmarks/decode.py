"""Time decoding over pages beside FlashInfer, cuDNN, SDPA on dense keys and values, and beside reading alone.

    python3 -m benchmarks.decode --out benchmarks/results/h200/decode.csv --commit …
    python3 -m benchmarks.decode --dry --out /tmp/dry.csv      tiny sizes on a CPU, to try the script

Eight loads of the field, bfloat16, head_dim 128, pages of 16 and 64 tokens in random order. All variants of one load
are timed in turns, L2 flushed before each run, from CUDA graphs, so that no host time is counted. `read_only` reads as
many bytes, contiguous: what the card gives. Every variant is checked against float64 before it is timed. Peers are
timed where they are installed (benchmarks/harness/decode_peers.py); a missing one says so in its row.
"""

import argparse
import csv
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from benchmarks import ROOT
from benchmarks.harness.about import COLUMNS as ABOUT
from benchmarks.harness.about import package, versions
from benchmarks.harness.decode_peers import PEERS
from benchmarks.harness.sdpa import BACKENDS, sdpa
from benchmarks.harness.turns import timed_in_turns
from course_lib import cuda
from course_lib.ops import paged, paged_quantised
from course_lib.reference import paged as reference
from course_lib.reference import quantised_kv

HEAD_DIM = 128
LOADS = (  # batch_size, num_heads, num_kv_heads, seq_len
    (1, 32, 8, 4096), (1, 32, 8, 32768), (8, 32, 8, 4096), (32, 32, 8, 4096), (8, 32, 8, 32768), (64, 32, 8, 8192),
    (16, 32, 32, 4096), (128, 32, 8, 1024),
)  # fmt: skip
PAGE_SIZES = (16, 64)
OURS = [("paged/02_paged_v1", "cuda"), ("paged/03_paged_v2", "cuda"), ("paged/04_paged_grouped", "cuda")]
OURS += [("paged/03_paged_v2", "triton"), ("paged/04_paged_grouped", "triton")]
TOLERANCE = 4e-3  # of rows near 0.02 to 0.1 in bfloat16; quantised pools are checked against what they stand for
COLUMNS = [
    "variant", "language", "batch_size", "num_heads", "num_kv_heads", "seq_len", "page_size", "dtype", "kv_megabytes",
    "median_us", "low_us", "high_us", "gbps", "percent_of_ceiling", "ratio_to_fastest_peer", "max_error", "note",
    *ABOUT,
]  # fmt: skip
READ = """
extern "C" __global__ void __launch_bounds__(512) read_only_kernel(const int* x, int* out, long long num_words) {
    const uint4* words = reinterpret_cast<const uint4*>(x);
    const long long step = gridDim.x * 512ll;
    unsigned seen = 0;
    long long i = blockIdx.x * 512ll + threadIdx.x;
    for (; i + 7 * step < num_words; i += 8 * step) {
        uint4 part[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) part[j] = words[i + j * step];
#pragma unroll
        for (int j = 0; j < 8; ++j) seen ^= part[j].x ^ part[j].y ^ part[j].z ^ part[j].w;
    }
    for (; i < num_words; i += step) seen ^= words[i].x ^ words[i].y ^ words[i].z ^ words[i].w;
    if (seen == 0x12345678u) out[0] = 1;
}
"""


def case(size, page_size, device, dtype=torch.bfloat16):
    """One load: a pool with just enough pages, handed out at random."""
    batch_size, num_heads, num_kv_heads, seq_len = size
    num_pages = batch_size * -(-seq_len // page_size)
    pools = torch.randn(2, num_pages, page_size, num_kv_heads, HEAD_DIM, device=device, dtype=dtype)
    return SimpleNamespace(
        q=torch.randn(batch_size, num_heads, HEAD_DIM, device=device, dtype=dtype),
        pools=pools, k_pages=pools[0], v_pages=pools[1], page_size=page_size, lengths=[seq_len] * batch_size,
        block_table=torch.randperm(num_pages, device=device).int().view(batch_size, -1),
        seq_lens=torch.full((batch_size,), seq_len, dtype=torch.int32, device=device),
    )  # fmt: skip


def read_only(load):
    """A function that reads every byte of both pools once."""
    kernel, out = cuda.compile(READ, "read_only_kernel"), torch.zeros(1, dtype=torch.int32, device="cuda")
    words = load.pools.view(-1).view(torch.int32)
    return lambda: kernel((132 * 4,), 512, words, out, words.numel() // 4)


def dense(load):
    """SDPA's flash backend over the same bytes, taken as contiguous keys and values: no table, no pages."""
    shape = (len(load.lengths), load.lengths[0], load.k_pages.shape[2], HEAD_DIM)
    k, v = (pages.view(shape).transpose(1, 2) for pages in (load.k_pages, load.v_pages))
    q, attention = load.q[:, :, None], sdpa(BACKENDS["sdpa_flash"])
    return lambda: attention(q, k, v)[:, :, 0]


def planned(name, load):
    """The launch of one of the course's variants."""
    variant, language = name[0].removeprefix("paged/"), name[1]
    inputs = (load.q, load.k_pages, load.v_pages, load.block_table, load.seq_lens)
    return paged.plan(*inputs, variant=variant, language=language)


def quantised(load, dtype):
    """The launch over pools of one byte, and ((k, scales), (v, scales))."""
    small = [quantised_kv.quantise(pages, dtype, per="head") for pages in (load.k_pages, load.v_pages)]
    (k_small, k_scales), (v_small, v_scales) = small
    launch = paged_quantised.plan(load.q, k_small, v_small, k_scales, v_scales, load.block_table, load.seq_lens)
    return launch, small


def wanted(load, pools=None):
    """Attention of the last sequence in float64."""
    k, v = pools or (load.k_pages, load.v_pages)
    last = (load.q[-1:], k, v, load.block_table[-1:], load.seq_lens[-1:])
    return reference.paged_attention_lse(*last)[0]


def error_of(out, want):
    return float("inf") if not torch.isfinite(out).all() else (out[-1:].double() - want).abs().max().item()


def graphed(call, on_gpu):
    """`call` from a CUDA graph, where there is a GPU."""
    if not on_gpu:
        return call
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()

    def replay():
        graph.replay()

    replay.call = call  # the graph holds no reference to the kernels and tensors that it launches
    return replay


def calls_of(load, dry):
    """({name: function}, {name: error}, {name: why it is missing}, {name: dtype of the pools})."""
    calls, errors, missing, dtypes = {}, {}, {}, {}
    want = wanted(load)

    def add(name, call, output, right=want, dtype="bfloat16"):
        errors[name], dtypes[name] = error_of(output(call()), right), dtype
        if errors[name] <= TOLERANCE * (10 if dry else 1):
            calls[name] = graphed(call, not dry)
        else:
            missing[name] = f"wrong by {errors[name]:.1e}: not timed"

    for name in OURS:
        launch = planned(name, load)
        add(name, launch.run, lambda _, launch=launch: launch.outputs[0])
    for dtype in (torch.int8, torch.float8_e4m3fn):
        launch, small = quantised(load, dtype)
        pages = load.block_table[-1].long()
        right = [quantised_kv.restored(x[pages], s[pages]) for x, s in small]
        own = SimpleNamespace(**vars(load) | {"block_table": torch.arange(len(pages), device=pages.device).int()[None]})
        name = ("paged/06_quantised_kv", "cuda", str(dtype))
        add(name, launch.run, lambda _, launch=launch: launch.outputs[0], wanted(own, right), str(dtype)[6:])
    if dry:
        return calls, errors, missing, dtypes
    for peer, make in PEERS.items():
        try:
            add((peer, "cuda"), make(load), lambda out: out)
        except (RuntimeError, ImportError, ValueError) as error:  # not installed, or it refuses the load
            missing[peer, "cuda"] = f"not run: {str(error).strip().splitlines()[0][:120]}"
    call = dense(load)  # the pages in the order of the pool: another sequence, the same work
    shape = (len(load.lengths), load.lengths[0], load.k_pages.shape[2], HEAD_DIM)
    k, v = (x.view(shape)[-1:].transpose(1, 2).double() for x in (load.k_pages, load.v_pages))
    right = F.scaled_dot_product_attention(load.q[-1:, :, None].double(), k, v, enable_gqa=True)[:, :, 0]
    try:
        add(("sdpa_dense", "torch"), call, lambda out: out, right)
    except RuntimeError as error:
        missing["sdpa_dense", "torch"] = f"not run: {str(error).strip().splitlines()[0][:120]}"
    calls["read_only", "cuda"], dtypes["read_only", "cuda"] = graphed(read_only(load), True), "bfloat16"
    return calls, errors, missing, dtypes


def rows_of(size, page_size, options):
    """The rows of one load."""
    load = case(size, page_size, options.device)
    calls, errors, missing, dtypes = calls_of(load, options.dry)
    times = {} if options.dry else timed_in_turns(calls, options.runs)
    ceiling = times.get(("read_only", "cuda"))
    peers = [times[name, "cuda"][0] for name in PEERS if (name, "cuda") in times]
    full = 2 * sum(load.lengths) * size[2] * HEAD_DIM * 2
    for name in [*calls, *(name for name in missing if name not in calls)]:
        num_bytes = full // (1 if dtypes.get(name, "bfloat16") == "bfloat16" else 2)
        row = dict(zip(("batch_size", "num_heads", "num_kv_heads", "seq_len"), size, strict=True))
        row |= {"variant": name[0], "language": name[1], "page_size": page_size, "note": missing.get(name, "")}
        row |= {"dtype": dtypes.get(name, "bfloat16"), "kv_megabytes": f"{num_bytes / 1e6:.1f}"}
        if name in errors:
            row["max_error"] = f"{errors[name]:.1e}"
        if name in times:
            median, low, high = times[name]
            row |= {"median_us": f"{median * 1e3:.1f}", "low_us": f"{low * 1e3:.1f}", "high_us": f"{high * 1e3:.1f}"}
            row["gbps"] = f"{num_bytes / median / 1e6:.0f}"
            row["percent_of_ceiling"] = f"{100 * ceiling[0] / median * num_bytes / full:.1f}"
            row["ratio_to_fastest_peer"] = f"{min(peers) / median:.3f}" if peers else ""
        yield row


def parsed(doc=__doc__, runs=15):
    """The command line; a dry run may not write where the course keeps its numbers."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--also", help="a folder of installed packages, searched last: where the peers are")
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU; the rows are worth nothing")
    options = parser.parse_args()
    if options.dry and (ROOT / "benchmarks") in options.out.resolve().parents:
        parser.error("a dry run measures nothing: give --out a place outside benchmarks/")
    if not options.dry and not torch.cuda.is_available():
        parser.error("no NVIDIA GPU is visible; --dry tries the script on a CPU")
    sys.path += [options.also] if options.also else []
    options.device = "cpu" if options.dry else "cuda"
    return options


def main():
    """Check and time everything, write the CSV; exit code 1 when a kernel of the course was wrong."""
    options = parsed()
    torch.manual_seed(0)
    about = versions(options.commit, on_gpu=not options.dry)
    peers = ", ".join(f"{name} {package(name) or 'absent'}" for name in ("flashinfer", "cudnn"))
    wrong = 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write(f"# medians of CUDA events, graphs, in turns, L2 flushed; python3 -m benchmarks.decode; {peers}\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for size in ((2, 8, 2, 70),) if options.dry else LOADS:
            for page_size in (16,) if options.dry else PAGE_SIZES:
                for row in rows_of(size, page_size, options):
                    writer.writerow(row | about)
                    wrong += "wrong" in row["note"]
                    speed = f"{row.get('median_us', ''):>7} us {row.get('percent_of_ceiling', ''):>6} % of the ceiling"
                    name = f"{row['language']:<6} {row['variant']:<26} {row['dtype']:<14}"
                    print(f"{size} page {page_size:<3} {name} {row['note'] or speed}", flush=True)
                file.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
