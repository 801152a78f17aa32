"""Cases, inputs and runs of attention in tiles: one head in torch, whole batches in CUDA and Triton.

May import: spec, protocol, inputs, magnitude, reference, attention.cases.
"""

import torch

from ....reference import attention as reference
from ...exercise import magnitude
from ...exercise.spec import Case
from ...processes.protocol import Ref, Run
from ..attention.cases import qkv, scale_of

BLOCK_M, BLOCK_N = 32, 16  # tiles of the kernel exercises, but for the cases that have options["tiles"]
SIZES = ("batch_size", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv", "head_dim")
FIRST, LATER = 4.0, 0.0019  # with equal weights: 16 * 4 = 64, to which half precision can add no 16 * 0.0019
SCRATCH = ("m", "l")  # outputs that are not compared
HEAD_DIM = 20  # of the kernel exercises: neither a power of two nor a tile


def heads_case(name, sizes, values="normal", schedules=(), **options):
    """A case of (batch_size, num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim)."""
    return Case(name, dict(zip(SIZES, sizes, strict=True)), values, options=options, schedules=schedules)


def case(name, num_q, num_kv, values="normal", schedules=("forward",), heads=(1, 1, 1), **options):
    """A case of HEAD_DIM columns, or options["head_dim"]; heads = (batch_size, num_heads, num_kv_heads)."""
    head_dim = options.get("head_dim", HEAD_DIM)
    return heads_case(name, (*heads, num_q, num_kv, head_dim), values, schedules, **options)


def tile_edges(case, schedules, block_m=BLOCK_M, block_n=BLOCK_N):
    """Four cases made by a function like `case`: a single key, and a tile of queries and keys more or less one."""
    return (
        case("one query, one key", 1, 1, schedules=schedules),
        case("exactly one tile", block_m, block_n),
        case("one below a tile", block_m - 1, block_n - 1),
        case("one above a tile", block_m + 1, block_n + 1, schedules=schedules),
    )


def score_cases(case):
    """Five cases made by a function like `case`: one query, scores that rise and fall, and scores far below 0."""
    return (
        case("one query", 1, 45),
        case("rising scores", 9, 53, "rising", ("reverse",)),
        case("falling scores", 9, 53, "falling"),
        case("scores near -100", 5, 45, "minus_100"),
        case("scores near -12000", 5, 45, "minus_12000"),
    )


def tiles(case):
    """(BLOCK_M, BLOCK_N) of a kernel's case."""
    return case.options.get("tiles", (BLOCK_M, BLOCK_N))


def one_head(num_q, num_kv):
    """The sizes of one head of HEAD_DIM columns, for probes."""
    return case("", num_q, num_kv).sizes


HEADS = case("heads", 1, 3, "zeros", heads=(2, 4, 2), v_of_head=True)  # for masks.head_probe


def heads_inputs(case, gen):
    """{"q": (B, H, Nq, D), "k", "v": (B, Hkv, Nkv, D)}.

    With options["v_of_head"] v holds 10 * batch + its head; with options["v_fades"] FIRST in the first tile of keys and
    LATER in all others.
    """
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    kv_shape = (batch_size, num_kv_heads, num_kv, head_dim)
    tensors = qkv(case, gen, (batch_size, num_heads, num_q, head_dim), kv_shape)
    if case.options.get("v_of_head"):
        numbers = 10.0 * torch.arange(batch_size)[:, None] + torch.arange(num_kv_heads)[None, :]
        tensors["v"] = numbers[:, :, None, None].expand(kv_shape).clone()
    if case.options.get("v_fades"):
        later = torch.arange(num_kv)[:, None] >= BLOCK_N
        tensors["v"] = torch.where(later, LATER, FIRST).expand(kv_shape).to(tensors["v"].dtype)
    return tensors


def heads_run(case, tensors, *, threads=1, constants=None, **extra):
    """(q, k, v, out, m, l, lse, num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale), grid (num_heads, batch_size)."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    rows = (batch_size, num_heads, num_q)
    outputs = {"out": ((*rows, head_dim), "float32"), **{name: (rows, "float32") for name in (*SCRATCH, "lse")}}
    arguments = tuple(Ref(name) for name in ("q", "k", "v", *outputs))
    arguments += (num_heads // num_kv_heads, num_q, num_kv, scale_of(case, head_dim))
    block_m, block_n = tiles(case)
    defines = {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n} | (constants or {})
    grid = (num_heads, batch_size, 1)
    return Run(case.name, tensors, outputs, arguments, grid=grid, block=(threads, 1, 1), constants=defines, **extra)


def head_case(name, num_q, num_kv, head_dim=8, block_m=8, block_n=16, values="normal", **options):
    """A case of one head in torch."""
    sizes = {"seq_len_q": num_q, "seq_len_kv": num_kv, "head_dim": head_dim, "block_m": block_m, "block_n": block_n}
    return Case(name, sizes, values, options=options)


def head_cases(*, many_keys, many_queries, long):
    """The cases of one head in torch; those that are given as arguments of `head_case` are of each exercise's own."""
    return (
        head_case("one query, one key", 1, 1),
        head_case("exactly one tile", 8, 16),
        head_case("one below a tile", 7, 15),
        head_case("one above a tile", 9, 17),
        head_case("tiles of one", 3, 5, block_m=1, block_n=1),
        head_case("ragged", 37, 53, 21),
        head_case("more queries than keys", 50, 20),
        head_case("narrow tiles of queries", 11, 20, 12, 3, 7),
        head_case("tiles wider than the head has rows", 5, 9, 4, 64, 128),
        head_case(*many_keys),
        head_case(*many_queries),
        head_case("one query", 1, 45),
        head_case("rising scores", 9, 53, 9, values="rising"),
        head_case("falling scores", 9, 53, values="falling"),
        head_case("scores near -100", 5, 45, values="minus_100"),
        head_case("scores near -12000", 5, 45, values="minus_12000"),
        head_case("scores near +100", 5, 45, values="plus_100"),
        head_case("one score of 120", 9, 50, values="spikes"),
        head_case(*long),
    )


def one_torch_head(num_q, num_kv):
    """The sizes of one head in torch, for probes."""
    return head_case("", num_q, num_kv).sizes


def head_inputs(case, gen):
    """{"q": (seq_len_q, head_dim), "k", "v": (seq_len_kv, head_dim)}."""
    num_q, num_kv, head_dim = (case.sizes[name] for name in ("seq_len_q", "seq_len_kv", "head_dim"))
    return qkv(case, gen, (num_q, head_dim), (num_kv, head_dim))


def head_run(case, tensors):
    """(q, k, v, block_m, block_n) -> (out, lse)."""
    outputs = {"out": (tuple(tensors["q"].shape), "float32"), "lse": ((len(tensors["q"]),), "float32")}
    arguments = (*(Ref(name) for name in ("q", "k", "v")), case.sizes["block_m"], case.sizes["block_n"])
    return Run(case.name, tensors, outputs, arguments)


def oracle(causal=False):
    """(case, tensors) -> {"out", "lse"}, float64."""
    return lambda case, tensors: _named(reference.attention_lse(**tensors, causal=causal, **_scale(case)))


def baseline(causal=False):
    """(case, tensors) -> {"out", "lse"}, in the dtype of the inputs."""
    return lambda case, tensors: _named(reference.rounded_attention_lse(**tensors, causal=causal, **_scale(case)))


def judged(causal=False):
    """The options of `exercise` that say what is right: (out, lse) as in float64, within the rounding of attention."""
    return {
        "oracle": oracle(causal),
        "baseline": baseline(causal),
        "rules": {"out": "weights", "lse": "lse"},
        "largest_score": magnitude.of_attention(causal=causal),
    }


def _scale(case):
    return {"softmax_scale": case.options.get("scale")}


def _named(pair):
    return {"out": pair[0], "lse": pair[1]}


def bound(case):
    """Fewest bytes of any exact attention: q, k, v once, out and lse once."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    numbers = batch_size * (2 * num_heads * num_q * head_dim + 2 * num_kv_heads * num_kv * head_dim)
    fewest = numbers * itemsize(case) + 4 * batch_size * num_heads * num_q
    return fewest, "q, k and v read once, out and lse written once"


def itemsize(case):
    """Bytes of one number of the case's dtype."""
    return getattr(torch, case.dtype).itemsize
