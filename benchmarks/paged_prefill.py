"""Time prefill over pages beside SDPA's flash backend on dense keys and values.

    python3 -m benchmarks.paged_prefill --out benchmarks/results/h200/paged_prefill.csv --commit …
    python3 -m benchmarks.paged_prefill --dry --out /tmp/dry.csv      tiny sizes on a CPU, to try the script

Three loads whose tokens are all new and one that appends 256 new tokens to 4,096 in the cache of each sequence;
bfloat16, causal, head_dim 64 and 128, pages of 16 tokens in random order. SDPA has the same keys and values, gathered
before it is timed. All variants of one load are timed in turns, L2 flushed before each run, from CUDA graphs. FLOP:
4 D for each pair of a query and a key that it sees, so that a prompt of N tokens counts 2 D N (N + 1) for each head.
Every variant is checked against float64, in the first and last new rows of the last sequence, before it is timed.
"""

import csv
import math
import sys
from types import SimpleNamespace

import torch

from benchmarks.decode import graphed, parsed
from benchmarks.harness.about import COLUMNS as ABOUT
from benchmarks.harness.about import versions
from benchmarks.harness.sdpa import BACKENDS, sdpa
from benchmarks.harness.turns import timed_in_turns
from course_lib.ops import paged_prefill as ops
from course_lib.reference import paged as reference

PAGE_SIZE, HEAD_DIMS = 16, (64, 128)
LOADS = ((4, 32, 8, 4096, 4096), (1, 32, 8, 16384, 16384), (16, 32, 8, 1024, 1024), (8, 32, 8, 256, 4352))
DRY_LOADS = ((2, 4, 2, 70, 70), (2, 4, 2, 20, 90))
SIZES = ("batch_size", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv")  # seq_len_kv counts the new tokens too
OURS = (
    ("paged/05_paged_prefill", "cuda"),
    ("paged/09_tuned_prefill", "cuda"),
    ("paged/05_paged_prefill", "triton"),
)
PEER = ("sdpa_flash", "torch")
TOLERANCE = 1.6e-2  # of outputs in bfloat16, the first of which are as large as rows of v
SLICE = 64  # rows that are checked at either end
COLUMNS = [
    "variant", "language", *SIZES, "head_dim", "page_size", "dtype", "median_us", "low_us", "high_us", "tflops",
    "ratio_to_sdpa_flash", "max_error", "note", *ABOUT,
]  # fmt: skip


def case(size, head_dim, device, dtype=torch.bfloat16):
    """One load: a pool with just enough pages, handed out at random."""
    batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv = size
    num_pages = batch_size * -(-seq_len_kv // PAGE_SIZE)
    pools = torch.randn(2, num_pages, PAGE_SIZE, num_kv_heads, head_dim, device=device, dtype=dtype)
    return SimpleNamespace(
        size=size, k_pages=pools[0], v_pages=pools[1],
        q=torch.randn(batch_size * seq_len_q, num_heads, head_dim, device=device, dtype=dtype),
        block_table=torch.randperm(num_pages, device=device).int().view(batch_size, -1),
        seq_lens=torch.full((batch_size,), seq_len_kv, dtype=torch.int32, device=device),
        cu_seqlens_q=torch.arange(batch_size + 1, dtype=torch.int32, device=device) * seq_len_q,
    )  # fmt: skip


def flop_of(size, head_dim):
    """Two products of head_dim for each query and key that it sees, counted from the lengths."""
    batch_size, num_heads, _, seq_len_q, seq_len_kv = size
    seen = seq_len_q * (seq_len_kv - seq_len_q) + seq_len_q * (seq_len_q + 1) // 2
    return 4 * batch_size * num_heads * head_dim * seen


def planned(name, load):
    """The launch of one of the course's variants, its outputs poisoned."""
    inputs = (load.q, load.k_pages, load.v_pages, load.block_table, load.seq_lens, load.cu_seqlens_q)
    variant = name[0].removeprefix("paged/")
    launch = ops.plan(*inputs, max_seq_len_q=load.size[3], variant=variant, language=name[1])
    for output in launch.outputs:
        output.fill_(math.nan)
    return launch


def dense(load):
    """SDPA's flash backend on the same sequences without pages; a call gives out, heads before tokens."""
    batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv = load.size
    shape = (batch_size, -1, num_kv_heads, load.q.shape[-1])
    table = load.block_table.long()
    k, v = (x[table].reshape(shape)[:, :seq_len_kv].transpose(1, 2) for x in (load.k_pages, load.v_pages))
    q = load.q.view(batch_size, seq_len_q, num_heads, -1).transpose(1, 2)
    attention = sdpa(BACKENDS["sdpa_flash"], causal=True)
    return lambda: attention(q, k, v)


def wanted(load):
    """[(rows of q, out, lse)] in float64: the first and the last new rows of the last sequence."""
    seq_len_q, seq_len_kv = load.size[3:]
    count, found = min(SLICE, seq_len_q), []
    for end in sorted({count, seq_len_q}):
        stop = len(load.q) - seq_len_q + end
        rows = slice(stop - count, stop)
        lengths = torch.tensor([seq_len_kv - seq_len_q + end])
        starts = torch.tensor([0, count])
        pages = (load.k_pages, load.v_pages, load.block_table[-1:])
        found.append((rows, *reference.paged_prefill_lse(load.q[rows], *pages, lengths, starts)))
    return found


def error_of(outputs, want):
    """Largest error of out, and of lse where there is one, in the checked rows; infinity when any row is not finite."""
    if not all(torch.isfinite(x).all() for x in outputs):
        return float("inf")
    pairs = [(x[rows].double(), right) for rows, *rights in want for x, right in zip(outputs, rights, strict=False)]
    return max((mine - right).abs().max().item() for mine, right in pairs)


def calls_of(load, dry):
    """({name: function}, {name: error}, {name: why it is missing}), checked against float64."""
    calls, errors, missing, want = {}, {}, {}, wanted(load)

    def add(name, call, outputs):
        errors[name] = error_of(outputs, want)
        if errors[name] <= TOLERANCE:
            calls[name] = graphed(call, not dry)
        else:
            missing[name] = f"wrong by {errors[name]:.1e}: not timed"

    for name in OURS:
        launch = planned(name, load)
        launch.run()
        add(name, launch.run, launch.outputs)
    call = dense(load)
    try:
        add(PEER, call, (call().transpose(1, 2).reshape(load.q.shape),))
    except RuntimeError as error:  # the flash backend refuses the load
        missing[PEER] = f"not run: {str(error).strip().splitlines()[0][:120]}"
    return calls, errors, missing


def rows_of(size, head_dim, options):
    """The rows of one load."""
    load = case(size, head_dim, options.device)
    calls, errors, missing = calls_of(load, options.dry)
    times = {} if options.dry else timed_in_turns(calls, options.runs)
    for name in [*calls, *missing]:
        row = {"variant": name[0], "language": name[1]} | dict(zip(SIZES, size, strict=True))
        row |= {"head_dim": head_dim, "dtype": "bfloat16", "note": missing.get(name, "")}
        row["page_size"] = "" if name == PEER else PAGE_SIZE
        row["max_error"] = f"{errors[name]:.1e}" if name in errors else ""
        if name in times:
            median, low, high = times[name]
            row |= {"median_us": f"{median * 1e3:.1f}", "low_us": f"{low * 1e3:.1f}", "high_us": f"{high * 1e3:.1f}"}
            row["tflops"] = f"{flop_of(size, head_dim) / median / 1e9:.1f}"
            row["ratio_to_sdpa_flash"] = f"{times[PEER][0] / median:.3f}" if PEER in times else ""
        yield row


def main():
    """Check and time everything, write the CSV; exit code 1 when a kernel was wrong."""
    options = parsed(__doc__)
    torch.manual_seed(0)
    about = versions(options.commit, on_gpu=not options.dry)
    wrong = 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events, graphs, in turns, L2 flushed; python3 -m benchmarks.paged_prefill\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for head_dim in HEAD_DIMS[:1] if options.dry else HEAD_DIMS:
            for size in DRY_LOADS if options.dry else LOADS:
                for row in rows_of(size, head_dim, options):
                    writer.writerow(row | about)
                    wrong += "wrong" in row["note"]
                    speed = f"{row.get('median_us', ''):>8} us {row.get('tflops', ''):>6} TFLOP/s"
                    name = f"{row['language']:<6} {row['variant']:<24}"
                    told = row["note"] or f"{speed} {row.get('ratio_to_sdpa_flash', '')}"
                    print(f"{size} head_dim {head_dim:<3} {name} {told}", flush=True)
                file.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
