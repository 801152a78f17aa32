"""Time multi-head latent attention in absorbed form beside FlashInfer, decode over pages of latents.

    python3 -m benchmarks.mla --out benchmarks/results/h200/mla.csv
    python3 -m benchmarks.mla --dry      tiny lengths on a CPU, to try the script

bfloat16, latents of 512 and rope keys of 64, pages of 64 rows in random order, one new token a request; 128 heads as on
a card with all of them, 16 as on one of eight. Plans run on the host before and are not in the times; plan_us is the
course's plan alone. All variants of a load are timed in turns from CUDA graphs, L2 flushed before each run. Peers:
FlashInfer's MLA wrapper, backends fa2 and fa3, on the same pool. Every variant is checked against float64 in the last
request. gbps counts each row of the pool once a request, and each q and out once; tflops 2 (576 + 512) for each head
and key.
"""

import sys
import time
from types import SimpleNamespace

import torch

from benchmarks.harness import largest_error, launched, main
from benchmarks.harness.engine_peers import MLA_PEERS, benchmark_of_engines, engines, rates
from course_lib.ops.engine import MlaEngine
from course_lib.ops.engine.mla import LATENT_DIM, ROW_DIM
from course_lib.reference.ragged import ragged_attention_lse

PAGE_SIZE, TOLERANCE, SCALE = 64, 1.6e-2, 192**-0.5
MIXES = {  # name: keys of each request
    "equal": [4096] * 64,
    "skewed": [max(64, 65536 // (1 + (rank * 29) % 128)) for rank in range(128)],
    "long": [32768] * 8,
}


def loads(dry):
    return [{"mix": name, "num_heads": heads, "dtype": "bfloat16"} for name in MIXES for heads in (16, 128)]


def case(load, device, dry):
    """Inputs of one load; in a dry run two requests, a hundredth as long."""
    keys = MIXES[load["mix"]]
    keys = [length // 100 for length in keys[:2]] if dry else keys
    needed = [-(-length // PAGE_SIZE) for length in keys]
    table = torch.zeros(len(keys), max(needed), dtype=torch.int32)
    for row, own in enumerate(torch.randperm(sum(needed)).int().split(needed)):
        table[row, : len(own)] = own
    like = {"device": device, "dtype": torch.bfloat16}
    return SimpleNamespace(
        keys=keys, starts=list(range(len(keys) + 1)), table=table, page_size=PAGE_SIZE, block_table=table.to(device),
        q=torch.randn(len(keys), load["num_heads"], ROW_DIM, **like), scale=SCALE,
        pages=torch.randn(sum(needed), PAGE_SIZE, ROW_DIM, **like),
    )  # fmt: skip


def planned(inputs, **options):
    """(engine, microseconds of a plan)."""
    engine = MlaEngine(inputs.q.shape[1], device=inputs.q.device, **options)
    for _ in range(3):
        start = time.perf_counter()
        engine.plan(inputs.starts, inputs.keys, inputs.block_table)
        taken = time.perf_counter() - start
    return engine, 1e6 * taken


def prepared(inputs, **options):
    return launched(planned(inputs, **options)[0].launch(inputs.q, inputs.pages), poison=2)


def wanted(inputs):
    """out of the last request, in float64."""
    pages = inputs.pages.cpu()
    pools, options = (pages[:, :, None], pages[:, :, None, :LATENT_DIM]), {"softmax_scale": SCALE}
    return ragged_attention_lse(inputs.q[-1:].cpu(), *pools, inputs.table[-1:], inputs.keys[-1:], [0, 1], **options)[0]


def rows_of(load, options):
    """The rows of one load."""
    inputs = case(load, options.device, options.dry)
    want = wanted(inputs)

    def check(outputs):
        return largest_error(outputs[:1], [(outputs[0][-1:].cpu(), want)])

    modes = {"engine": {}, "engine_deterministic": {"deterministic": True}}
    variants = engines(options, inputs, prepared, MLA_PEERS, check, TOLERANCE, modes)
    plan_us = planned(inputs)[1]
    num_heads, num_keys = load["num_heads"], sum(inputs.keys)
    count_bytes = 2 * (num_keys * ROW_DIM + len(inputs.keys) * num_heads * (ROW_DIM + LATENT_DIM))
    flop = 2 * (ROW_DIM + LATENT_DIM) * num_heads * num_keys
    yield from variants.timed(load, rates(MLA_PEERS, flop, count_bytes, {"plan_us": f"{plan_us:.0f}"}))


BENCHMARK = benchmark_of_engines(
    __doc__, __file__, keys=("variant", "mix", "num_heads", "dtype"),
    values=("gbps", "tflops", "ratio_to_best_peer", "plan_us"), loads=loads, rows=rows_of,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
