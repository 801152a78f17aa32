"""Cases and runs of FlashAttention-2's order: a program for each tile of queries, no state in global memory.

A case's options "block_m", "block_n" and "scale" say what its tiles and its softmax_scale are; head_dim is a size.

May import: protocol, spec, reference, magnitude, attention.cases, flash_attention.cases.
"""

import torch

from ....reference import attention as reference
from ...exercise import magnitude
from ...exercise.spec import Case
from ...processes.protocol import Ref, Run
from ..attention.cases import scale_of, unread_lse
from ..flash_attention import cases as cases
from ..flash_attention.cases import BLOCK_M, BLOCK_N, itemsize

EXPONENT = -8.33203125  # midway between two halves, and its exponential is within 4e-6 of one
FARTHER = 2.0**80  # as softmax_scale: with it scores of "below_1e9" are below -1e30
HEADS = cases.case("heads", 1, 3, "zeros", heads=(2, 6, 2), v_of_head=True)  # for masks.head_probe: groups of 3


def block_m_of(case, default=BLOCK_M):
    """Queries of a tile of the case."""
    return case.options.get("block_m", default)


def block_n_of(case, default=BLOCK_N):
    """Keys of a tile of the case."""
    return case.options.get("block_n", default)


def case_of(name, num_q, num_kv, values="normal", heads=(1, 1, 1), head_dim=cases.HEAD_DIM, dtype="float32",
            schedules=("forward",), **options):  # fmt: skip
    """A case; heads are (batch_size, num_heads, num_kv_heads)."""
    sizes = dict(zip(cases.SIZES, (*heads, num_q, num_kv, head_dim), strict=True))
    return Case(name, sizes, values, dtype, options, schedules)


def forward_inputs(case, gen):
    """{"q", "k", "v"} of flash_attention.cases.heads_inputs, changed by `with_scores`."""
    return with_scores(case, cases.heads_inputs(case, gen))


def with_scores(case, tensors):
    """{"q", "k", "v"}, as the case's options change them.

    With options["v_shift"] that much is added to v; with "rise" all scores of a tile of keys are equal, and that much
    higher than in the tile before; with "light" the first key has the score 0 and v = 0, all others about "light", or
    exactly "exponent".
    """
    tensors["v"] += case.options.get("v_shift", 0.0)
    if {"rise", "light", "exponent"} & case.options.keys():
        _set_scores(case, tensors)
    return tensors


def _set_scores(case, tensors):
    """Writes the scores of options "rise", "light" or "exponent" into q and k."""
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    q.zero_()
    q[..., -1] = 1.0 / scale_of(case, q.shape[-1])
    if "rise" in case.options:
        k[..., -1] = case.options["rise"] * (torch.arange(k.shape[-2]) // block_n_of(case))
        return
    if "exponent" in case.options:  # in two columns that half holds
        q[..., -2], rounded = q[..., -1], round_to_half(case.options["exponent"])
        k[..., -1], k[..., -2] = rounded, case.options["exponent"] - rounded
    else:
        k[..., -1] = case.options["light"] + 0.1 * k[..., -1].clamp(-1.0, 1.0)
    k[..., 0, :], v[..., 0, :] = 0.0, 0.0


def round_to_half(number):
    """The half nearest to a number, as a float."""
    return torch.tensor(number).half().item()


def forward_run(case, tensors, *, flags=(), block_m=BLOCK_M, block_n=BLOCK_N, **extra):
    """(q, k, v, out, lse, num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale, *flags), grid (tiles of Q, H, B)."""
    batch_size, num_heads, num_kv_heads, num_q, num_kv, head_dim = case.sizes.values()
    rows = (batch_size, num_heads, num_q)
    outputs = {"out": ((*rows, head_dim), case.dtype), "lse": (rows, "float32")}
    arguments = tuple(Ref(name) for name in ("q", "k", "v", *outputs))
    arguments += (num_heads // num_kv_heads, num_q, num_kv, scale_of(case, head_dim), *flags)
    grid = (-(-num_q // block_m_of(case, block_m)), num_heads, batch_size)
    constants = constexprs(case, block_m, block_n)
    return Run(case.name, tensors, outputs, arguments, grid=grid, constants=constants, **extra)


def constexprs(case, block_m=BLOCK_M, block_n=BLOCK_N):
    """HEAD_DIM, BLOCK_D, BLOCK_M and BLOCK_N of a Triton kernel in this case."""
    head_dim = case.sizes["head_dim"]
    block_d = max(1 << (head_dim - 1).bit_length(), 16)
    tiles = {"BLOCK_M": block_m_of(case, block_m), "BLOCK_N": block_n_of(case, block_n)}
    return {"HEAD_DIM": head_dim, "BLOCK_D": block_d, **tiles}


def usual_bytes(case, *, block_m=BLOCK_M, keys_read=None):
    """Bytes of this order: q, out and lse once, `keys_read` keys and values (all, without) for each tile of queries."""
    batch_size, num_heads, _, num_q, num_kv, head_dim = case.sizes.values()
    keys = -(-num_q // block_m_of(case, block_m)) * num_kv if keys_read is None else keys_read
    return batch_size * num_heads * ((2 * num_q + 2 * keys) * head_dim * itemsize(case) + 4 * num_q)


def half_case(name, sizes, values="normal", schedules=(), **options):
    """A case of (B, H, Hkv, Nq, Nkv, D) in half precision."""
    one = cases.heads_case(name, sizes, values, schedules, **options)
    return type(one)(one.name, one.sizes, one.values, "float16", one.options, one.schedules)


def oracle(causal=False):
    """(case, tensors) -> {"out", "lse"}, float64."""

    def found(case, tensors):
        scale = scale_of(case, case.sizes["head_dim"])
        out, lse = reference.attention_lse(**tensors, softmax_scale=scale, causal=causal)
        return {"out": out, "lse": lse}

    return found


def baseline(causal=False):
    """(case, tensors) -> {"out", "lse"} with what the contract rounds rounded: the weights and out, to q's dtype.

    Scores, maximum and sums are float32 also for half, so a tolerance for half leaves no room for others.
    """

    def found(case, tensors):
        q, k, v = (tensors[name].float() for name in ("q", "k", "v"))
        dtype = tensors["q"].dtype
        scores = reference.rounded_scores(q, k, softmax_scale=scale_of(case, q.shape[-1]), causal=causal)
        m = scores.amax(dim=-1, keepdim=True)
        shift = torch.where(torch.isneginf(m), torch.zeros_like(m), m)
        probs_unnorm = torch.exp(scores - shift).to(dtype).float()  # l may be their sum, or that before the rounding
        l = probs_unnorm.sum(dim=-1, keepdim=True)
        safe = torch.where(l > 0, l, torch.ones_like(l))
        out = probs_unnorm @ reference.of_each_query_head(v, q) / safe
        return {"out": out.to(dtype), "lse": (m + torch.log(safe)).squeeze(-1)}

    return found


def largest_score(causal=False):
    """(case, inputs) -> the largest score; 0 where all are equal: no rounding of them moves a weight."""
    found = magnitude.of_attention(causal=causal)
    return lambda case, inputs: 0.0 if case.values == "below_1e9" else found(case, inputs)


def judged(causal=False):
    """The options of `exercise` that say what is right: (out, lse) as in float64, rounded as the contract rounds."""
    return {
        "oracle": oracle(causal),
        "baseline": baseline(causal),
        "rules": {"out": "weights", "lse": "lse"},
        "largest_score": largest_score(causal),
    }


def unread(case, _tensors):
    """{output: mask} of what is not compared."""
    return unread_lse(case, tuple(case.sizes[name] for name in ("batch_size", "num_heads", "seq_len_q")))
