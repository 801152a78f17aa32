"""Diagnoses of a block of Llama: each usual mistake as a block of its own, compared with what an answer gave.

May import: guesses, verdict, torch.
"""

import dataclasses
import math

import torch

from course_lib.grading.subjects.guesses import by_guess, by_low_scores


def norm(x, weight, eps, kind="rms"):
    """RMSNorm over the last dimension; `kind` names a mistake."""
    if kind == "mean":
        x = x - x.mean(dim=-1, keepdim=True)
    square = x.square().mean(dim=-1, keepdim=True)
    root = square.sqrt() + eps if kind == "outside" else (square + eps).sqrt()
    return x / root * (weight + 1.0 if kind == "plus 1" else weight)


def turn(x, positions, theta, kind="halves"):
    """RoPE of x (batch_size, seq_len, heads, head_dim), in its dtype."""
    head_dim = x.shape[-1]
    if kind == "from 0":
        positions = torch.arange(len(positions))
    if kind == "even":
        first, last = positions[0].item(), positions[-1].item()
        positions = first + torch.arange(len(positions)) * ((last - first) // max(len(positions) - 1, 1))
    exponents = torch.arange(0, head_dim, 2, dtype=x.dtype) / head_dim
    angles = positions.to(x.dtype)[:, None] * (10000.0 if kind == "10000" else theta) ** -exponents
    cos, sin = (f(angles)[:, None].to(x.dtype) for f in (torch.cos, torch.sin))
    if kind == "pairs":
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def block(
    t, num_heads, num_kv_heads, theta, eps, *, norms="rms", rope="halves", turned="qk", shared="neighbours",
    causal=True, scale=True, o_transposed=False, mlp="right", residual="right", second="post_norm", fixed_eps=None,
    near=False,
):  # fmt: skip
    """{"out"} in the dtype of its tensors; each option is one mistake."""
    x, eps, head_dim = t["x"], fixed_eps or eps, t["q_proj"].shape[0] // num_heads

    def attended(rows):
        q, k, v = ((rows @ t[f"{name}_proj"].T).unflatten(-1, (-1, head_dim)) for name in "qkv")
        q = turn(q, t["positions"], theta, rope) if "q" in turned else q
        k = turn(k, t["positions"], theta, rope) if "k" in turned else k
        v = turn(v, t["positions"], theta, rope) if "v" in turned else v
        heads = torch.arange(num_heads)
        heads = heads % num_kv_heads if shared == "modulo" else heads // (num_heads // num_kv_heads)
        q, k, v = q.transpose(1, 2), k[:, :, heads].transpose(1, 2), v[:, :, heads].transpose(1, 2)
        scores = q @ k.transpose(-1, -2) * (head_dim**-0.5 if scale else 1.0)
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        if near:
            apart = t["positions"][:, None] - t["positions"]
            scores = scores.masked_fill(apart > 512, -math.inf)
        merged = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2)
        return merged @ (t["o_proj"] if o_transposed else t["o_proj"].T)

    def inner(rows):
        gate, up = rows @ t["gate_proj"].T, rows @ t["up_proj"].T
        if mlp == "swapped":
            gate, up = up, gate
        factor = {"gelu": torch.nn.functional.gelu(gate), "none": gate, "sigmoid": torch.sigmoid(gate)}
        return (factor.get(mlp, gate * torch.sigmoid(gate)) * up) @ t["down_proj"].T

    if residual == "post":
        h = norm(x + attended(x), t["input_norm"], eps, norms)
        return {"out": norm(h + inner(h), t["post_norm"], eps, norms)}
    normed = norm(x, t["input_norm"], eps, norms)
    h = {"of the norm": normed, "none": 0.0}.get(residual, x) + attended(normed)
    last = norm(x if residual == "parallel" else h, t[second], eps, norms)
    return {"out": {"old": x, "no last": 0.0, "last of the norm": last}.get(residual, h) + inner(last)}


def oracle(tensors, **numbers):
    """The block in float64."""
    return block({name: x.double() for name, x in tensors.items()}, **numbers)


# (code, words, what `block` does otherwise)
MISTAKES = (
    ("rope_pairs", "Neighbouring numbers were turned as pairs. Llama's checkpoints pair number i of a head with number "
     "i + head_dim / 2.", {"rope": "pairs"}),
    ("positions_ignored", "The rows were counted from 0, one by one; `positions` says where each one is.",
     {"rope": "from 0"}),
    ("positions_even", "The rows were spaced evenly from the first position to the last; `positions` may have gaps.",
     {"rope": "even"}),
    ("theta_fixed", "The angles are those of theta 10,000; theta is an argument.", {"rope": "10000"}),
    ("rope_missing", "q and k were not turned: RoPE is missing.", {"turned": ""}),
    ("rope_of_k", "q was turned and k was not.", {"turned": "q"}),
    ("rope_of_v", "v was turned as well. Only q and k carry the position.", {"turned": "qkv"}),
    ("heads_modulo", "Query head h read key head h % num_kv_heads. Neighbouring heads share one: h // group.",
     {"shared": "modulo"}),
    ("weight_plus_1", "The norms multiply by 1 + weight. Llama's weights are the factors themselves.",
     {"norms": "plus 1"}),
    ("mean_subtracted", "The mean was subtracted, as LayerNorm does. RMSNorm divides by the root of the mean square.",
     {"norms": "mean"}),
    ("eps_outside", "eps was added to the root; it belongs to the mean square, under the root.", {"norms": "outside"}),
    *(("eps_fixed", f"This is what eps {eps:g} gives; eps is an argument.", {"fixed_eps": eps})
      for eps in (1e-5, 1e-6, 1e-8, 1e-12)),
    ("gate_and_up", "gate_proj and up_proj are swapped: SiLU belongs to gate_proj's result.", {"mlp": "swapped"}),
    ("other_activation", "This is what GELU gives; the activation is SiLU.", {"mlp": "gelu"}),
    ("other_activation", "The activation is missing: gate * up.", {"mlp": "none"}),
    ("other_activation", "This is sigmoid(gate) * up; SiLU is gate * sigmoid(gate).", {"mlp": "sigmoid"}),
    ("transposed", "o_proj is square, so its transpose fits as well: all weights are (out, in).",
     {"o_transposed": True}),
    ("not_causal", "Every row sees the rows after it: the mask is missing.", {"causal": False}),
    ("hidden_by_position", "Rows that are hundreds of positions away were hidden. A row sees all rows before it.",
     {"near": True}),
    ("scale_missing", "The scores are not scaled by 1/sqrt(head_dim).", {"scale": False}),
    ("post_norm", "The norms come after the sums. Llama's come before attention and before the MLP.",
     {"residual": "post"}),
    ("residual_of_norm", "The first sum adds the normed x.", {"residual": "of the norm"}),
    ("residual_of_norm", "The last sum adds what the second norm made.", {"residual": "last of the norm"}),
    ("residual_missing", "The first sum lacks x.", {"residual": "none"}),
    ("residual_missing", "The last sum lacks what went into the second norm.", {"residual": "no last"}),
    ("residual_old", "The last sum adds the x of the start; what attention added is lost.", {"residual": "old"}),
    ("parallel", "The MLP read the x of the start; it reads what attention left.", {"residual": "parallel"}),
    ("norm_twice", "The second norm has the weight of the first.", {"second": "input_norm"}),
)  # fmt: skip


def diagnose(evidence, numbers):
    """Diagnosis of wrong numbers; `numbers`: case -> the arguments that are no tensors."""
    too_high = by_low_scores(evidence)
    if too_high:
        return too_high

    def guess(options):
        return lambda case, tensors: oracle(tensors, **numbers(case), **options)

    usual = [one for one in evidence.cases if "low" not in one.case.options]  # an x of 100 amplifies rounding
    return by_guess(
        dataclasses.replace(evidence, cases=usual), [(code, words, guess(options)) for code, words, options in MISTAKES]
    )
