"""Cases, inputs, launches and references of the consumers' walk over the tiles of keys, from the last to the first."""

import math

import torch

from course_lib.grading.exercise.spec import Case
from course_lib.grading.processes.protocol import MapRef, Ref, Run
from course_lib.grading.subjects.attention.cases import qkv
from course_lib.reference import attention as reference

SIZES = ("batch_size", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv", "head_dim")
LOG2_E = math.log2(math.e)
SWIZZLE, PANEL = "128B", 64
# (dtype, head_dim, keys of a tile, stages of the rings, consumer warpgroups)
SMALL, WIDE, DEEP = ("float16", 64, 32, 2, 2), ("bfloat16", 128, 48, 1, 2), ("bfloat16", 64, 16, 3, 3)
BROAD = ("float16", 64, 128, 2, 2)  # where the softmax is most of a step
FULL = ("bfloat16", 128, 96, 2, 2)  # where it is about half of one
PROBE_TILES = 5  # of the probes without a mask
STEP = 2.0  # by which the scores of the last tile of the walk exceed the others, in the probe "rescale"
FALL = 0.5  # by which the scores of a tile exceed those of the next one of the walk, in the probe "falling"


def case(name, sizes, build, values="normal", schedules=("forward",), **options):
    """A case of (B, H, Hkv, Nq, Nkv) for one of the builds above."""
    dtype, head_dim, block_n, stages, consumers = build
    options |= {"block_n": block_n, "stages": stages, "consumers": consumers}
    return Case(name, dict(zip(SIZES, (*sizes, head_dim), strict=True)), values, dtype, options, schedules)


def inputs(case, gen):
    """{"q", "k", "v"}: scores as the case says; for a probe, those of `_probe_inputs`."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    kv_shape = (batch_size, num_kv_heads, num_kv, head_dim)
    if "probe" in case.options:
        return _probe_inputs(case, num_q, num_kv, head_dim)
    tensors = qkv(case, gen, (batch_size, num_heads, num_q, head_dim), kv_shape)
    if case.options.get("strided"):  # (B, S, H, D) in memory
        return {name: x.transpose(1, 2).contiguous().transpose(1, 2) for name, x in tensors.items()}
    return tensors


def _probe_inputs(case, num_q, num_kv, head_dim):
    """Scores by tile of keys, as option "probe" says; column t of v is 1 for the keys of tile t.

    "equal": 0. "rescale": STEP in tile 0, the last of the walk, 0 elsewhere. "falling": FALL lower from tile to tile.
    """
    dtype = getattr(torch, case.dtype)
    q, k, v = (torch.zeros(1, 1, n, head_dim) for n in (num_q, num_kv, num_kv))
    tiles = torch.arange(num_kv) // case.options["block_n"]
    v[0, 0, torch.arange(num_kv), tiles] = 1.0
    scores = {"equal": 0.0 * tiles, "rescale": STEP * (tiles == 0), "falling": FALL * (tiles - PROBE_TILES + 1)}
    q[..., 0] = head_dim**0.5
    k[0, 0, :, 0] = scores[case.options["probe"]]
    return {name: x.to(dtype) for name, x in (("q", q), ("k", k), ("v", v))}


def run(case, tensors):
    """The launch: maps of q, k and v, out, lse, sizes; one block for each tile of queries and head."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    block_n, stages, consumers = (case.options[name] for name in ("block_n", "stages", "consumers"))
    block_m = 64 * consumers
    outputs = {
        "out": ((batch_size, num_heads, num_q, head_dim), case.dtype),
        "lse": ((batch_size, num_heads, num_q), "float32"),
    }
    boxes = (("q", block_m), ("k", block_n), ("v", block_n))
    maps = (MapRef(name, (1, 1, rows, PANEL), SWIZZLE) for name, rows in boxes)
    scale = case.options.get("softmax_scale", head_dim**-0.5) * LOG2_E
    sizes = (num_heads, num_heads // num_kv_heads, num_q, num_kv)
    element = {"float16": "__half", "bfloat16": "__nv_bfloat16"}[case.dtype]
    return Run(
        case.name,
        tensors,
        outputs,
        (*maps, Ref("out"), Ref("lse"), *sizes, scale, int(case.options.get("causal", False))),
        grid=(-(-num_q // block_m) * num_heads * batch_size, 1, 1),
        block=(128 * (consumers + 1), 1, 1),
        shared_bytes=(block_m + 2 * stages * block_n) * head_dim * 2,
        constants={
            "HEAD_DIM": head_dim,
            "ELEMENT": element,
            "BLOCK_N": block_n,
            "NUM_STAGES": stages,
            "NUM_CONSUMERS": consumers,
        },
        timeline=bool(case.options.get("timeline")),
    )


def oracle(case, tensors):
    return dict(zip(("out", "lse"), reference.attention_lse(**tensors, **_options(case)), strict=True))


def baseline(case, tensors):
    """The same with float32 sums, weights and result rounded to the inputs' dtype: what tensor cores leave."""
    q, k, v = (tensors[name].float() for name in ("q", "k", "v"))
    scores = reference.rounded_scores(q, k, **_options(case))
    lse = torch.logsumexp(scores, dim=-1)
    top = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - torch.where(torch.isfinite(top), top, 0.0))
    rounded = weights.to(tensors["v"].dtype).float() @ reference.of_each_query_head(v, q)
    out = rounded / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return {"out": out.to(tensors["v"].dtype), "lse": lse}


def largest_score(case, tensors):
    """Largest finite |score| of the keys that are seen."""
    scores = reference.rounded_scores(tensors["q"].double(), tensors["k"].double(), **_options(case))
    finite = scores[torch.isfinite(scores)].abs()
    return finite.max().item() if finite.numel() else 0.0


def _options(case):
    return {"softmax_scale": case.options.get("softmax_scale"), "causal": bool(case.options.get("causal"))}
