"""Cases, inputs and results of decode attention: one query a head, keys in splits, sequences of any length.

May import: spec, magnitude, reference, attention.cases, flash_attention.cases, partials.
"""

import math

import torch

from ....reference import attention as reference
from ...exercise import magnitude
from ...exercise.spec import Case
from ..attention.cases import qkv, scale_of
from ..flash_attention.cases import BLOCK_N, FIRST, LATER
from .partials import FAINT, FAINT_OUT, FAINTER, FAINTER_OUT, NEG_INF

SIZES = ("batch_size", "num_heads", "num_kv_heads", "seq_len_kv", "capacity", "head_dim")
UNUSED = (math.nan, 500.0, math.inf)  # what slots past the end of a sequence hold, in turn


def case(name, heads, seq_len_kv, capacity, head_dim, values="normal", schedules=(), dtype="float32", **more):
    """A case; heads = (batch_size, num_heads, num_kv_heads), seq_len_kv the longest sequence.

    `more` may hold seq_lens, one a batch entry (all seq_len_kv without), and split_len or num_splits, which join the
    sizes; the rest are options.
    """
    sizes = dict(zip(SIZES, (*heads, seq_len_kv, capacity, head_dim), strict=True))
    sizes |= {name: more.pop(name) for name in ("split_len", "num_splits") if name in more}
    return Case(name, sizes, values, dtype, more, schedules)


def seq_lens(case):
    """Valid keys of each sequence."""
    return case.options.get("seq_lens", (case.sizes["seq_len_kv"],) * case.sizes["batch_size"])


def softmax_scale(case):
    """The softmax_scale of a case: options["scale"], else head_dim**-0.5."""
    return scale_of(case, case.sizes["head_dim"])


def decode_inputs(case, gen):
    """{"q": (B, H, D), "k", "v": (B, Hkv, capacity, D)} in the case's dtype; UNUSED past the end of a sequence.

    options: scale is the softmax_scale; tail="kept" leaves finite numbers past the end; reversed=True turns the keys
    round; v="head_numbers" counts the heads of k and v through the batch, from 1; far=True doubles the scores of every
    second query head; fades=True makes v FIRST in the first tile of keys and LATER in all others; faint=True gives the
    first key score 0 and v = 0, all others FAINT and FAINT_OUT; fainter=True makes FAINTER and FAINTER_OUT of those in
    the second half; k_level is added to the first column of k. Values "below_1e9": all scores are equal, below -1e9.
    """
    batch_size, num_heads, num_kv_heads, _, capacity, head_dim = (case.sizes[name] for name in SIZES)
    kv_shape = (batch_size, num_kv_heads, capacity, head_dim)
    numbered = case.options.get("v") == "head_numbers"
    plain = Case(case.name, case.sizes, case.values, case.dtype, case.options | ({"v": "ones"} if numbered else {}))
    tensors = qkv(plain, gen, (batch_size, num_heads, head_dim), kv_shape)
    if numbered:
        numbers = torch.arange(1.0, batch_size * num_kv_heads + 1.0).reshape(batch_size, num_kv_heads, 1, 1)
        tensors["v"] = (tensors["v"] * numbers).to(tensors["v"].dtype)
    if case.options.get("far"):
        tensors["q"][:, 1::2] *= 2
    tensors["k"][..., 0] += case.options.get("k_level", 0.0)
    if case.options.get("fades"):
        later = (torch.arange(capacity) >= BLOCK_N)[:, None]
        tensors["v"] = torch.where(later, LATER, FIRST).expand(kv_shape).to(tensors["v"].dtype)
    if case.options.get("faint"):
        scores, values = _faint(capacity, case.options.get("fainter"))
        tensors["q"][..., :-1] = 0.0
        tensors["k"][..., -1] = scores
        tensors["v"] = values[:, None].expand(kv_shape).to(tensors["v"].dtype)
    if case.options.get("reversed"):
        tensors |= {name: tensors[name].flip(2) for name in ("k", "v")}
    if case.options.get("tail") != "kept":
        behind = torch.arange(capacity)[None, :] - torch.tensor(seq_lens(case))[:, None]  # (B, capacity)
        unused = torch.tensor(UNUSED)[behind % len(UNUSED)].to(tensors["k"].dtype)[:, None, :, None]
        for name in ("k", "v"):
            tensors[name] = torch.where(behind[:, None, :, None] >= 0, unused, tensors[name])
    return tensors


def _faint(capacity, fainter):
    """(scores, values), each (capacity,), of a first key and of faint ones."""
    key = torch.arange(capacity)
    second = key >= (capacity // 2 if fainter else capacity)
    return torch.where(second, FAINTER, FAINT) * (key > 0), torch.where(second, FAINTER_OUT, FAINT_OUT) * (key > 0)


def largest_score(case, tensors):
    """Largest score over valid keys; 0 where all are equal: no rounding of them moves a weight."""
    if case.values == "below_1e9":
        return 0.0
    q, k, scale = tensors["q"], tensors["k"], {"softmax_scale": softmax_scale(case)}
    return max(magnitude.of_pairs(q[b, :, None], k[b, :, :length], **scale) for b, length in enumerate(seq_lens(case)))


def attention_over(case, tensors, windows, dtype):
    """{"partial_out": (S, B, H, D), "partial_lse": (S, B, H)} in `dtype`.

    windows : list, one a batch entry, of lists, one a split, of half-open ranges (first key, end)
    """
    scale = softmax_scale(case)
    q, k, v = (tensors[name].to(dtype) for name in ("q", "k", "v"))
    outs, lses = [], []
    for b, of_sequence in enumerate(windows):
        pairs = [_one(q[b], k[b, :, first:end], v[b, :, first:end], scale) for first, end in of_sequence]
        outs.append(torch.stack([out for out, _ in pairs]))
        lses.append(torch.stack([lse for _, lse in pairs]))
    lse = torch.stack(lses, dim=1)
    if case.values == "below_1e9":
        lse = lse.float().to(dtype)  # what is not compared is replaced by it, in float32
    return {"partial_out": torch.stack(outs, dim=1), "partial_lse": lse}


def _one(q, k, v, scale):
    """(out (H, D), lse (H,)) of q (H, D) over the keys k, v (Hkv, n, D)."""
    if k.shape[1] == 0:
        return torch.zeros_like(q), torch.full_like(q[:, 0], NEG_INF)
    out, lse = reference.rounded_attention_lse(q[:, None, :], k, v, softmax_scale=scale)
    return out[:, 0], lse[:, 0]


def partial_outputs(case, num_splits):
    """name -> (shape, dtype) of the partial outputs."""
    rows = (num_splits, case.sizes["batch_size"], case.sizes["num_heads"])
    return {"partial_out": ((*rows, case.sizes["head_dim"]), "float32"), "partial_lse": (rows, "float32")}


def split_bytes(case, num_splits, itemsize):
    """(fewest bytes, why) of writing partials: q once a split, the valid keys and values once, the partials once."""
    batch_size, num_heads, num_kv_heads, _, _, head_dim = (case.sizes[name] for name in SIZES)
    keys = sum(seq_lens(case)) * num_kv_heads
    rows = batch_size * num_heads
    fewest = (rows + 2 * keys) * head_dim * itemsize + num_splits * rows * (head_dim + 1) * 4
    return fewest, "q, k and v read once, partial_out and partial_lse written once"
