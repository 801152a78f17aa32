"""Time the attention engine beside FlashInfer on eight mixes of a serving engine.

    python3 -m benchmarks.engine --out benchmarks/results/h200/engine.csv
    python3 -m benchmarks.engine --dry      tiny lengths on a CPU, to try the script

bfloat16, causal, 32 query heads, 8 key-value heads of 128, pages of 16 keys in random order. Plans run on the host
before and are not in the times; plan_us is the course's plan alone. All variants of a mix are timed in turns from
CUDA graphs, L2 flushed before each run. Peers: FlashInfer's batch decode (for mixes of one token a request), batch
prefill (backends fa2 and fa3), its mixed-batch API, and its cascade for the shared prefix; a peer that refuses a mix
says so. Every variant is checked against float64 in the last request. gbps counts each key and value once a request,
shared ones once, and each q and out once; tflops 4 D for each pair of a query and a key that it sees.
"""

import sys
import time
from functools import partial
from itertools import accumulate
from types import SimpleNamespace

import torch

from benchmarks.harness import largest_error, launched, main
from benchmarks.harness.engine_peers import PEERS, benchmark_of_engines, engines, rates
from course_lib.ops.engine import AttentionEngine
from course_lib.reference.ragged import ragged_attention_lse

NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, PAGE_SIZE = 32, 8, 128, 16
TOLERANCE = 1.6e-2  # of outputs in bfloat16, the first of which are as large as rows of v
WINDOW = 4095  # keys before a token's own: 4,096 in all


def zipf(count, longest):
    """Lengths longest / rank, not below 64, in an order that is no order."""
    return [max(64, longest // (1 + (rank * 29) % count)) for rank in range(count)]


MIXES = {  # name: [(new tokens, keys), …]
    "decode": [(1, 4096)] * 64,
    "decode_skewed": [(1, length) for length in zipf(128, 65536)],
    "prefill": [(4096, 4096)] * 4,
    "chunked": [(512, 4096)] * 4 + [(1, 1024 + 96 * row) for row in range(100)],
    "append": [(17, 8192)] * 8 + [(1, 1024)] * 100,
    "one_long": [(1, 131072)] + [(1, 512)] * 63,
    "shared_prefix": [(1, 8192 + 128)] * 64,
    "window": [(1, 32768)] * 16 + [(1024, 32768)],
}
SHARED, WINDOWED = {"shared_prefix": [(0, 64, 8192)]}, {"window": WINDOW}


def loads(dry):
    return [{"mix": name, "dtype": "bfloat16", "head_dim": HEAD_DIM} for name in MIXES]


def case(name, device, dry):
    """Inputs of one mix; in a dry run a few requests, a hundredth as long."""
    pairs, shared, window = MIXES[name], SHARED.get(name, ()), WINDOWED.get(name)
    if dry:
        pairs = [(-(-new // 100), -(-keys // 100) + new // 100) for new, keys in pairs[:2] + pairs[-2:]]
        shared, window = [(0, 4, 64)] if shared else (), 30 if window else None
    return tensors(pairs, device, shared=shared, window=window)


def tensors(pairs, device, *, shared=(), window=None):
    """Inputs of requests [(new tokens, keys), …]."""
    new, keys = ([pair[side] for pair in pairs] for side in (0, 1))
    needed = [-(-length // PAGE_SIZE) for length in keys]
    num_pages = sum(needed)
    pages, table = torch.randperm(num_pages).int().split(needed), torch.zeros(len(keys), max(needed), dtype=torch.int32)
    for row, own in enumerate(pages):
        table[row, : len(own)] = own
    for first, end, count in shared:
        table[first:end, : count // PAGE_SIZE] = table[first, : count // PAGE_SIZE]
    pools = torch.randn(2, num_pages, PAGE_SIZE, NUM_KV_HEADS, HEAD_DIM, device=device, dtype=torch.bfloat16)
    starts = [0, *accumulate(new)]
    return SimpleNamespace(
        new=new, keys=keys, starts=starts, shared=shared, window=window, table=table, page_size=PAGE_SIZE,
        q=torch.randn(starts[-1], NUM_HEADS, HEAD_DIM, device=device, dtype=torch.bfloat16),
        k_pages=pools[0], v_pages=pools[1],
        block_table=table.to(device),
    )  # fmt: skip


def planned(inputs, **options):
    """(engine, microseconds of a plan) of a mix."""
    engine = AttentionEngine(
        NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, window_left=inputs.window, device=inputs.q.device, **options
    )
    shared = () if options.get("deterministic") else inputs.shared
    for _ in range(3):
        start = time.perf_counter()
        engine.plan(inputs.starts, inputs.keys, inputs.block_table, shared=shared)
        taken = time.perf_counter() - start
    return engine, 1e6 * taken


def prepared(inputs, **options):
    engine, _ = planned(inputs, **options)
    return launched(engine.launch(inputs.q, inputs.k_pages, inputs.v_pages), poison=2)


def seen(new, keys, window):
    """Keys that the tokens of a request see, in all."""
    positions = range(keys - new, keys)
    return sum(min(position + 1, position + 1 if window is None else window + 1) for position in positions)


def amounts(inputs):
    """(bytes, FLOP) of a mix."""
    row = 2 * HEAD_DIM
    rows_kv = sum(inputs.keys) - sum((end - first - 1) * keys for first, end, keys in inputs.shared)
    if inputs.window is not None:
        rows_kv = sum(min(keys, new + inputs.window) for new, keys in zip(inputs.new, inputs.keys, strict=True))
    pairs = sum(seen(new, keys, inputs.window) for new, keys in zip(inputs.new, inputs.keys, strict=True))
    return row * (2 * rows_kv * NUM_KV_HEADS + 2 * len(inputs.q) * NUM_HEADS), 4 * HEAD_DIM * NUM_HEADS * pairs


def wanted(inputs, **options):
    """(rows of q, out) of the last tokens of the last request, in float64; options: the reference's."""
    count = min(inputs.new[-1], 32)
    rows = slice(len(inputs.q) - count, len(inputs.q))
    pools = (inputs.k_pages.cpu(), inputs.v_pages.cpu())
    table, keys = inputs.table[-1:], inputs.keys[-1:]
    return rows, ragged_attention_lse(inputs.q[rows].cpu(), *pools, table, keys, [0, count], **options)[0]


def error_of(outputs, want):
    rows, right = want
    return largest_error(outputs[:1], [(outputs[0][rows].cpu(), right)])


def rows_of(load, options):
    """The rows of one mix."""
    inputs = case(load["mix"], options.device, options.dry)
    modes = {"engine": {}, "engine_deterministic": {"deterministic": True}, "engine_wgmma": {"products": "wgmma"}}
    check = partial(error_of, want=wanted(inputs, window_left=inputs.window))
    variants = engines(options, inputs, prepared, PEERS, check, TOLERANCE, modes)
    engine, plan_us = planned(inputs)
    count_bytes, flop = amounts(inputs)
    of_plan = {"plan_us": f"{plan_us:.0f}", "imbalance": f"{engine.schedule.imbalance:.3f}"}
    yield from variants.timed(load, rates(PEERS, flop, count_bytes, of_plan))


BENCHMARK = benchmark_of_engines(
    __doc__, __file__, keys=("variant", "mix", "head_dim", "dtype"),
    values=("gbps", "tflops", "ratio_to_best_peer", "plan_us"), loads=loads, rows=rows_of, more=("imbalance",),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
