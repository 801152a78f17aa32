"""Serve the workloads of the field: the course's engine, setting by setting, beside transformers and nano-vllm.

    python3 -m benchmarks.serving --also /tmp/site --out benchmarks/results/h200/serving.csv
    python3 -m benchmarks.serving --dry      a tiny shape on a CPU, to try the script

Random weights in bf16; EOS is ignored. The scenarios:

offline    all requests at once: 256 with prompts and outputs uniform in 100 to 1,024 (nano-vllm's bench.py), and 64 of
           1,024 in and 256 out on a shape of 8 billion weights
online     Poisson arrivals at a rate; the time to the first token counts from the intended arrival
repeated   prompts of 4,096 tokens, one at a time, new and sent again
shared     64 prompts of 2,112 tokens that share 2,048, at once

tokens_per_s   new tokens over the time from the first arrival to the last token; the host's clock
ttft, tpot, itl, latency   time to the first token, mean time of each further one, time between neighbours, time to the
               last; the value that 50 or 99 of 100 requests do not exceed
roof_percent   the roof's time over this one's: keys, values and weights at the card's measured read rate, products of
               the prompts at its measured bf16 rate
kv_peak, hit_rate, preemptions   largest share of the pages in use; prompt tokens found in the prefix cache
host_percent   the host's own time in the engine's steps, over it and its wait for tokens
path           which attention ran, and with what; agreement: nano-vllm's nearly greedy tokens against the course's
note           "failed: why" for a variant that gave no numbers, "stopped: …" for one that outlasted its time and is
               counted as far as it came

Each group of variants runs in a process of its own; none is begun after --seconds. --steps FILE keeps the time of every
step for the simulator. A run follows a warm one of the same lengths and other tokens. The course samples at nano-vllm's
temperature of 0.6, which has no greedy; transformers is greedy, which is cheaper. Qwen3's norms of query and key heads
are left out on all sides.
"""

import sys
import time
from pathlib import Path

import torch

from benchmarks.harness import Benchmark, main
from benchmarks.harness.children import attempt, rows_of_children
from course_lib.model import ModelConfig
from course_lib.serving.roof import card_rates, roof_seconds

SCENARIOS = (  # scenario, model, trace, sizes
    ("offline", "qwen3-0.6b-shape", "uniform", {"num_requests": 256, "low": 100, "high": 1024}),
    ("repeated", "qwen3-0.6b-shape", "fixed", {"num_requests": 5, "prompt_len": 4096, "output_len": 2}),
    ("shared", "qwen3-0.6b-shape", "shared",
     {"num_requests": 64, "prompt_len": 2112, "shared_len": 2048, "output_len": 16}),
    *(("online", "qwen3-0.6b-shape", "uniform", {"num_requests": 16 * rate, "low": 100, "high": 1024, "rate": rate})
      for rate in (8, 4, 16, 32)),
    ("offline", "llama-3-8b", "fixed", {"num_requests": 64, "prompt_len": 1024, "output_len": 256}),
    ("repeated", "llama-3-8b", "fixed", {"num_requests": 5, "prompt_len": 4096, "output_len": 2}),
)  # fmt: skip
DRY_SCENARIOS = (
    ("offline", "tiny", "uniform", {"num_requests": 6, "low": 3, "high": 20}),
    ("repeated", "tiny", "fixed", {"num_requests": 2, "prompt_len": 40, "output_len": 2}),
    ("shared", "tiny", "shared", {"num_requests": 3, "prompt_len": 40, "shared_len": 32, "output_len": 2}),
    ("online", "tiny", "uniform", {"num_requests": 4, "low": 3, "high": 20, "rate": 100, "batch_size": 2}),
)
GROUPS = {  # scenario -> groups of variants, each in a process; the strongest peers and the course first
    "offline": (
        ("course", "course_deterministic", "course_greedy"), ("nano_vllm_flashinfer",), ("static_batching",),
        ("course_no_graphs", "course_no_overlap", "course_no_chunking", "course_no_prefix_cache"),
        ("transformers_generate_batch",), ("transformers_generate_batch_64",), ("transformers_static_compile",),
    ),
    "online": (("course", "course_no_chunking"), ("static_batching",), ("nano_vllm_flashinfer",)),
    "repeated": (("course", "course_no_prefix_cache"),),
    "shared": (("course", "course_no_prefix_cache"),),
}  # fmt: skip
KEYS = ("variant", "scenario", "model", "num_requests", "prompt_len", "output_len", "rate")
VALUES = (
    "tokens_per_s", "roof_percent", "seconds", "requests", "errors", "output_tokens",
    *(f"{name}_p{percent}_ms" for name in ("ttft", "tpot", "itl", "latency") for percent in (50, 99)),
    "cold_ttft_p50_ms", "ttft_share", "kv_peak", "hit_rate", "preemptions", "num_steps", "host_percent",
    "agreement", "path", "note",
)  # fmt: skip


def loads(dry):
    """Every scenario with its sizes."""
    return [
        {"scenario": name, "model": model, "trace": trace, **sizes}
        for name, model, trace, sizes in (DRY_SCENARIOS if dry else SCENARIOS)
    ]


def run_variant(variant, spec):
    """The columns of one variant; what a child process calls."""
    from benchmarks.harness import serving_engines as engines

    sys.path += [spec["also"]] if spec.get("also") and spec["also"] not in sys.path else []
    if variant == "static_batching":
        return engines.static(variant, spec)
    if variant in engines.VARIANTS:
        return engines.RUNS[spec["load"]["scenario"]](variant, spec)
    from benchmarks.harness.serving_peers import PEERS

    return PEERS[variant](spec)


def groups_of(load, options):
    """The groups of a load: no peer in a dry run, and of the ablations only some where they say nothing."""
    groups = [list(group) for group in GROUPS[load["scenario"]]]
    if load["model"] == "llama-3-8b" and load["scenario"] == "offline":
        groups = [["course", "course_deterministic"], *groups[1:3], ["transformers_generate_batch"]]
    if load.get("rate", 8) != 8:
        groups = [["course"]]
    wanted = options.variants or sorted({name for group in groups for name in group})
    wanted = [name for name in wanted if not options.dry or name.startswith(("course", "static"))]
    groups = [[name for name in group if name in wanted] for group in groups]
    return [group for group in groups if group]


def rows_of(load, options):
    """The rows of one load as they come."""
    spec = {"load": load, "device": options.device, "dry": options.dry, "runs": options.runs, "also": options.also}
    spec |= {"temperature": options.temperature, "max_tokens": options.max_tokens}
    spec |= {"steps": str(options.steps.resolve()) if options.steps else None}
    groups, speeds = groups_of(load, options), {}
    if options.dry:
        found = ((name, attempt(run_variant, name, spec)) for group in groups for name in group)
    else:
        left = options.seconds - (time.monotonic() - options.earlier.setdefault("began", time.monotonic()))
        found = rows_of_children("benchmarks.serving:run_variant", groups, spec, limit=options.limit, seconds=left)
    for name, row in found:
        speeds |= {name: float(row["tokens_per_s"])} if "tokens_per_s" in row else {}
        row = load | row | roof_share(load, row, options)
        yield {"variant": name} | {key: value for key, value in row.items() if key in (*KEYS, *VALUES)}
    print(f"          {against_peers(speeds)}", flush=True)


def roof_share(load, row, options):
    """The column roof_percent, where all requests came at once and all of them ended."""
    if load["scenario"] != "offline" or options.dry or "seconds" not in row or row.get("note"):
        return {}
    rates = card_rates(torch.cuda.get_device_name())
    if rates is None:
        return {}
    from benchmarks.harness.serving_engines import requests_of

    spec = {"load": load, "dry": False}
    roof = roof_seconds(ModelConfig.named(load["model"]), requests_of(spec), rates)
    return {"roof_percent": f"{100 * roof / float(row['seconds']):.1f}"}


def against_peers(speeds):
    """A sentence: the course's engine over the best peer of this load, none of which is stored twice."""
    peers = {name: speed for name, speed in speeds.items() if not name.startswith("course")}
    if "course" not in speeds or not peers:
        return "no ratio: the course's engine or every peer is missing"
    best = max(peers, key=peers.get)
    return f"course: {speeds['course'] / peers[best]:.3f} of the best peer, {best}"


def arguments(parser):
    """Options of this benchmark."""
    parser.add_argument("--variants", nargs="+", help="only these variants")
    parser.add_argument("--limit", type=float, default=240, help="seconds of one variant, its start included")
    parser.add_argument("--temperature", type=float, default=0.6, help="of the course's engine and nano-vllm")
    parser.add_argument("--max-tokens", type=int, default=16384, help="tokens of a step of the course's engine")
    parser.add_argument("--steps", type=Path, help="a CSV file to which the time of every offline step is appended")


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "host clock from the first arrival to the last token, after a warm run",
    keys=KEYS,
    values=VALUES,
    loads=loads,
    rows=rows_of,
    shown=("tokens_per_s", "roof_percent", "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "itl_p99_ms", "agreement"),
    compared=("seconds",),
    quick={"scenario": ("repeated", "shared")},
    runs=2,
    packages=("transformers",),
    arguments=arguments,
)


if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
