"""Diagnoses of a block of GPT-2: each usual mistake as a block of its own, compared with what an answer gave.

May import: guesses, verdict, torch.
"""

import math
from functools import partial
from itertools import permutations

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import by_guess


def norm(x, weight, bias, eps=1e-5, correction=0, eps_outside=False):
    """LayerNorm over the last dimension."""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().sum(dim=-1, keepdim=True) / max(x.shape[-1] - correction, 1)
    root = variance.sqrt() + eps if eps_outside else (variance + eps).sqrt()
    return centred / root * weight + bias


def gelu(x, form="tanh"):
    """Half of x times 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)), or, exactly, times 1 + erf(x / sqrt(2))."""
    if form == "relu":
        return x.clamp(min=0.0)
    if form == "none":
        return x
    if form == "erf":
        return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def attend(
    x,
    weight,
    bias,
    num_heads,
    order=(0, 1, 2),
    split="parts",
    scale="head",
    causal=True,
    merge="heads",
    first_sequence=False,
):
    """Attention of rows x (batch_size, seq_len, hidden_size), heads merged: before c_proj."""
    batch_size, seq_len, hidden_size = x.shape
    head_dim, qkv = hidden_size // num_heads, x @ weight + bias
    if split == "heads":  # every head's q, k and v beside each other
        parts = qkv.view(batch_size, seq_len, num_heads, 3, head_dim).unbind(3)
    elif split == "interleaved":  # head by head inside a dimension
        parts = [part.view(batch_size, seq_len, head_dim, num_heads).transpose(2, 3) for part in qkv.chunk(3, dim=-1)]
    else:
        parts = [part.view(batch_size, seq_len, num_heads, head_dim) for part in qkv.chunk(3, dim=-1)]
    q, k, v = (parts[i].transpose(1, 2) for i in order)
    factor = {"head": head_dim**-0.5, "hidden": hidden_size**-0.5, "none": 1.0, "twice": 1.0 / head_dim, "8": 0.125}[
        scale
    ]
    if first_sequence:
        k, v = k[:1], v[:1]
    scores = q @ k.transpose(-1, -2) * factor
    if causal:
        scores = scores.masked_fill(torch.ones(seq_len, seq_len, dtype=torch.bool).triu(1), -math.inf)
    out = torch.softmax(scores, dim=-1) @ v
    return out.reshape(x.shape) if merge == "rows" else out.transpose(1, 2).reshape(x.shape)


def block(
    tensors, num_heads, *, ln=None, attention=None, form="tanh", c_proj_transposed=False, residual="right",
    second_norm="ln_2", without=(), without_norm=False, cut=False, ln_1=None, ln_2=None,
):  # fmt: skip
    """The block in the dtype of its tensors; each option is one mistake."""
    t, ln, attention = dict(tensors), ln or {}, attention or {}
    for name in without:
        t[name] = torch.zeros_like(t[name])
    x, c_proj = t["x"], t["c_proj_weight"].T if c_proj_transposed else t["c_proj_weight"]
    first = partial(norm, weight=t["ln_1_weight"], bias=t["ln_1_bias"], **{**ln, **(ln_1 or {})})
    second = partial(norm, weight=t[f"{second_norm}_weight"], bias=t[f"{second_norm}_bias"], **{**ln, **(ln_2 or {})})

    def attended(rows):
        return attend(rows, t["c_attn_weight"], t["c_attn_bias"], num_heads, **attention) @ c_proj + t["c_proj_bias"]

    def inner(rows):
        columns = slice(4 * x.shape[-1] if cut else None)
        grown = gelu(rows @ t["c_fc_weight"] + t["c_fc_bias"], form)[..., columns]
        return grown @ t["mlp_proj_weight"][columns] + t["mlp_proj_bias"]

    if residual == "post":
        h = first(x + attended(x))
        return {"out": second(h + inner(h))}
    normed = x if without_norm else first(x)
    h = {"of the norm": normed, "none": 0.0}.get(residual, x) + attended(normed)
    if residual == "parallel":
        return {"out": h + inner(second(x))}
    last = second(h)
    return {"out": {"x again": x, "last of the norm": last, "no last": 0.0}.get(residual, h) + inner(last)}


IN_THIS_ORDER = "The thirds of c_attn's columns are q, k and v, in this order."
OF_A_NORM = "it adds what came before that norm."

# (code, words, what `block` does otherwise)
MISTAKES = (
    ("transposed", "c_proj_weight is square, so its transpose fits as well: all weights here are (in, out), as "
     "x @ weight wants them, and not as torch.nn.Linear stores its own.", {"c_proj_transposed": True}),
    *(("qkv_order", IN_THIS_ORDER, {"attention": {"order": order}}) for order in list(permutations(range(3)))[1:]),
    ("split_by_heads", "These are the numbers of columns that go head by head, q, k and v beside each other. In a "
     "checkpoint of GPT-2 all of q comes first, then all of k, then all of v.", {"attention": {"split": "heads"}}),
    ("inner_cut", "Only the first 4 * hidden_size columns of c_fc were used; intermediate_size is free.",
     {"cut": True}),
    ("heads_interleaved", "A head is head_dim neighbouring columns; here its columns are num_heads apart.",
     {"attention": {"split": "interleaved"}}),
    ("merged_rows", "The heads were merged without being moved back: (batch, head, row, d) was read as if it were "
     "(batch, row, head, d).", {"attention": {"merge": "rows"}}),
    ("not_causal", "Every row sees the rows after it: the mask is missing.", {"attention": {"causal": False}}),
    ("scale_missing", "The scores are not scaled by 1/sqrt(head_dim).", {"attention": {"scale": "none"}}),
    ("scale_of_hidden", "The scores are scaled by 1/sqrt(hidden_size); head_dim is hidden_size / num_heads.",
     {"attention": {"scale": "hidden"}}),
    ("scale_twice", "The scores are scaled twice.", {"attention": {"scale": "twice"}}),
    ("scale_of_64", "The scores are scaled by 1/8, which is right for a head_dim of 64 alone.",
     {"attention": {"scale": "8"}}),
    ("first_sequence", "Every sequence attends to the keys and values of the first.",
     {"attention": {"first_sequence": True}}),
    ("gelu_exact", "This is the GELU of erf. GPT-2 was trained with the tanh form, which differs by up to 0.0005.",
     {"form": "erf"}),
    ("other_activation", "This is what a ReLU gives; the MLP's activation is GELU, in its tanh form.",
     {"form": "relu"}),
    ("other_activation", "The activation between the MLP's two products is missing.", {"form": "none"}),
    ("variance_n_1", "The variance was divided by hidden_size - 1; LayerNorm divides by hidden_size.",
     {"ln": {"correction": 1}}),
    ("eps_outside", "eps was added to the root of the variance; it belongs to the variance, under the root.",
     {"ln": {"eps_outside": True}}),
    *(("eps_wrong", f"This is what eps {eps:g} gives; GPT-2's is 1e-5.", {"ln": {"eps": eps}})
      for eps in (0.0, 1e-12, 1e-8, 1e-6, 1e-3)),
    ("eps_wrong", "This is what eps 1e-6 in the first norm gives; GPT-2's is 1e-5.", {"ln_1": {"eps": 1e-6}}),
    *(("variance_n_1", f"The variance of {name} was divided by hidden_size - 1; that of the other norm was not.",
       {name: {"correction": 1}}) for name in ("ln_1", "ln_2")),
    *(("eps_outside", f"In {name} eps was added to the root of the variance; it belongs under the root.",
       {name: {"eps_outside": True}}) for name in ("ln_1", "ln_2")),
    ("post_norm", "The norms stand after the sums, as in the first transformers. GPT-2's stand before attention and "
     "before the MLP, and x itself goes by the norms.", {"residual": "post"}),
    ("residual_of_norm", "The first sum adds the normed x; " + OF_A_NORM, {"residual": "of the norm"}),
    ("residual_missing", "The first sum lacks x.", {"residual": "none"}),
    ("residual_of_norm", "The last sum adds what the second norm made; " + OF_A_NORM,
     {"residual": "last of the norm"}),
    ("residual_missing", "The last sum lacks what went into the second norm.", {"residual": "no last"}),
    ("residual_old", "The last sum adds the x of the start; what attention added to it is lost.",
     {"residual": "x again"}),
    ("parallel", "The MLP read the x of the start: attention and MLP stand side by side. In GPT-2 the MLP reads what "
     "attention left.", {"residual": "parallel"}),
    ("norm_missing", "The first norm is missing: attention read x as it came.", {"without_norm": True}),
    ("norm_twice", "The second norm has the weights of the first.", {"second_norm": "ln_1"}),
    *(("bias_missing", f"{name} was not added.", {"without": (name,)})
      for name in ("c_attn_bias", "c_proj_bias", "c_fc_bias", "mlp_proj_bias", "ln_1_bias", "ln_2_bias")),
)  # fmt: skip


def diagnose(evidence):
    failing = [one.case for one in evidence.failing()]
    if failing and all(case.options.get("level") for case in failing):
        return Diagnosis(
            "one_pass",
            "Right for rows near 0, wrong for rows near 100: the variance as mean of the squares minus square of the "
            "mean loses its digits there, 10,000 minus 10,000 for a variance of 1. Subtract the mean first.",
        )
    if failing and all("low" in case.options for case in failing):
        return Diagnosis(
            "masked_too_high",
            "Right for scores near 0, wrong where all are near -16384: a number such as -1e4 in place of -inf is "
            "larger than these, and a hidden key with it gets all the weight.",
        )
    return by_guess(evidence, [(code, words, partial(_mistaken, options)) for code, words, options in MISTAKES])


def _mistaken(options, case, tensors):
    return block({name: value.double() for name, value in tensors.items()}, case.sizes["num_heads"], **options)
