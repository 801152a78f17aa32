"""Time one decode step of a toy stack of layers, launched one by one and as a CUDA graph; chapter 09.

    python3 -m benchmarks.decode_graphs --out benchmarks/results/h200/decode_graphs.csv
    python3 -m benchmarks.decode_graphs --dry      tiny sizes on a CPU, to try the script

A step is attention of one new token in 32 layers, each with keys and values of its own; the output of a layer is the
query of the next. bfloat16, head_dim 128, 32 query heads on 8. Medians of warm runs in turns; the caches of all layers
together are larger than L2, so every run reads them from memory.

host_us     until the host has issued the step: the course's launcher and CuPy, torch's operator, or one graph launch
step_us     from the start of the step on an idle GPU to its end: a late launch is a gap
device_us   the same with everything queued before the GPU begins: the kernels alone, back to back

The last layer is checked against float64, and the graph's output against the eager one, bit for bit.
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.harness import Benchmark, graphed, main
from benchmarks.pages import HEAD_DIM, error_of, tolerance
from course_lib.ops import decode as ops
from course_lib.reference import decode as reference

HEADS = (32, 8)
LOADS, DRY_LOADS = ((1, 1024), (1, 8192)), ((2, 70),)  # batch_size, seq_len
NUM_LAYERS, DRY_NUM_LAYERS = 32, 2
VARIANTS = ("02_split_kv", "03_fused_combine", "04_grouped_heads")
PEER = "sdpa_dense"
BUSY_CYCLES = 20_000_000  # some 10 ms: longer than it takes to issue a whole step
NUM_WARMUP = 5
TIMES = ("host_us", "step_us", "device_us")


def loads(dry):
    common = {"num_heads": HEADS[0], "num_kv_heads": HEADS[1], "num_layers": DRY_NUM_LAYERS if dry else NUM_LAYERS}
    return [
        {"batch_size": batch_size, "seq_len": seq_len} | common for batch_size, seq_len in (DRY_LOADS if dry else LOADS)
    ]


def stack(load, device):
    """(q, keys of all layers, values of all layers, seq_lens), layout bhsd."""
    batch_size, seq_len = load["batch_size"], load["seq_len"]
    shape = (load["num_layers"], batch_size, HEADS[1], seq_len, HEAD_DIM)
    k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(2))
    q = torch.randn(batch_size, HEADS[0], HEAD_DIM, device=device, dtype=torch.bfloat16)
    return q, k, v, torch.full((batch_size,), seq_len, dtype=torch.int32, device=device)


def course_step(inputs, variant):
    """(the function that launches the step and gives the last layer's query and output, its number of launches)."""
    q, k, v, seq_lens = inputs
    launches = []
    for keys, values in zip(k, v, strict=True):
        last_q = q
        whole = ops.plan(q, keys, values, seq_lens, variant=variant)
        launches += whole.launches
        q = whole.outputs[0]

    def step():
        for launch in launches:
            launch.run()
        return last_q, q

    return step, len(launches)


def torch_step(inputs):
    """The step by SDPA's flash backend, and "": torch does not tell its number of launches."""
    first, k, v, _ = inputs

    def step():
        q = first[:, :, None]
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            for keys, values in zip(k, v, strict=True):
                last_q, q = q, F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
        return last_q[:, :, 0], q[:, :, 0]

    return step, ""


def timed(calls, num_runs):
    """{name: medians (host_us, step_us, device_us)}; all calls in turns, so that the clock affects all alike."""
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


def captured(step, out):
    """The step as a graph; None where a replay does not give `out`, bit for bit."""
    found = []

    def call():
        found[:] = step()

    replay = graphed(call, True)
    found[1].zero_()
    for _ in range(2):  # a second time: a launch must restore the state that the next one needs
        replay()
    torch.cuda.synchronize()
    return replay if torch.equal(found[1], out) else None


def checked(inputs, step, options):
    """(a copy of the step's output, its error, a note where it is wrong)."""
    last_q, out = (x.clone() for x in step())
    want = reference.decode_attention_lse(last_q, inputs[1][-1], inputs[2][-1], inputs[3])[0]
    error = error_of((out,), want[-1:])
    return out, error, "" if error <= tolerance(options) else f"wrong by {error:.1e}: not timed"


def rows_of(load, options):
    """The rows of one load: each variant eager, then as a graph."""
    inputs = stack(load, options.device)
    steps = {(variant, "cuda"): course_step(inputs, variant) for variant in VARIANTS}
    if not options.dry:
        steps[PEER, "torch"] = torch_step(inputs)
    calls, rows = {}, {}
    for (variant, language), (step, num_launches) in steps.items():
        out, error, note = checked(inputs, step, options)
        row = load | {"variant": variant, "language": language, "max_error": f"{error:.1e}"}
        rows[variant, "eager"] = row | {"mode": "eager", "num_launches": num_launches, "note": note}
        if options.dry or note:
            continue
        calls[variant, "eager"], graph = step, captured(step, out)
        note = "" if graph else "wrong: the graph's output differs from the eager one"
        rows[variant, "graph"] = row | {"mode": "graph", "num_launches": 1, "note": note}
        calls |= {(variant, "graph"): graph} if graph else {}
    for name, times in timed(calls, options.runs).items():
        rows[name] |= dict(zip(TIMES, (f"{us:.1f}" for us in times), strict=True))
    return rows.values()


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of warm runs in turns, GPU idle before each",
    keys=(
        "variant", "language", "mode", "batch_size", "num_heads", "num_kv_heads", "seq_len", "num_layers",
        "num_launches",
    ),
    values=(*TIMES, "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=TIMES,
    compared=("step_us", "device_us"),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
