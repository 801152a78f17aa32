"""Time prefill over pages beside SDPA's flash backend on dense keys and values.

    python3 -m benchmarks.paged_prefill --out benchmarks/results/h200/paged_prefill.csv
    python3 -m benchmarks.paged_prefill --dry      tiny sizes on a CPU, to try the script

Three loads whose tokens are all new and one that appends 256 new tokens to 4,096 in the cache of each sequence;
bfloat16, causal, head_dim 64 and 128, pages of 16 tokens in random order. SDPA has the same keys and values, gathered
before it is timed. All variants of one load are timed in turns, L2 flushed before each run, from CUDA graphs. FLOP:
4 D for each pair of a query and a key that it sees, so that a prompt of N tokens counts 2 D N (N + 1) for each head.
Every variant is checked against float64, in the first and last new rows of the last sequence, before it is timed.
"""

import sys
from functools import partial
from types import SimpleNamespace

import torch

from benchmarks.harness import Benchmark, Variants, in_languages, largest_error, launched, main
from benchmarks.harness.sdpa import BACKENDS, sdpa
from course_lib.ops import paged_prefill as ops
from course_lib.reference import paged as reference

PAGE_SIZE, HEAD_DIMS = 16, (64, 128)
LOADS = ((4, 32, 8, 4096, 4096), (1, 32, 8, 16384, 16384), (16, 32, 8, 1024, 1024), (8, 32, 8, 256, 4352))
DRY_LOADS = ((2, 4, 2, 70, 70), (2, 4, 2, 20, 90))
SIZES = ("batch_size", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv")  # seq_len_kv counts the new tokens too
OURS = [(f"paged/{variant}", language) for variant, language in in_languages("paged", ops.VARIANTS)]
PEER = ("sdpa_flash", "torch")
TOLERANCE = 1.6e-2  # of outputs in bfloat16, the first of which are as large as rows of v
SLICE = 64  # rows that are checked at either end


def loads(dry):
    sizes, head_dims = (DRY_LOADS, HEAD_DIMS[:1]) if dry else (LOADS, HEAD_DIMS)
    return [
        dict(zip(SIZES, size, strict=True)) | {"head_dim": head_dim, "dtype": "bfloat16"}
        for head_dim in head_dims
        for size in sizes
    ]


def case(size, head_dim, device, dtype=torch.bfloat16):
    """Inputs of one load: pools with just enough pages, assigned to the sequences in random order."""
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


def planned(name, inputs):
    """The launch of one of the course's variants."""
    tensors = (
        inputs.q, inputs.k_pages, inputs.v_pages, inputs.block_table, inputs.seq_lens, inputs.cu_seqlens_q,
    )  # fmt: skip
    variant = name[0].removeprefix("paged/")
    return ops.plan(*tensors, max_seq_len_q=inputs.size[3], variant=variant, language=name[1])


def dense(inputs):
    """SDPA's flash backend on the same sequences without pages; a call gives (out,), tokens before heads."""
    batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv = inputs.size
    shape = (batch_size, -1, num_kv_heads, inputs.q.shape[-1])
    table = inputs.block_table.long()
    k, v = (x[table].reshape(shape)[:, :seq_len_kv].transpose(1, 2) for x in (inputs.k_pages, inputs.v_pages))
    q = inputs.q.view(batch_size, seq_len_q, num_heads, -1).transpose(1, 2)
    attention = sdpa(BACKENDS["sdpa_flash"], causal=True)
    return lambda: (attention(q, k, v).transpose(1, 2),)


def wanted(inputs):
    """[(rows of q, out, lse)] in float64: the first and the last new rows of the last sequence."""
    seq_len_q, seq_len_kv = inputs.size[3:]
    count, found = min(SLICE, seq_len_q), []
    for end in sorted({count, seq_len_q}):
        stop = len(inputs.q) - seq_len_q + end
        rows = slice(stop - count, stop)
        lengths = torch.tensor([seq_len_kv - seq_len_q + end])
        starts = torch.tensor([0, count])
        pages = (inputs.k_pages, inputs.v_pages, inputs.block_table[-1:])
        found.append((rows, *reference.paged_prefill_lse(inputs.q[rows], *pages, lengths, starts)))
    return found


def error_of(outputs, inputs, want):
    """Largest error of out, and of lse where there is one, in the checked rows; infinity when any row is not finite."""
    flat = [x.reshape(len(inputs.q), *x.shape[-2:]) if x.ndim == 4 else x for x in outputs]
    pairs = [(x[rows], right) for rows, *rights in want for x, right in zip(flat, rights, strict=False)]
    return largest_error(outputs, pairs)


def variants_of(inputs, options):
    """The variants of one load, checked against float64."""
    variants, check = Variants(options, graphs=True), partial(error_of, inputs=inputs, want=wanted(inputs))
    for name in OURS:
        launch = planned(name, inputs)
        prepare = partial(launched, launch, poison=len(launch.outputs))
        columns = {"variant": name[0], "language": name[1], "page_size": PAGE_SIZE}
        variants.add(columns, prepare, check, TOLERANCE)
    columns = {"variant": PEER[0], "language": PEER[1], "page_size": ""}
    variants.add(columns, lambda: dense(inputs), check, TOLERANCE, optional=True)
    return variants


def rows_of(load, options):
    """The rows of one load."""
    size = tuple(load[name] for name in SIZES)
    inputs = case(size, load["head_dim"], options.device)
    flop = flop_of(size, load["head_dim"])

    def speed(row, median_ms, times):
        peer = times.get((*PEER, ""))
        ratio = f"{peer.median_ms / median_ms:.3f}" if peer else ""
        return {"tflops": f"{flop / median_ms / 1e9:.1f}", "ratio_to_sdpa_flash": ratio}

    yield from variants_of(inputs, options).timed(load, speed)


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, graphs, in turns, L2 flushed",
    keys=("variant", "language", *SIZES, "head_dim", "page_size", "dtype"),
    values=("median_us", "low_us", "high_us", "tflops", "ratio_to_sdpa_flash", "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "tflops", "ratio_to_sdpa_flash"),
    quick={"head_dim": (128,)},
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
