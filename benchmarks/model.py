"""Time GPT-2 and a Llama of 1.1 billion weights, one idea after the other, beside transformers.

    python3 -m benchmarks.model --out benchmarks/results/h200/model.csv
    python3 -m benchmarks.model --dry      tiny shapes on a CPU, to try the script

Random weights, greedy, 256 new tokens; GPT-2's context of 1,024 takes prompts of 128 and 768. The prompts of a batch
are of one length. A run is `generate`, prompt to last token, timed by the host after two warm ones, of all tokens and
of one: kernels are compiled then, and graphs recorded, of the course and of the peers alike. prefill_ms is a run of one
token, step_ms the rest of the time for each further token. What launches its kernels one by one makes 32 tokens in
place of 256, what has no cache 4 (column made): a step costs them the same, token after token.

A variant has LIMIT_S seconds for its timed runs; fewer runs are made where they take longer. A rung whose float32
attention needs more by its FLOPs alone is a row without numbers, whose note says so, and so is what is not begun when
LOAD_S seconds of a load are over; FIRST is measured first.

tokens_per_s   256 new tokens of all rows in the time prefill_ms + 255 step_ms; without a cache, whose steps grow, of
               the 4 tokens that were made
step_gbps      bytes that a step must read, weights and the keys and values of the mean length, over step_ms
roof_percent   the same of the card's peak rate; for speculation, whose steps make several tokens, both are left out
peak_gb        memory at its highest in the run, weights included
max_error      largest difference of the logits after a prompt and a step from those of torch in float32, over their
               standard deviation
agreement      share of the rows' greedy tokens that equal those of 06_fused_kernels before they first differ: near ties
               of random weights round either way, so this is reported, not judged

ratio_to_best_peer is the best peer's time over this one's, of prompt and 256 tokens. Speculation drafts by look-up: the
text of random weights repeats itself, so its acceptance says nothing about a trained model; accepted says how many
tokens a step made.
"""

import gc
import sys
import time
from types import SimpleNamespace

import torch

from benchmarks.harness import Benchmark, main
from benchmarks.harness.model_peers import COMPILED_PEERS, DRY_PEERS, PEERS
from benchmarks.harness.model_runs import agreement, timed, without_cache
from course_lib.device import KNOWN_GPUS
from course_lib.model import Decoder, ModelConfig, NgramDraft, Transformer, generate, random_weights, speculate

NEW_TOKENS, EAGER_TOKENS, NO_CACHE_TOKENS = 256, 32, 4
SIZES = {"gpt2": (128, 768), "llama-1.1b": (128, 2048)}  # prompts
DRY = {
    "gpt2": ModelConfig("gpt2", 211, 128, 2, 2, 2, 64, 128, 96),
    "llama-1.1b": ModelConfig("llama", 211, 128, 2, 2, 1, 64, 128, 96, tie_embeddings=False),
}
LIMIT_S = 4.0
FLOAT32_FLOPS = 1e12  # of attention in float32 a second, plain torch on an H200: 0.4e12 to 1e12, by the batch
LOAD_S = 60.0  # no variant of a load is begun after this time
REFERENCE = "06_fused_kernels"  # whose tokens the others are compared with
FIRST = (  # of a load's variants, so that what matters most is there when its time is over
    "08_five_launches", "07_cuda_graph", REFERENCE, "transformers_static_compile", "transformers_sdpa", "09_w4a16",
    "04_half_precision",
)  # fmt: skip
TOLERANCE = {torch.float32: 0.01, torch.bfloat16: 0.25}  # of max_error; four bits round the weights: not judged


# region: ladder
LADDER = {  # rung: (dtype, backend, kernels of their own, what else)
    "01_naive_no_cache": (torch.float32, "torch", {"attention": "naive"}, "no_cache"),
    "02_flash_no_cache": (torch.float32, "torch", {"attention": "course"}, "no_cache"),
    "03_kv_cache": (torch.float32, "torch", {"attention": "course"}, ""),
    "04_half_precision": (torch.bfloat16, "torch", {"attention": "course"}, ""),
    "05_decode_kernel": (torch.bfloat16, "torch", dict.fromkeys(("attention", "append", "decode"), "course"), ""),
    "06_fused_kernels": (torch.bfloat16, "fast", {"few_tokens": False}, ""),
    "07_cuda_graph": (torch.bfloat16, "fast", {"few_tokens": False}, "graph"),
    "08_five_launches": (torch.bfloat16, "fast", {}, "graph"),
    "09_w4a16": (torch.bfloat16, "fast", {}, "graph quantised"),
    "10_speculative": (torch.bfloat16, "fast", {}, "speculative"),
}
# endregion
ONE_REQUEST = ("01_naive_no_cache", "02_flash_no_cache", "10_speculative")  # rungs that are timed at batch 1 alone


def loads(dry):
    sizes = [
        {"model": name, "batch_size": batch_size, "prompt_len": 20 if dry else prompt_len}
        for batch_size in ((1, 2) if dry else (1, 32))
        for name, prompts in SIZES.items()
        for prompt_len in (prompts[:1] if dry else prompts)
    ]
    return [load | {"new_tokens": 6 if dry else NEW_TOKENS} for load in sizes]


class Case:
    """Weights and prompts of one load."""

    def __init__(self, load, options):
        config = DRY[load["model"]] if options.dry else ModelConfig.named(load["model"])
        self.device, self.load, self.config = options.device, load, config
        self.weights = random_weights(config, 0, dtype=torch.bfloat16, device=self.device)
        shape = (load["batch_size"], load["prompt_len"])
        ids = torch.randint(config.vocab_size, shape, generator=torch.Generator().manual_seed(1))
        self.prompts, self.new_tokens = ids.tolist(), load["new_tokens"]
        self.probe = ids[:1, :64].to(self.device)
        self.right = self.probed(Transformer(self.weights.to(dtype=torch.float32)).use("torch"))

    @torch.no_grad()
    def probed(self, model):
        """Logits after a short prompt and a step, float32."""
        cache = model.new_cache(1, self.probe.shape[1] + 1)
        first = model.prefill(self.probe, [self.probe.shape[1]], cache)
        return torch.cat((first, model.step(self.probe[:, 0], cache))).float()

    def model(self, rung):
        """The Transformer of a rung."""
        dtype, backend, kernels, more = LADDER[rung]
        model = Transformer(self.weights.to(dtype=dtype))
        if self.device == "cpu":  # the script is tried, not the kernels
            backend, kernels = "torch", {"attention": "naive"} if "naive" in kernels.values() else {}
        model.use(backend, **kernels)
        return model.quantised() if "quantised" in more else model

    def step_bytes(self, model):
        """Bytes that a step of the mean length reads: the weights but the tables of ids, and keys and values."""
        weights, tied = model.weights, self.config.tie_embeddings  # a tied table is read as the head
        names = {"positions.weight"} if tied else {"positions.weight", "embedding.weight"}
        tables = [x for name, x in weights.tensors.items() if name in names]
        length = self.load["prompt_len"] + self.new_tokens / 2
        kv = 2 * self.config.num_layers * self.config.kv_size * self.load["batch_size"] * length
        return weights.num_bytes - sum(x.nbytes for x in tables) + kv * weights["norm.weight"].element_size()


def course_run(case, model, more):
    """The function (number of new tokens) -> tokens of a rung."""
    longest = case.load["prompt_len"] + case.new_tokens
    if more == "no_cache":
        return lambda count: without_cache(model, case.prompts, count)
    if more == "speculative":

        def speculative(count):
            found = [
                speculate(model, prompt, NgramDraft(), max_new_tokens=count, num_draft=7) for prompt in case.prompts
            ]
            case.accepted = sum(map(len, (row for row, _ in found))) / sum(counts.rounds for _, counts in found)
            return [row for row, _ in found]

        return speculative
    graph = "graph" in more and case.device == "cuda"
    decoder = Decoder(model, len(case.prompts), longest, case.new_tokens, graph=graph)
    return lambda count: generate(model, case.prompts, max_new_tokens=count, decoder=decoder)


def too_long(case, rung):
    """Why a rung is not run, a sentence; None where it is."""
    config, load = case.config, case.load
    if LADDER[rung][0] != torch.float32 or case.device == "cpu":
        return None
    pairs = load["batch_size"] * load["prompt_len"] ** 2 / 2  # of a query and a key that it sees
    flops = 4 * config.num_layers * config.q_size * pairs
    if flops < LIMIT_S * FLOAT32_FLOPS:
        return None
    return (
        f"not run: {flops:.1e} FLOP of float32 attention in a prompt take {flops / FLOAT32_FLOPS:.0f} s or more; "
        f"a variant has {LIMIT_S:g} s"
    )


def numbers(case, taken, step_bytes):
    """The columns of a run; step_bytes None: a step makes no fixed number of tokens."""
    tokens, first, whole, peak = taken
    made, batch_size = len(tokens[0]), case.load["batch_size"]
    step = (whole - first) / (made - 1)
    seconds, count = (whole, made) if made == NO_CACHE_TOKENS else (whole_run(case, taken), case.new_tokens)
    row = {
        "tokens_per_s": f"{batch_size * count / seconds:.1f}", "prefill_ms": f"{first * 1e3:.3f}",
        "step_ms": f"{step * 1e3:.4f}", "peak_gb": f"{peak / 1e9:.2f}", "made": made,
    }  # fmt: skip
    if step_bytes and step > 0:
        row["step_gbps"] = f"{step_bytes / step / 1e9:.0f}"
        name = torch.cuda.get_device_name() if case.device == "cuda" else ""
        peak_gbps = next((gpu.memory_gbps for gpu in KNOWN_GPUS.values() if gpu.name == name), None)
        row["roof_percent"] = f"{100 * step_bytes / step / 1e9 / peak_gbps:.1f}" if peak_gbps else ""
    return row


def whole_run(case, taken):
    """Seconds of all new tokens, from a run of as many or fewer."""
    tokens, first, whole, _ = taken
    return first + (whole - first) / (len(tokens[0]) - 1) * (case.new_tokens - 1)


def measured(case, rung, options):
    """(row, tokens, seconds of the run) of a rung of the course."""
    dtype, _, _, more = LADDER[rung]
    why = too_long(case, rung)
    if why:
        return {"variant": rung, "note": why}, None, None
    model = case.model(rung)
    error = float((case.probed(model) - case.right).abs().max() / case.right.std())
    most = {"no_cache": NO_CACHE_TOKENS, "": EAGER_TOKENS}.get(more, NEW_TOKENS)
    count = min(case.new_tokens, most)
    taken = timed(course_run(case, model, more), count, 1 if more == "no_cache" else options.runs, case.device, LIMIT_S)
    plain = more not in ("no_cache", "speculative")
    row = {"variant": rung} | numbers(case, taken, case.step_bytes(model) if plain else None)
    row |= {"max_error": f"{error:.2g}", "accepted": f"{case.accepted:.2f}" if more == "speculative" else ""}
    if "quantised" not in more and not error <= TOLERANCE[dtype]:
        row["note"] = f"wrong: the logits are {error:.2g} standard deviations off"
    return row, taken[0], whole_run(case, taken) if plain else taken[2]


def rows_of(load, options):
    """The rows of one load: the ladder, then transformers."""
    began, found = time.perf_counter(), {}
    case = Case(load, options)
    peers = {name: peer for name, peer in PEERS.items() if not options.dry or name in DRY_PEERS}
    rungs = [rung for rung in LADDER if load["batch_size"] == 1 or rung not in ONE_REQUEST]
    first = [name for name in FIRST if name in (*rungs, *peers)]
    for name in dict.fromkeys((*first, *rungs, *peers)):
        if time.perf_counter() - began > LOAD_S:
            note = f"not run: the {LOAD_S:g} s of a load were over"
            found[name] = SimpleNamespace(row={"variant": name, "note": note}, tokens=None, seconds=None)
        elif name in peers:
            found[name] = attempt(name, lambda name=name: of_peer(case, name, peers[name], options))
        else:
            found[name] = attempt(name, lambda name=name: measured(case, name, options))
        spent = time.perf_counter() - began  # printed at once: a later variant may never end
        print(f"          {spent:5.1f} s: {found[name].row}", file=sys.stderr, flush=True)
        clear(case)
    for name in (*rungs, *peers):
        yield load | compared(found, name, peers)


def compared(found, name, peers):
    """A row with its comparisons: to the best peer's time, and to the tokens of REFERENCE."""
    result, wanted = found[name], found[REFERENCE].tokens if REFERENCE in found else None
    row, times = dict(result.row), [found[peer].seconds for peer in peers if found[peer].seconds]
    if result.tokens and wanted:
        row["agreement"] = f"{agreement(result.tokens, wanted):.3f}"
    if times and result.seconds and row.get("made") != NO_CACHE_TOKENS:
        row["ratio_to_best_peer"] = f"{min(times) / result.seconds:.3f}"
    return row


def of_peer(case, name, peer, options):
    """(row, tokens, seconds of the run) of a peer."""
    run = peer(case.weights, case.prompts, case.new_tokens)
    count = case.new_tokens if name in COMPILED_PEERS else min(case.new_tokens, EAGER_TOKENS)
    try:
        taken = timed(run, count, options.runs, case.device, LIMIT_S)
    finally:
        getattr(run, "close", lambda: None)()
    row = {"variant": name} | numbers(case, taken, case.step_bytes(Transformer(case.weights)))
    return row, taken[0], whole_run(case, taken)


def attempt(name, function):
    """What `function` measured; of one that fails, a row that says why: "wrong" where it is the course's own fault."""
    try:
        row, tokens, seconds = function()
    except Exception as error:  # a peer may raise anything; the other rows are still wanted
        sentence = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if name in LADDER and not isinstance(error, torch.OutOfMemoryError):
            sentence = f"wrong: {sentence}"
        return SimpleNamespace(row={"variant": name, "note": sentence[:160]}, tokens=None, seconds=None)
    return SimpleNamespace(row=row, tokens=tokens, seconds=seconds)


def clear(case):
    """Give back what the last variant held, so that the next one's peak is its own."""
    gc.collect()
    if case.device == "cuda":
        torch.compiler.reset()
        torch.cuda.empty_cache()


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "host clock from the prompts to the last token, medians after warm runs",
    keys=("variant", "model", "batch_size", "prompt_len", "new_tokens"),
    values=(
        "tokens_per_s", "prefill_ms", "step_ms", "step_gbps", "roof_percent", "ratio_to_best_peer", "peak_gb", "made",
        "accepted", "max_error", "agreement", "note",
    ),
    loads=loads,
    rows=rows_of,
    shown=("tokens_per_s", "prefill_ms", "step_ms", "roof_percent", "ratio_to_best_peer", "agreement", "note"),
    compared=("step_ms",),
    quick={"batch_size": (1,), "prompt_len": (128,)},
    runs=3,
    packages=("transformers",),
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
