"""Time one decode step of a toy stack of layers, launched one by one and as a CUDA graph; chapter 09.

    python3 -m benchmarks.decode_graphs --out benchmarks/results/h200/decode_graphs.csv --commit …
    python3 -m benchmarks.decode_graphs --dry --out /tmp/dry.csv      tiny sizes on a CPU, to try the script

A step is attention of one new token in 32 layers, each with keys and values of its own; the output of a layer is the
query of the next. bfloat16, head_dim 128, 32 query heads on 8. Medians of warm runs in turns; the caches of all layers
together are larger than L2, so every run reads them from memory.

host_us     until the host has issued the step: the course's launcher and CuPy, torch's operator, or one graph launch
step_us     from the start of the step on an idle GPU to its end: a late launch is a gap
device_us   the same with everything queued before the GPU begins: the kernels alone, back to back

The last layer is checked against float64, and the graph's output against the eager one, bit for bit.
"""

import csv
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.decode import HEAD_DIM, TOLERANCE, error_of, graphed, parsed
from benchmarks.harness.about import COLUMNS as ABOUT
from benchmarks.harness.about import versions
from course_lib.ops import decode as ops
from course_lib.reference import decode as reference

HEADS = (32, 8)
NUM_LAYERS = 32
LOADS = ((1, 1024), (1, 8192))  # batch_size, seq_len
VARIANTS = ("02_split_kv", "03_fused_combine", "04_grouped_heads")
PEER = "sdpa_dense"
BUSY_CYCLES = 20_000_000  # some 10 ms: longer than it takes to issue a whole step
NUM_WARMUP = 5
COLUMNS = [
    "variant", "language", "mode", "batch_size", "num_heads", "num_kv_heads", "seq_len", "num_layers", "num_launches",
    "host_us", "step_us", "device_us", "max_error", "note", *ABOUT,
]  # fmt: skip


def stack(batch_size, seq_len, num_layers, device):
    """(q, keys of all layers, values of all layers, seq_lens), layout bhsd."""
    shape = (num_layers, batch_size, HEADS[1], seq_len, HEAD_DIM)
    k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(2))
    q = torch.randn(batch_size, HEADS[0], HEAD_DIM, device=device, dtype=torch.bfloat16)
    return q, k, v, torch.full((batch_size,), seq_len, dtype=torch.int32, device=device)


def course_step(inputs, variant):
    """(a function that launches the step, its number of launches, the last layer's query, the output)."""
    q, k, v, seq_lens = inputs
    launches = []
    for keys, values in zip(k, v, strict=True):
        last_q = q
        whole = ops.plan(q, keys, values, seq_lens, variant=variant)
        launches += getattr(whole, "launches", (whole,))
        q = whole.outputs[0]

    def step():
        for launch in launches:
            launch.run()
        return last_q, q

    return step, len(launches)


def torch_step(inputs):
    """The step by SDPA's flash backend, and "" for a number of launches that torch keeps to itself."""
    first, k, v, _ = inputs

    def step():
        q = first[:, :, None]
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            for keys, values in zip(k, v, strict=True):
                last_q, q = q, F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
        return last_q[:, :, 0], q[:, :, 0]

    return step, ""


def timed(calls, num_runs):
    """{name: medians (host_us, step_us, device_us)}; all calls in turns, as the clock meets all alike."""
    found = {name: ([], [], []) for name in calls}
    for turn in range(num_runs + NUM_WARMUP):
        for name, call in calls.items():
            host, from_idle = once(call, busy=False)
            _, queued = once(call, busy=True)
            if turn >= NUM_WARMUP:
                for times, value in zip(found[name], (host, from_idle, queued), strict=True):
                    times.append(value)
    return {name: tuple(map(statistics.median, times)) for name, times in found.items()}


def once(call, busy):
    """(us of the host, us of the GPU) of one call; `busy`: the GPU begins when everything is queued."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    if busy:
        torch.cuda._sleep(BUSY_CYCLES)
    start.record()
    before = time.perf_counter()
    call()
    host = time.perf_counter() - before
    end.record()
    torch.cuda.synchronize()
    return host * 1e6, start.elapsed_time(end) * 1e3


def rows_of(batch_size, seq_len, options):
    """The rows of one load: each variant eager, then as a graph."""
    num_layers = 2 if options.dry else NUM_LAYERS
    inputs = stack(batch_size, seq_len, num_layers, options.device)
    steps = {(variant, "cuda"): course_step(inputs, variant) for variant in VARIANTS}
    if not options.dry:
        steps[PEER, "torch"] = torch_step(inputs)
    calls, rows = {}, {}
    for (variant, language), (step, num_launches) in steps.items():
        last_q, out = (x.clone() for x in step())
        want = reference.decode_attention_lse(last_q, inputs[1][-1], inputs[2][-1], inputs[3])[0]
        error = error_of(out, want[-1:])
        row = {"variant": variant, "language": language, "batch_size": batch_size, "seq_len": seq_len}
        row |= {"num_heads": HEADS[0], "num_kv_heads": HEADS[1], "num_layers": num_layers, "max_error": f"{error:.1e}"}
        wrong = f"wrong by {error:.1e}: not timed" if error > TOLERANCE * (10 if options.dry else 1) else ""
        rows[variant, "eager"] = row | {"mode": "eager", "num_launches": num_launches, "note": wrong}
        if options.dry or wrong:
            continue
        calls[variant, "eager"], graph = step, captured(step, out)
        note = "" if graph else "wrong: the graph's output differs from the eager one"
        rows[variant, "graph"] = row | {"mode": "graph", "num_launches": 1, "note": note}
        calls |= {(variant, "graph"): graph} if graph else {}
    for name, times in timed(calls, options.runs).items():
        rows[name] |= dict(zip(("host_us", "step_us", "device_us"), (f"{us:.1f}" for us in times), strict=True))
    return rows.values()


def captured(step, out):
    """The step as a graph; None where a replay does not give `out`, bit for bit."""
    found = []

    def call():
        found[:] = step()

    replay = graphed(call, True)
    found[1].zero_()
    for _ in range(2):  # the second: what a launch leaves behind serves the next
        replay()
    torch.cuda.synchronize()
    return replay if torch.equal(found[1], out) else None


def main():
    """Check and time everything, write the CSV; exit code 1 when a kernel was wrong."""
    options = parsed(__doc__)
    torch.manual_seed(0)
    about = versions(options.commit, on_gpu=not options.dry)
    wrong = 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of warm runs in turns, GPU idle before each; python3 -m benchmarks.decode_graphs\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for load in ((2, 70),) if options.dry else LOADS:
            for row in rows_of(*load, options):
                writer.writerow(row | about)
                wrong += bool(row["note"])
                times = " ".join(f"{name} {row.get(name, ''):>8}" for name in ("host_us", "step_us", "device_us"))
                print(f"{load} {row['variant']:<17} {row['mode']:<6} {row['note'] or times}", flush=True)
            file.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
