"""Time score modifications of the attention engine beside FlexAttention and FlashInfer.

    python3 -m benchmarks.score_mods --out benchmarks/results/h200/score_mods.csv
    python3 -m benchmarks.score_mods --dry      tiny lengths on a CPU, to try the script

bfloat16, causal, 32 query heads, 8 key-value heads of 128, 32,768 keys a request: 16 requests of one token (decode), or
one of 1,024 (append), with a window of 4,096, a soft cap of 30, or ALiBi. Compiled before and timed in turns from CUDA
graphs, L2 flushed before each run. FlexAttention, compiled, takes no pages: its K and V are gathered before, uncounted.
FlashInfer's batch prefill, fa2 and fa3, has all three built in. Every variant is checked against float64 in the last
request. tflops: 4 D for each pair of a query and a key that it sees.
"""

import sys
from functools import partial

import torch

from benchmarks.engine import HEAD_DIM, NUM_HEADS, NUM_KV_HEADS, TOLERANCE, amounts, error_of, tensors, wanted
from benchmarks.harness import launched, main
from benchmarks.harness.engine_peers import MOD_PEERS, benchmark_of_engines, engines, rates
from course_lib.ops.engine import AttentionEngine

MODS = ("window", "soft_cap", "alibi")
SHAPES = {"decode": [(1, 32768)] * 16, "append": [(1024, 32768)]}
CAP, WINDOW = 30.0, 4095  # keys before a token's own: 4,096 in all


def loads(dry):
    return [{"mod": mod, "shape": shape, "dtype": "bfloat16"} for mod in MODS for shape in SHAPES]


def case(load, device, dry):
    """Inputs of one load; in a dry run at most two requests, a hundredth as long."""
    pairs, mod = SHAPES[load["shape"]], load["mod"]
    window = WINDOW if mod == "window" else None
    if dry:
        pairs, window = [(-(-new // 100), keys // 100) for new, keys in pairs[:2]], 30 if window else None
    inputs = tensors(pairs, device, window=window)
    inputs.soft_cap = CAP if mod == "soft_cap" else None
    slopes = 2.0 ** (-8 * torch.arange(1.0, NUM_HEADS + 1, device=device) / NUM_HEADS)
    inputs.slopes = slopes if mod == "alibi" else None
    return inputs


def modification(inputs):
    """(what the engine is given, what the reference is given)."""
    if inputs.soft_cap:
        cap = inputs.soft_cap
        return {"score_mod": f"soft_cap(score, {cap}f)"}, {"score_mod": lambda s, *_: cap * torch.tanh(s / cap)}
    if inputs.slopes is not None:
        slopes, expression = inputs.slopes, "score - parameters[head] * (query - key)"
        host = slopes.cpu().double()
        mod = {"score_mod": lambda score, head, query, key: score - host[head] * (query - key)}
        return {"score_mod": expression, "parameters": slopes}, mod
    return {"window_left": inputs.window}, {"window_left": inputs.window}


def prepared(inputs, **mode):
    options = modification(inputs)[0] | mode
    engine = AttentionEngine(NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, device=inputs.q.device, **options)
    engine.plan(inputs.starts, inputs.keys, inputs.block_table)
    return launched(engine.launch(inputs.q, inputs.k_pages, inputs.v_pages), poison=2)


def rows_of(load, options):
    """The rows of one load."""
    inputs = case(load, options.device, options.dry)
    check = partial(error_of, want=wanted(inputs, **modification(inputs)[1]))
    modes = {"engine": {}, "engine_wgmma": {"products": "wgmma"}}
    variants = engines(options, inputs, prepared, MOD_PEERS, check, TOLERANCE, modes)
    yield from variants.timed(load, rates(MOD_PEERS, amounts(inputs)[1]))


BENCHMARK = benchmark_of_engines(
    __doc__, __file__, keys=("variant", "mod", "shape", "dtype"),
    values=("tflops", "ratio_to_best_peer"), loads=loads, rows=rows_of,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
