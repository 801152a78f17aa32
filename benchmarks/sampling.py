"""Time sampling beside FlashInfer, a sort in torch and torch.compile, and a copy of the logits.

    python3 -m benchmarks.sampling --out benchmarks/results/h200/sampling.csv
    python3 -m benchmarks.sampling --dry      tiny sizes on a CPU, to try the script

Normal logits times three; top-k 50, top-p 0.9. FlashInfer takes float32 alone and its own noise; its functions of
probabilities are timed with the softmax that they need. `gbps` counts one read of the logits. A variant is right when
every token of its first rows is one that float64 keeps. In turns, not from graphs: FlashInfer draws its seeds
on the host. torch.compile takes longer than all else together and fails with most filters: it is asked for the first
load of each filter.
"""

import sys
from functools import partial

import torch

from benchmarks.harness import main
from benchmarks.harness.layers import NAMES, Layer, benchmark_of_layers, installed
from course_lib.ops import sampling as ops
from course_lib.reference import sampling as reference

SIZES = ((128, 128256), (8, 128256), (1, 128256), (128, 32000), (8, 32000), (1, 32000))  # what matters most first
DRY_SIZES = ((3, 50),)
TOP_K, TOP_P, MIN_P = 50, 0.9, 0.05
CHECKED_ROWS = 8
NOT_COMPILED = "not run: compiled for one load of each filter alone"
FILTERS = {"none": (), "top_p": ("top_p",), "min_p": ("min_p",), "top_k_top_p": ("top_k", "top_p")}


def loads(dry):
    sizes = [dict(zip(("num_rows", "num_cols"), size, strict=True)) for size in (DRY_SIZES if dry else SIZES)]
    dtypes = ("float32", "bfloat16")
    return [{"filter": name} | size | {"dtype": dtype} for size in sizes for dtype in dtypes for name in FILTERS]


def sorted_sample(logits, noise, names):
    """What torch does: sort, running sums, a search among them; the tokens in the order of the sort."""
    x, tokens = logits.float().sort(dim=-1, descending=True)
    if "top_k" in names:
        x, tokens = x[:, :TOP_K], tokens[:, :TOP_K]
    probs = torch.softmax(x, dim=-1)
    if "top_p" in names:
        probs = torch.where(probs.cumsum(-1) - probs < TOP_P, probs, 0.0)
    if "min_p" in names:
        probs = torch.where(probs >= MIN_P * probs[:, :1], probs, 0.0)
    upto = probs.cumsum(-1)
    place = torch.searchsorted(upto, noise[:, None] * upto[:, -1:], right=True)
    return (tokens.gather(-1, place.clamp(max=upto.shape[-1] - 1))[:, 0],)


def flashinfer(name, logits):
    """FlashInfer's function for the same filters, as a function without arguments."""
    function = {
        "none": "sampling_from_logits",
        "top_p": "top_p_sampling_from_probs",
        "min_p": "min_p_sampling_from_probs",
        "top_k_top_p": "top_k_top_p_sampling_from_logits",
    }[name]
    sample, x = installed("flashinfer.sampling", function), logits.float()
    if name == "none":
        return lambda: (sample(x),)
    if name == "top_k_top_p":
        return lambda: (sample(x, TOP_K, TOP_P),)
    return lambda: (sample(torch.softmax(x, dim=-1), TOP_P if name == "top_p" else MIN_P),)


def run_ours(launch):
    """The function that runs a launch and returns its tokens, which are no tokens before."""
    launch.outputs[0].fill_(-1)

    def run():
        launch.run()
        return launch.outputs

    return run


def rows_of(load, options):
    """The rows of one size and filter."""
    num_rows, names = load["num_rows"], FILTERS[load["filter"]]
    shape, dtype = (num_rows, load["num_cols"]), getattr(torch, load["dtype"])
    logits = (3.0 * torch.randn(shape, device=options.device)).to(dtype)
    noise, ones = torch.rand(num_rows, device=options.device), torch.ones(num_rows, device=options.device)
    values = {"top_k": (ones * TOP_K).int(), "top_p": ones * TOP_P, "min_p": ones * MIN_P}
    filters = {name: values[name] for name in names}
    first = {name: value[:CHECKED_ROWS] for name, value in filters.items()}
    kept = reference.kept_probabilities(logits[:CHECKED_ROWS], ones[:CHECKED_ROWS], **first)
    check = partial(error_of, kept=kept)
    layer = Layer(options, logits.numel() * logits.element_size(), check, 0.0, graphs=False)
    layer.ours("01_pivots", "cuda", lambda: run_ours(ops.plan(logits, ones, noise, **filters)))
    layer.torch("sort", lambda: partial(sorted_sample, logits, noise, names))
    if options.earlier.setdefault(load["filter"], load) is load:
        layer.compiled(sorted_sample, logits, noise, names)
    elif not options.dry:
        layer.variants.skip({"variant": "torch.compile", "language": "peer"}, NOT_COMPILED)
    layer.peer("flashinfer", lambda: flashinfer(load["filter"], logits))
    yield from layer.rows(load)


def error_of(outputs, kept):
    """The share of the checked rows whose token is none, or one that is not kept."""
    tokens = outputs[0][: len(kept)].long()
    known = (tokens >= 0) & (tokens < kept.shape[1])
    probabilities = kept.gather(-1, torch.where(known, tokens, 0)[:, None])[:, 0]
    return (~known | (probabilities == 0)).double().mean().item()


BENCHMARK = benchmark_of_layers(
    __doc__, __file__, keys=("filter", *NAMES, "num_rows", "num_cols", "dtype"),
    loads=loads, rows=rows_of, quick={"num_rows": (128,), "num_cols": (128256,)}, graphs=False,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
