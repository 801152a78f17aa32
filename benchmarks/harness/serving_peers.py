"""Other engines on the requests of the serving benchmark: transformers' continuous and static batching, nano-vllm.

    PEERS    variant -> function(spec) that gives the columns of a row

nano-vllm is not part of this repository: spec["also"] names a folder with its package `nanovllm` and a module
`flash_attn` that gives it FlashInfer's kernels. Its model is Qwen3; with biases of zero in its projections it leaves
out the norms of query and key heads, so that it computes what the course's shape computes.

May import: torch, model_peers, serving_engines, and the peers inside functions.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import torch

from course_lib.model import Transformer, generate
from course_lib.serving import load, traces

from .model_peers import hugging_face
from .serving_engines import columns, requests_of, weights

PEER_SECONDS = 75  # of a timed run; what is not done by then is counted as far as it came
NANO_MODEL_LEN, NANO_PAGE = 4096, 256


def line_of(run, item, first, last, count):
    """A Timeline of `count` tokens between two moments; only these two were observed."""
    line = run.timelines[item.name] = load.Timeline(item.name, item.arrival, len(item.prompt))
    gap = (last - first) / max(1, count - 1)
    line.times, line.finish_reason = [first + gap * number for number in range(count)], "length"


def observed(run):
    """Columns of a run of whose tokens only the first and the last were observed."""
    return {name: value for name, value in columns(run).items() if not name.startswith("itl")}


# region: transformers
def continuous(spec, max_requests=None):
    """transformers' continuous batching, which generate_batch wraps: a request has its own max_new_tokens here."""
    from transformers import ContinuousBatchingConfig
    from transformers.generation.continuous_batching.utils import WorkloadHints

    requests, model = requests_of(spec), hugging_face(weights(spec), "paged|sdpa")
    longest = max(len(item.prompt) for item in requests), max(item.max_new_tokens for item in requests)
    settings = model.generation_config
    settings.max_new_tokens, settings.do_sample, settings.eos_token_id = longest[1], False, -1
    manager = model.init_continuous_batching(
        generation_config=settings, workload_hints=WorkloadHints(*longest, len(requests)),
        continuous_batching_config=ContinuousBatchingConfig(
            max_memory_percent=0.6, max_requests_per_batch=max_requests, allow_block_sharing=False,
        ),
    )  # fmt: skip
    resolved = manager.continuous_batching_config
    manager.warmup()
    manager.start()
    try:
        _continuous_run(manager, requests_of(spec, content=1000)[:8], 20, "warm", count=8)
        run, stopped = _continuous_run(manager, requests, PEER_SECONDS, "r")
    finally:
        if manager.is_running():
            manager.stop(block=True, timeout=10, hard_stop=True)
    graphs, overlap = resolved.cuda_graph_booleans, resolved.use_async_batching
    path = f"{model.config._attn_implementation}, graphs {graphs[0]:d}, async {overlap or 0:d}"
    return observed(run) | {"path": path, "note": stopped}


def _continuous_run(manager, requests, seconds, prefix, count=None):
    """(Run, sentence when it was stopped) of requests that all arrive at once."""
    start, items, outputs = time.perf_counter(), {}, {}
    for item in requests:
        name = f"{prefix}-{item.name}"
        items[name] = item
        given = {"max_new_tokens": count or item.max_new_tokens, "eos_token_id": -1, "record_timestamps": True}
        manager.add_request(list(item.prompt), request_id=name, **given)
    while len(outputs) < len(items) and time.perf_counter() - start < seconds and manager.is_running():
        result = manager.get_result(timeout=0.2)
        if result is not None and result.is_finished() and result.request_id in items:
            outputs[result.request_id] = result
    run = load.Run(seconds=time.perf_counter() - start)
    ended = len(outputs)
    if ended < len(items):  # a hard stop delivers what the others have so far
        manager.stop(block=True, timeout=10, hard_stop=True, keep_for_next_session=True)
        while (result := manager.get_result(timeout=0.2)) is not None:
            outputs.setdefault(result.request_id, result)
    for name, result in outputs.items():
        if name in items and result.timestamps:
            times = [moment - start for moment in result.timestamps if moment - start <= run.seconds]
            if times:
                line_of(run, items[name], times[0], times[-1], len(times))
    return run, "" if ended == len(items) else f"stopped: {ended} of {len(items)} requests ended in {seconds} s"


def static_compiled(spec, batch_size=64):
    """transformers' generate with a static cache, which it compiles: batches in turn, padded on the left."""
    from transformers import StaticCache

    requests, model = requests_of(spec), hugging_face(weights(spec), "sdpa")
    size = min(batch_size, len(requests))
    width, longest = max(len(item.prompt) for item in requests), max(item.max_new_tokens for item in requests)
    cache = StaticCache(config=model.config, max_cache_len=width + longest)

    def generated(batch, count):
        cache.reset()
        ids = torch.zeros(size, width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, item in enumerate(batch):
            ids[row, width - len(item.prompt) :] = torch.tensor(item.prompt)
            mask[row, width - len(item.prompt) :] = 1
        mask[len(batch) :, -1] = 1
        given = {"max_new_tokens": count, "min_new_tokens": count, "do_sample": False, "past_key_values": cache}
        model.generate(ids.to(model.device), attention_mask=mask.to(model.device), **given)
        if spec["device"] == "cuda":
            torch.cuda.synchronize()

    generated(requests[:size], 4)
    generated(requests[:size], 4)
    run, start, done = load.Run(), time.perf_counter(), 0
    while done < len(requests) and time.perf_counter() - start < PEER_SECONDS:
        batch, began = requests[done : done + size], time.perf_counter() - start
        count = max(item.max_new_tokens for item in batch)
        generated(batch, count)
        step = (time.perf_counter() - start - began) / count
        for item in batch:
            line_of(run, item, began + step, began + step * item.max_new_tokens, item.max_new_tokens)
        done += len(batch)
    run.seconds = time.perf_counter() - start
    row = {name: value for name, value in observed(run).items() if "_ms" not in name}
    stopped = "" if done == len(requests) else f"stopped: {done} of {len(requests)} requests ended in {PEER_SECONDS} s"
    return row | {"path": f"sdpa, static cache, compiled, batch {size}", "note": stopped}


# endregion


# region: nano
def nano_vllm(spec):
    """nano-vllm on FlashInfer's kernels, CUDA graphs on; its own bench.py's settings and temperature."""
    if not spec["also"] or not Path(spec["also"], "nanovllm").is_dir():
        raise ModuleNotFoundError("no package nanovllm under --also")
    sys.path.insert(0, spec["also"])
    import flash_attn
    from nanovllm import LLM, SamplingParams
    from nanovllm.engine import llm_engine, model_runner

    model_runner.load_model = lambda model, _: _fill(model, weights(spec).to_hugging_face())
    llm_engine.AutoTokenizer = SimpleNamespace(from_pretrained=lambda *_, **__: SimpleNamespace(eos_token_id=-1))
    flash_attn.install(model_runner.ModelRunner, NANO_MODEL_LEN, NANO_PAGE)
    requests = requests_of(spec)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(_qwen3(weights(spec).config)), encoding="utf-8")
        llm = LLM(
            folder, enforce_eager=False, max_model_len=NANO_MODEL_LEN, max_num_seqs=min(256, len(requests)),
            gpu_memory_utilization=0.85,
        )  # fmt: skip
    temperature, rate = max(spec["temperature"], 1e-4), spec["load"].get("rate")
    _nano_run(llm, SamplingParams, requests_of(spec, content=1000), temperature)
    runs = []
    for number in range(1 if rate else spec["runs"]):
        requests = requests_of(spec, content=number or None)
        requests = traces.arriving(requests, rate) if rate else requests
        runs.append(_nano_run(llm, SamplingParams, requests, temperature))
    share = _agreement(llm, SamplingParams, spec)
    row = observed(sorted(runs, key=lambda run: run.seconds)[len(runs) // 2])
    path = f"FlashInfer fa2, graphs 1, temperature {temperature:g}"
    return row | {"path": path, "agreement": f"{share:.3f}"}


def _qwen3(config):
    """config.json of Qwen3 in a shape of the course."""
    values = config.to_hugging_face() | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
    return values | {"attention_bias": True, "dtype": "bfloat16"}


def _fill(model, tensors):
    """Copy tensors under their names in transformers into nano-vllm's model, whose projections are packed."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data.zero_()
    for name, tensor in tensors.items():
        part = next((part for part in model.packed_modules_mapping if part in name), None)
        if part is None:
            model.get_parameter(name).data.copy_(tensor)
            continue
        whole, shard = model.packed_modules_mapping[part]
        parameter = model.get_parameter(name.replace(part, whole))
        parameter.weight_loader(parameter, tensor, shard)


def _nano_run(llm, params, requests, temperature):
    """The Run of requests at their arrivals; the first and the last token of each are observed."""
    run, remaining, live, start = load.Run(), list(requests), {}, time.perf_counter()
    while remaining or live:
        now = time.perf_counter() - start
        while remaining and remaining[0].arrival <= now:
            item = remaining.pop(0)
            given = params(temperature=temperature, ignore_eos=True, max_tokens=item.max_new_tokens)
            llm.add_request(list(item.prompt), given)
            live[llm.scheduler.waiting[-1].seq_id] = [item, llm.scheduler.waiting[-1], None]
        if not live:
            time.sleep(max(0.0, remaining[0].arrival - now))
            continue
        outputs, num_tokens = llm.step()
        now = time.perf_counter() - start
        if num_tokens > 0:
            for entry in live.values():
                entry[2] = now if entry[2] is None and entry[1].num_completion_tokens else entry[2]
        for number, tokens in outputs:
            item, _, first = live.pop(number)
            line_of(run, item, now if first is None else first, now, len(tokens))
    run.seconds = time.perf_counter() - start
    return run


def _agreement(llm, params, spec, num_prompts=4, prompt_len=300, count=16):
    """Share of nano-vllm's tokens, nearly greedy, that equal the course's model's before they first differ."""
    prompts = [list(item.prompt) for item in traces.fixed_trace(num_prompts, prompt_len, count, seed=7)]
    wanted = generate(Transformer(weights(spec)), prompts, max_new_tokens=count)
    for prompt in prompts:
        llm.add_request(prompt, params(temperature=1e-4, ignore_eos=True, max_tokens=count))
    found = {}
    while not llm.is_finished():
        found |= dict(llm.step()[0])
    same = 0
    for (_, row), right in zip(sorted(found.items()), wanted, strict=True):
        same += next((i for i, (a, b) in enumerate(zip(row, right, strict=True)) if a != b), count)
    return same / (num_prompts * count)


# endregion


PEERS = {
    "transformers_generate_batch": continuous,
    "transformers_generate_batch_64": lambda spec: continuous(spec, 64),
    "transformers_static_compile": static_compiled,
    "nano_vllm_flashinfer": nano_vllm,
}
