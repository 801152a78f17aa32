"""Cases and runs of attention's backward pass, and inputs made for its probes.

A backward pass gets lse and out as inputs, so a probe may hand over ones that no forward pass gave: with lse = 0 a
weight is exp(score), and with scores of 0 it is 1. Then a gradient counts pairs of a query and a key.

May import: protocol, spec, reference, flash_attention.cases.
"""

import torch

from ....reference import attention as reference
from ....reference import attention_gradients as gradients
from ...exercise.spec import Case, late
from ...processes.protocol import Ref, Run
from ..attention.cases import scale_of
from ..flash_attention import cases as cases
from ..flash_attention.cases import BLOCK_M, BLOCK_N
from .cases import EXPONENT, FARTHER, constexprs

HEAD_DIM, BLOCK_D = 20, 32
ROOT = HEAD_DIM**0.5
HALF = {"dtype": "float16", "scale": 0.25}  # a power of two: q times it is exact
FIRST, LATER = 128.0, 0.06  # half precision cannot add 0.06 to 128: its numbers are 0.125 apart there


def backward_case(name, num_q, num_kv, values="normal", schedules=("forward",), heads=(1, 1, 1), dtype="float32",
                  causal=True, **options):  # fmt: skip
    """A case of the backward pass; heads are (batch_size, num_heads, num_kv_heads)."""
    sizes = dict(zip(cases.SIZES, (*heads, num_q, num_kv, options.pop("head_dim", HEAD_DIM)), strict=True))
    return Case(name, sizes, values, dtype, {"causal": causal, **options}, schedules)


def made_case(name, num_q, num_kv, heads=(1, 1, 1), causal=True, options=None, **made):
    """A case whose tensors are made for one question; see `_made`. `options` are those of backward_case."""
    return backward_case(name, num_q, num_kv, "zeros", heads=heads, causal=causal, made=made, **(options or {}))


def exponent_case():
    """A case in half precision whose score minus lse half precision cannot hold; d_out makes d_v about 1."""
    options = {**HALF, "exponent": EXPONENT}
    return made_case("half, weights of 1/4,000", 1, 3, causal=False, options=options, lse=-EXPONENT, d_out=2.0**12)


def fading_case(name, num_q, num_kv, fades, heads=(1, 1, 1), **made):
    """A case in half precision whose sum is FIRST, some LATER, and -FIRST; `fades` as in `_made`."""
    options = {**HALF, "block_m": 16, "long": fades[1] == "rows"}
    return made_case(name, num_q, num_kv, heads, causal=False, options=options, fades=fades, **made)


def backward_inputs(case, gen):
    """{"q", "k", "v", "d_out", "out", "lse"}: out and lse as a forward pass leaves them, in the case's dtype."""
    tensors = cases.heads_inputs(case, gen)
    if "made" in case.options:
        return _made(tensors, **case.options["made"])
    dtype = tensors["q"].dtype
    tensors["v"] += case.options.get("v_shift", 0.0)
    scale = scale_of(case, case.sizes["head_dim"])
    if case.options.get("low_by_q"):  # not by k, whose -12000 would make any tolerance of d_q large
        tensors["q"][..., -1], tensors["k"][..., -1] = -12000.0 / scale, 1.0
    out, lse = reference.attention_lse(**tensors, softmax_scale=scale, causal=case.options["causal"])
    d_out = torch.randn(out.shape, generator=gen).to(dtype)
    return tensors | {"d_out": d_out, "out": out.to(dtype), "lse": lse.to(torch.float32)}


def _made(tensors, *, score=0.0, lse=0.0, v=1.0, out=0.0, d_out=1.0, numbered="", fades=()):
    """Four columns carry everything, all others are 0.

    q: column 0 is sqrt(d), so that d_k's column 0 is a sum of d_S. k: column 1 is sqrt(d), so that d_q's column 1 is
    one, too. The last columns of q and k make every scaled score `score`. d_out: column 0 is `d_out`, v and out hold
    `v` and `out` there, so that with d_out = 1 d_P = v and D = out, and d_v's column 0 is a sum of P.

    numbered: names of tensors ("q", "k", "d_out") whose column is multiplied by a number of its head: 2^(h + 4 b) for
    query heads, 10 b + h for key-value heads.
    fades: () or (tensor, "heads" or "rows"): its column is FIRST in the first head, or in the first 16 rows together,
    -FIRST in the last ones and LATER between.
    """
    shape_q, shape_kv = tensors["q"].shape, tensors["k"].shape
    made = {name: torch.zeros(shape_q) for name in ("q", "d_out", "out")}
    made |= {name: torch.zeros(shape_kv) for name in ("k", "v")}
    made["q"][..., 0], made["k"][..., 1] = ROOT, ROOT
    made["q"][..., -1], made["k"][..., -1] = ROOT, score
    made["d_out"][..., 0], made["v"][..., 0], made["out"][..., 0] = d_out, v, out
    batch, head = torch.arange(shape_q[0])[:, None], torch.arange(shape_q[1])[None, :]
    powers = 2.0 ** (head + 4 * batch)
    numbers = (10.0 * batch + head)[:, : shape_kv[1]]
    for name, column in (("q", 0), ("d_out", 0), ("k", 1)):
        if name in numbered:
            made[name][..., column] *= (numbers if name == "k" else powers)[:, :, None]
    if fades:
        name, along = fades
        column = made[name][..., 1 if name == "k" else 0]
        terms, column = (1, column.transpose(1, 2)) if along == "heads" else (16, column)
        column.fill_(LATER / terms)
        column[..., :terms], column[..., -terms:] = FIRST / terms, -FIRST / terms
    made = {name: tensor.to(tensors[name if name in tensors else "q"].dtype) for name, tensor in made.items()}
    return made | {"lse": torch.full(shape_q[:3], float(lse))}


def backward_run(case, tensors, names, outputs, grid):
    """A run: the tensors `names`, `outputs` (name -> the input whose shape it has), sizes, scale, causal."""
    _, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    shapes = {name: (tuple(tensors[like].shape), case.dtype) for name, like in outputs.items()}
    arguments = tuple(Ref(name) for name in (*names, *shapes))
    arguments += (num_heads // num_kv_heads, num_q, num_kv, scale_of(case, head_dim), int(case.options["causal"]))
    return Run(case.name, tensors, shapes, arguments, grid=grid, constants=constexprs(case))


def oracle(*names):
    """(case, tensors) -> the named gradients in float64."""
    return lambda case, tensors: _chosen(names, gradients.gradients_from_lse, case, tensors)


def baseline(*names):
    """(case, tensors) -> the named gradients with what the contracts round rounded; see `_rounded`."""
    return lambda case, tensors: _chosen(names, _rounded, case, tensors)


def _rounded(q, k, v, out, lse, d_out, *, softmax_scale, causal):
    """(d_q, d_k, d_v) in q's dtype. Rounded to it are P and d_S, before their products, and the gradients.

    Scores, d_P, D and all sums are float32 also for half, so a tolerance for half leaves no room for others.
    """
    dtype = q.dtype
    q, k, v, out, d_out = (tensor.float() for tensor in (q, k, v, out, d_out))
    probs = gradients.probs_from_lse(reference.rounded_scores(q, k, softmax_scale=softmax_scale, causal=causal), lse)
    row_dot = (d_out * out).sum(dim=-1, keepdim=True)
    d_probs = d_out @ reference.of_each_query_head(v, q).transpose(-1, -2)
    d_scores = (probs * (d_probs - row_dot) * softmax_scale).to(dtype).float()
    d_q = d_scores @ reference.of_each_query_head(k, q)
    d_k = gradients.of_each_kv_head(d_scores.transpose(-1, -2) @ q, k)
    d_v = gradients.of_each_kv_head(probs.to(dtype).float().transpose(-1, -2) @ d_out, v)
    return d_q.to(dtype), d_k.to(dtype), d_v.to(dtype)


def terms(*names):
    """(case, tensors) -> the magnitudes of what the named gradients are sums of."""
    return lambda case, tensors: _chosen(names, gradients.gradient_terms, case, tensors)


def _chosen(names, function, case, tensors):
    scale = scale_of(case, case.sizes["head_dim"])
    found = function(**tensors, softmax_scale=scale, causal=case.options["causal"])
    return {name: dict(zip(("d_q", "d_k", "d_v"), found, strict=True))[name] for name in names}


COMMON = (
    backward_case("one query, seven keys", 1, 7, schedules=("forward", "reverse")),  # with one, d_S is 0 whatever q is
    backward_case("exactly one tile", BLOCK_M, BLOCK_N, causal=False, head_dim=BLOCK_D),
    backward_case("one above a tile", BLOCK_M + 1, BLOCK_N + 1, schedules=("forward", "reverse"), causal=False),
    backward_case("causal square", 33, 33),
    backward_case("causal, grouped heads", 18, 19, heads=(1, 4, 2)),
    late(backward_case("several batches", 18, 18, heads=(2, 2, 1), causal=False)),
    backward_case("more queries than keys", 50, 20),
    backward_case("one query", 1, 33),
    backward_case("softmax_scale 0.3", 9, 18, scale=0.3),
    backward_case("tiles of 16 queries", 18, 37, block_m=16),
    late(backward_case("tiles of 64 queries", 61, 70, block_m=64)),
    backward_case("tiles of 32 keys", 9, 70, block_n=32),
    late(backward_case("head_dim 128", 9, 18, head_dim=128)),
    late(backward_case("groups of three", 3, 18, heads=(2, 6, 2))),
    late(backward_case("1100 queries", 1100, 3, block_m=128, causal=False, long=True)),
    late(backward_case("1100 keys", 3, 1100, block_n=128, causal=False, long=True)),
    backward_case("scores near -12000", 9, 18, "minus_12000"),
    backward_case("scores below -1e30", 5, 7, "below_1e9", scale=FARTHER),
    backward_case("scores near -100", 32, 33, "minus_100"),
    backward_case("scores near +100", 32, 33, "plus_100"),
    backward_case("one score of 120", 32, 20, "spikes", causal=False),
    late(backward_case("groups of forty", 1, 3, heads=(1, 40, 1))),
    backward_case("half, ragged", 21, 33, dtype="float16"),
    backward_case("half, few queries", 5, 18, dtype="float16"),
    backward_case("half, scores near +100", 5, 18, "plus_100", dtype="float16", scale=0.3),
)


def whole_case():
    """A case in which every tile is full: BLOCK_M queries, BLOCK_N keys, head_dim = BLOCK_D."""
    sizes = dict(zip(cases.SIZES, (1, 1, 1, BLOCK_M, BLOCK_N, BLOCK_D), strict=True))
    return Case("whole tiles", sizes, options={"causal": False}, schedules=("forward",))
