"""Who waits for whom inside a block of FlashAttention-3: clock stamps of the producer and the consumers on a GPU.

    python3 -m benchmarks.attention_stamps --out benchmarks/results/h200/attention_stamps.csv

Rungs 03, 04 and 05 are compiled with a call of stamp() around the waits, as edits of their text, and launched
once: bfloat16, head_dim 128, 4,096 tokens of 16 heads. One thread of each warpgroup of the first block writes
clock64(), in cycles of its multiprocessor. The rows are spans from the first stamp on: waits at mbarriers, products
from their issue to the wait that saw them done, the softmax. A stamp costs some 30 cycles, so the steps are a little
longer than without.
"""

import argparse
import sys
from pathlib import Path

import torch

from benchmarks.harness.about import commit, versions
from benchmarks.harness.rows import stored
from course_lib import cuda
from course_lib.cuda.source import KERNELS_ROOT
from course_lib.ops import flash_attention_3 as ops

FAMILY, SEQ_LEN, NUM_HEADS, HEAD_DIM = "flash_attention_3", 4096, 16, 128
NUM_STAMPS = 256  # of an actor
NUM_STEPS = 10  # tiles of keys whose spans are stored
ACTORS = ("producer", "consumer 0", "consumer 1")
COLUMNS = ("variant", "actor", "kind", "label", "barrier", "start", "end")
PRELUDE = f"""
__shared__ long long* stamps_gmem;
__shared__ int num_stamps[{len(ACTORS)}];
__device__ __forceinline__ void stamp(int actor) {{  // called by one thread of a warpgroup
    if (blockIdx.x == 0 && num_stamps[actor] < {NUM_STAMPS}) {{
        stamps_gmem[actor * {NUM_STAMPS} + num_stamps[actor]++] = clock64();
    }}
}}
"""
CONSUMER = "if (thread == 0) stamp(1 + consumer);"


def waits(variant):
    """The statements of the consumers' loop that wait for K and for V."""
    ring = "ring" if variant == "03_producer_consumer" else "k_ring"
    v_ring = ring.replace("k_", "v_")
    wait_k = f"        mbarrier_wait_parity(&barriers.k_full[{ring}.stage], {ring}.parity);\n"
    wait_v = f"        mbarrier_wait_parity(&barriers.v_full[{v_ring}.stage], {v_ring}.parity);\n"
    return wait_k, wait_v


def stamped(variant):
    """The rung's text with stamps. A consumer's loop is cut out of it, so that the first and last tile have none."""
    text = (KERNELS_ROOT / FAMILY / f"{variant}.cu").read_text(encoding="utf-8")
    text = text.replace("// region: barriers\n", PRELUDE + "// region: barriers\n", 1)
    text = text.replace("int causal) {\n    extern", "int causal, long long* stamps) {\n    extern")
    init = "    if (threadIdx.x == 0) init_barriers(barriers);\n"
    start = "    if (threadIdx.x == 0) {\n        stamps_gmem = stamps;\n"
    start += "".join(f"        num_stamps[{actor}] = 0;\n" for actor in range(len(ACTORS))) + "    }\n"
    text = text.replace(init, init + start)
    for name in ("k", "v"):
        wait = f"        mbarrier_wait_parity(&barriers.{name}_empty[ring.stage], ring.parity ^ 1);\n"
        text = text.replace(wait, f"        stamp(0);\n{wait}        stamp(0);\n")
    begin = text.index("    for (int j = tile.num_kv_tiles -", text.index("// region: descriptors"))
    end = text.index("\n    }\n", begin)
    return text[:begin] + _stamped_loop(variant, text[begin:end]) + text[end:]


def _stamped_loop(variant, loop):
    """The loop with a stamp before and after each wait, after the scores, after the weights and at the end."""
    mark = f"        {CONSUMER}\n"
    for wait in waits(variant):
        if loop.count(wait) != 1:
            raise ValueError(f"{variant}: {wait.strip()!r} is {loop.count(wait)} times in the loop; expected once")
        loop = loop.replace(wait, mark + wait + mark)
    scores = "        wgmma_keep_order(scores);\n"
    loop = loop.replace(scores, scores + mark, 1)
    softmax = "        online_softmax(scores, m, l, alpha, softmax_scale_log2);\n"
    loop = loop.replace(softmax, softmax + scores + mark, 1)
    done = "        wgmma_keep_order(acc);\n"
    return loop.replace(done, done + mark, 1)


def spans(variant, stamps):
    """Rows of the first NUM_STEPS steps from the stamps (actors, NUM_STAMPS), in cycles from the first."""
    first = int(stamps[:, 0].min())
    times = [[int(stamp) - first for stamp in row] for row in stamps.tolist()]
    for step in range(NUM_STEPS):
        for name, (start, end) in zip("KV", _pairs(times[0][4 * step : 4 * step + 4]), strict=True):
            yield _row(variant, "producer", "wait", f"{name} of tile {step}", f"{name.lower()}_empty", start, end)
    for consumer, actor in enumerate(ACTORS[1:], 1):
        for step in range(NUM_STEPS):
            yield from _consumer_spans(variant, actor, times[consumer][7 * step : 7 * step + 7], step)


def _consumer_spans(variant, actor, marks, step):
    """The spans of one step of a consumer: seven stamps, in the order of the rung."""
    if variant == "03_producer_consumer":  # wait K, scores, softmax, wait V, product
        before_k, after_k, scores, weights, before_v, after_v, done = marks
    else:  # wait K, wait V, scores, softmax, product
        before_k, after_k, before_v, after_v, scores, weights, done = marks
    yield _row(variant, actor, "wait", f"K of step {step}", "k_full", before_k, after_k)
    yield _row(variant, actor, "wait", f"V of step {step}", "v_full", before_v, after_v)
    yield _row(variant, f"products of {actor.removeprefix('consumer ')}", "wgmma", f"QK {step}", "", after_k, scores)
    yield _row(variant, f"products of {actor.removeprefix('consumer ')}", "wgmma", f"PV {step}", "", after_v, done)
    yield _row(variant, actor, "softmax", f"softmax {step}", "", scores, weights)


def _pairs(values):
    return list(zip(values[::2], values[1::2], strict=True))


def _row(*values):
    return dict(zip(COLUMNS, values, strict=True))


def measured(variant):
    """The stamps of one launch, after a warm one: (actors, NUM_STAMPS) int64."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, NUM_HEADS, SEQ_LEN, HEAD_DIM, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    launch = ops.plan(q, k, v, variant=variant)
    defines = {"HEAD_DIM": HEAD_DIM, "ELEMENT": "__nv_bfloat16", "BLOCK_N": 128}
    kernel = cuda.compile(stamped(variant), "flash_attention_3_kernel", defines=defines, filename=f"{variant}.cu")
    stamps = torch.zeros(len(ACTORS), NUM_STAMPS, dtype=torch.int64, device="cuda")
    launch.run()
    for _ in range(2):
        kernel(launch.grid, launch.block, *launch.arguments, stamps, shared_bytes=launch.shared_bytes)
    torch.cuda.synchronize()
    return stamps.cpu()


def main(arguments=None):
    """Write the spans of the three rungs."""
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.attention_stamps", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the CSV file to write")
    parser.add_argument("--commit", default=None, help="whose code is measured; default: $COMMIT, or git's HEAD")
    options = parser.parse_args(arguments)
    about = versions(options.commit or commit())
    head = ["cycles of one multiprocessor, clock64(); python3 -m benchmarks.attention_stamps"]
    with stored(options.out, head, [*COLUMNS, *about]) as write:
        for variant in ("03_producer_consumer", "04_overlap", "05_ping_pong"):
            for row in spans(variant, measured(variant)):
                write(row | about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
