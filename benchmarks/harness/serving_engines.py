"""The course's own side of the serving benchmark: its engine in every setting, and static batching on its kernels.

    RUNS    scenario -> function(variant, spec) that gives the columns of a row

A spec is what a child process gets: load (a dict), device, dry, runs, seconds, temperature, max_tokens, steps, also.

May import: torch, course_lib.model, course_lib.serving, step_times.
"""

import functools
import gc
import time

import torch

from course_lib.model import Decoder, ModelConfig, Sampling, Transformer, random_weights
from course_lib.serving import ServingConfig, load, traces

from .step_times import recorder, store_steps

DRY_CONFIG = ModelConfig("llama", 211, 64, 2, 4, 2, 16, 96, 256, tie_embeddings=False)
PAGE_SIZE = 16
MEMORY_SHARE = 0.8  # of the memory that is free, for pages
VARIANTS = {  # name -> what differs from ServingConfig's defaults
    "course": {},
    "course_greedy": {},
    "course_deterministic": {"deterministic": True},
    "course_no_graphs": {"graphs": False},
    "course_no_overlap": {"overlap": False},
    "course_no_chunking": {"chunked": False},
    "course_no_prefix_cache": {"prefix": None},
}
GREEDY = ("course_greedy", "course_deterministic")
KEPT_STEPS = 500  # of an online run


def shape(spec):
    """The ModelConfig of a spec's load."""
    return DRY_CONFIG if spec["dry"] else ModelConfig.named(spec["load"]["model"])


@functools.cache
def _random(config, dtype, device):
    return random_weights(config, 0, dtype=dtype, device=device)


def weights(spec):
    """Random weights of a spec's load, kept for the next variant of this process."""
    return _random(shape(spec), torch.float32 if spec["dry"] else torch.bfloat16, spec["device"])


def requests_of(spec, *, content=None, temperature=0.0):
    """The requests of a spec's load; `content` draws other tokens of the same lengths."""
    given = spec["load"]
    more = {"vocab_size": min(traces.BENCH_IDS + 1, shape(spec).vocab_size)}
    more["sampling"] = Sampling(temperature=temperature)
    count, seed = given["num_requests"], 0 if content is None else content
    if given["trace"] == "uniform":
        return traces.uniform_trace(count, given["low"], given["high"], content=content, **more)
    if given["trace"] == "shared":
        sizes = given["shared_len"], given["prompt_len"] - given["shared_len"], given["output_len"]
        return traces.shared_prefix_trace(count, *sizes, seed=seed, **more)
    return traces.fixed_trace(count, given["prompt_len"], given["output_len"], seed=seed, **more)


def engine_of(variant, spec, requests, *, max_num_tokens=None):
    """A ServingEngine with room for all of the requests at once, as far as the card has memory."""
    from course_lib.serving.engine import ServingEngine

    model = Transformer(weights(spec))
    longest = max(len(item.prompt) + item.max_new_tokens for item in requests)
    wanted = sum(-(-(len(item.prompt) + item.max_new_tokens) // PAGE_SIZE) + 1 for item in requests)
    config = ServingConfig(
        num_pages=min(wanted, _pages_of_card(model)), page_size=PAGE_SIZE,
        max_num_tokens=max_num_tokens or spec["max_tokens"], max_num_seqs=min(256, len(requests)),
        max_model_len=min(longest, model.config.max_positions), **VARIANTS[variant],
    )  # fmt: skip
    return ServingEngine(model, config=config)


def _pages_of_card(model):
    """How many pages fit into the memory that is free."""
    if model.device.type != "cuda":
        return 1 << 12
    clear()
    config = model.config
    page = 2 * config.num_layers * config.kv_size * PAGE_SIZE * model.dtype.itemsize
    return int(torch.cuda.mem_get_info()[0] * MEMORY_SHARE) // page


def clear():
    """Give back what the last variant held."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# region: offline
def offline(variant, spec):
    """All requests at once: a warm run, then spec["runs"] timed ones of other tokens; medians."""
    temperature = 0.0 if variant in GREEDY else spec["temperature"]
    engine = engine_of(variant, spec, requests_of(spec))
    load.drive(engine, load.OpenLoop(requests_of(spec, content=1000, temperature=temperature)))
    runs, recorded, before = [], [], engine.stats()
    for number in range(spec["runs"]):
        requests = requests_of(spec, content=number or None, temperature=temperature)
        with recorder(engine) as steps:
            runs.append(load.drive(engine, load.OpenLoop(requests)))
        recorded = steps
    row = columns(sorted(runs, key=lambda run: run.seconds)[len(runs) // 2])
    row |= {"num_steps": len(recorded), "path": f"temperature {temperature:g}"} | host_share(before, engine.stats())
    store_steps(spec, variant, recorded)
    del engine
    clear()
    return row


# endregion


def host_share(before, after):
    """The column host_percent: the host's time in the engine's steps, over it and the wait for tokens."""
    host, wait = (getattr(after, name, 0) - getattr(before, name, 0) for name in ("host_s", "wait_s"))
    return {"host_percent": f"{100 * host / (host + wait):.1f}"} if host + wait else {}


def online(variant, spec):
    """Poisson arrivals at spec["load"]["rate"] after a warm run; the budget of a step is a server's."""
    base = requests_of(spec, temperature=spec["temperature"])
    engine = engine_of(variant, spec, base, max_num_tokens=2048 if not spec["dry"] else None)
    load.drive(engine, load.OpenLoop(requests_of(spec, content=1000, temperature=spec["temperature"])))
    with recorder(engine) as steps:
        row = columns(load.drive(engine, load.OpenLoop(traces.arriving(base, spec["load"]["rate"]))))
    store_steps(spec, variant, steps[:: 1 + len(steps) // KEPT_STEPS])
    del engine
    clear()
    return row


def repeated(variant, spec):
    """Time to the first token of prompts that are new, and of the same prompts sent again, one at a time."""
    prompts = requests_of(spec)
    engine = engine_of(variant, spec, prompts, max_num_tokens=8192)
    load.drive(engine, load.ClosedLoop(requests_of(spec, content=1000), 1))
    load.drive(engine, load.ClosedLoop(requests_of(spec, content=1000), 1))  # warms the short prefill of a hit too
    cold = load.drive(engine, load.ClosedLoop(prompts, 1))
    again = load.drive(engine, load.ClosedLoop(requests_of(spec), 1))
    row = columns(again)
    cold_ms = 1e3 * load.percentile([line.ttft for line in cold.timelines.values()], 50)
    row |= {"cold_ttft_p50_ms": f"{cold_ms:.2f}", "ttft_share": f"{float(row['ttft_p50_ms']) / cold_ms:.3f}"}
    del engine
    clear()
    return row


# region: static
def static(variant, spec):
    """Static batching on the course's own kernels and graph: a batch begins when the last one has ended.

    It takes the requests that have arrived, at most batch_size, and runs until the longest output of them is made.
    """
    rate, size = spec["load"].get("rate"), spec["load"].get("batch_size", 64)
    requests = requests_of(spec)
    requests = traces.arriving(requests, rate) if rate else requests
    model = Transformer(weights(spec))
    longest = [max(len(item.prompt) for item in requests), max(item.max_new_tokens for item in requests)]
    decoder = Decoder(model, size, sum(longest), longest[1])
    _static_batch(decoder, [[1] * longest[0]] * size, min(6, longest[1]), spec)  # records the graph
    run, remaining, start = load.Run(), list(requests), time.perf_counter()
    while remaining:
        now = time.perf_counter() - start
        batch = [item for item in remaining if item.arrival <= now][:size]
        if not batch:
            time.sleep(max(0.0, remaining[0].arrival - now))
            continue
        remaining = remaining[len(batch) :]
        _static_timed(decoder, batch, size, run, start, spec)
    run.seconds = time.perf_counter() - start
    return columns(run) | {"path": f"batch {size}"}


# endregion


@torch.no_grad()
def _static_batch(decoder, prompts, count, spec):
    """Run a batch. -> the host's time after the first token, and after the last"""
    decoder.start(prompts, [Sampling()] * len(prompts), count)
    _wait(spec)
    first = time.perf_counter()
    for _ in range(count - 1):
        decoder.advance()
    _wait(spec)
    return first, time.perf_counter()


def _wait(spec):
    if spec["device"] == "cuda":
        torch.cuda.synchronize()


def _static_timed(decoder, batch, size, run, start, spec):
    """A batch with its timelines; tokens between the first and the last are spread evenly, as its steps are."""
    count = max(item.max_new_tokens for item in batch)
    prompts = [list(item.prompt) for item in batch]
    prompts += [[1]] * (size - len(batch))  # a row that no request fills is computed all the same
    first, last = (moment - start for moment in _static_batch(decoder, prompts, count, spec))
    for item in batch:
        line = run.timelines[item.name] = load.Timeline(item.name, item.arrival, len(item.prompt))
        gap = (last - first) / max(1, count - 1)
        line.times = [first + gap * number for number in range(item.max_new_tokens)]
        line.finish_reason = "length"


def columns(run):
    """The columns of a Run as text, without those that are unknown."""
    digits = {"seconds": 3, "tokens_per_s": 1, "hit_rate": 3, "kv_peak": 3}
    row = {name: value for name, value in load.summary(run).items() if value is not None}
    for name, value in row.items():
        if isinstance(value, float):
            row[name] = f"{value:.{digits.get(name, 2)}f}"
    if errors := [line.error for line in run.timelines.values() if line.error]:
        row["note"] = f"failed: {len(errors)} requests, the first with: {errors[0]}"[:160]
    return row


RUNS = {"offline": offline, "shared": offline, "online": online, "repeated": repeated}
