"""What wrong answers to 11.5 look like, and what a right one may compute and hold."""

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import by_guess
from course_lib.grading.subjects.ledger.held import too_much_held

NAMES = ("q_nope", "q_rope", "latents", "rope_keys", "w_uk", "w_uv")
_OBJECTS_OF_PYTHON = 64 << 10  # bytes that numbers and frames may take


def mla(tensors, dtype=torch.float64, **mistake):
    """{"out", "lse"} in the absorbed form; `mistake` is one of the keys that are read below."""
    q_nope, q_rope, latents, rope_keys, w_uk, w_uv = (tensors[name].to(dtype) for name in NAMES)
    if "keys" in mistake:
        latents, rope_keys = mistake["keys"](latents), mistake["keys"](rope_keys)
    w_uk, w_uv = mistake.get("w_uk", _same)(w_uk), mistake.get("w_uv", _same)(w_uv)
    absorbed = mistake.get("absorbed", _same)(torch.einsum("hd,hdc->hc", q_nope, w_uk))
    sizes = q_nope.shape[1], q_rope.shape[1], latents.shape[1]
    nope_scale, rope_scale = mistake.get("scale", lambda d, r, c: 2 * ((d + r) ** -0.5,))(*sizes)
    rope = mistake.get("rope", lambda q, k, c: q @ k.T)(q_rope, rope_keys, latents)
    scores = absorbed @ latents.T * nope_scale + rope * rope_scale
    axis = mistake.get("axis", 1)
    m = mistake.get("m", lambda scores: scores.amax(axis, keepdim=True))(scores)
    weights = torch.exp(scores - m)
    l = weights.sum(axis, keepdim=True)
    probs = mistake.get("probs", lambda weights, l: weights / l)(weights, l)
    values = mistake.get("values", lambda c, k: c)(latents, rope_keys)
    out = torch.einsum("hc,hdc->hd", probs @ values, w_uv)
    lse = mistake.get("lse", lambda m, l: m + torch.log(l))(m, l)
    return {"out": out, "lse": lse.expand(-1, 1)[:, 0] if axis == 1 else torch.logsumexp(scores, 1)}


def largest_score(case, tensors):
    q_nope, q_rope, latents, rope_keys, w_uk, _ = (tensors[name].double() for name in NAMES)
    scores = torch.einsum("hd,hdc->hc", q_nope, w_uk) @ latents.T + q_rope @ rope_keys.T
    return (scores.abs().max() * (q_nope.shape[1] + q_rope.shape[1]) ** -0.5).item()


def _same(x):
    return x


def _reshaped(w):
    """What comes when (head_dim, latent_dim) is read as (latent_dim, head_dim) and then used transposed."""
    return w.reshape(w.shape[0], w.shape[2], w.shape[1]).transpose(1, 2)


def _first(w):
    return w[:1].expand_as(w)


def _both(scale):
    return lambda d, r, c: 2 * (scale(d, r, c),)


_TABLE = (
    ("scale_of_absorbed", "That is the scale (latent_dim + rope_dim)**-0.5 of the absorbed query. The scores are those "
     "of queries and keys with head_dim + rope_dim numbers, and so is their scale.",
     {"scale": _both(lambda d, r, c: (c + r) ** -0.5)}),
    ("scale_of_latent", "That is the scale latent_dim**-0.5; it is (head_dim + rope_dim)**-0.5.",
     {"scale": _both(lambda d, r, c: c**-0.5)}),
    ("scale_without_rope", "That is the scale head_dim**-0.5: the rope part belongs to the key as well.",
     {"scale": _both(lambda d, r, c: d**-0.5)}),
    ("scale_missing", "The scores have no scale: it is (head_dim + rope_dim)**-0.5.",
     {"scale": _both(lambda d, r, c: 1.0)}),
    ("scale_twice", "The scores have the scale twice.", {"scale": _both(lambda d, r, c: 1.0 / (d + r))}),
    ("scale_of_part", "Only the product with the latents has the scale; that of the rope parts needs it too.",
     {"scale": lambda d, r, c: ((d + r) ** -0.5, 1.0)}),
    ("scale_of_part", "Only the product of the rope parts has the scale; that with the latents needs it too.",
     {"scale": lambda d, r, c: (1.0, (d + r) ** -0.5)}),
    ("rope_missing", "The scores lack the rope part: add q_rope times rope_keys.",
     {"rope": lambda q, k, c: 0.0 * (q @ k.T)}),
    ("rope_absorbed", "The rope query has met the first rope_dim numbers of the latent. It meets rope_keys: nothing of "
     "the rope part is absorbed.", {"rope": lambda q, k, c: q @ c[:, : q.shape[1]].T}),
    ("rope_of_first_head", "Every head has the rope query of head 0. The rope keys are shared, queries are not.",
     {"rope": lambda q, k, c: (q[:1] @ k.T).expand(len(q), -1)}),
    ("w_uk_not_transposed", "W_UK was reshaped to (latent_dim, head_dim), which moves its numbers to other places. "
     "What is absorbed is w_uk[h].T @ q_nope[h]: the sum runs over head_dim.", {"w_uk": _reshaped}),
    ("w_uv_not_transposed", "W_UV was reshaped to (latent_dim, head_dim_v), which moves its numbers to other places: "
     "out[h] is w_uv[h] @ sum, and the sum runs over latent_dim.", {"w_uv": _reshaped}),
    ("w_uk_of_first_head", "Every head was absorbed with W_UK of head 0.", {"w_uk": _first}),
    ("w_uv_of_first_head", "Every head was expanded with W_UV of head 0.", {"w_uv": _first}),
    ("rope_in_value", "The weighted sum took the last latent_dim numbers of the rows [latent, rope key]. A value comes "
     "from the latent alone, the first latent_dim numbers.",
     {"values": lambda c, k: torch.cat([c, k], 1)[:, k.shape[1] :]}),
    ("last_key_dropped", "It is what comes without the last key.", {"keys": lambda x: x[:-1] if len(x) > 1 else x}),
    ("key_too_many", "It is what comes with a key of zeros behind the last one.",
     {"keys": lambda x: torch.cat([x, torch.zeros_like(x[:1])])}),
    ("lse_base_2", "lse is in base 2; natural log is asked for.",
     {"lse": lambda m, l: (m + torch.log(l)) * 1.4426950408889634}),
    ("lse_base_2", "lse is m + log2(l): a natural maximum and a logarithm in base 2; natural log is asked for.",
     {"lse": lambda m, l: m + torch.log2(l)}),
    ("lse_without_max", "lse lacks the maximum that was subtracted from the scores.",
     {"lse": lambda m, l: torch.log(l)}),
    ("no_division", "out was never divided by l, the sum of the weights.", {"probs": lambda weights, l: weights}),
    ("softmax_over_heads", "The weights of a key add up to 1 over the heads; those of a head shall over the keys.",
     {"axis": 0}),
    ("rounded", "The absorbed query was rounded to bfloat16; float32 is asked for.",
     {"absorbed": lambda x: x.bfloat16().double()}),
    ("rounded", "The absorbed query was rounded to half; float32 is asked for.",
     {"absorbed": lambda x: x.half().double()}),
)  # fmt: skip


def diagnose(evidence):
    """Diagnosis of wrong values, or None."""
    guesses = [(code, words, lambda case, t, how=how: mla(t, **how)) for code, words, how in _TABLE]
    no_max = (
        "no_max",
        "That is exp of the scores as they are, which overflows above 88 and loses digits below -87. Subtract each "
        "head's largest score first.",
        lambda case, t: mla(t, torch.float32, m=lambda scores: torch.zeros_like(scores[:, :1])),
    )
    from_0 = (
        "max_from_0",
        "That is a maximum that begins at 0: scores that are all below it lose their digits or vanish. It begins at "
        "-inf.",
        lambda case, t: mla(t, torch.float32, m=lambda scores: scores.amax(1, keepdim=True).clamp(min=0.0)),
    )
    of_all = (
        "max_of_all_heads",
        "That is one maximum for all heads: beside a head 100 higher, exp of another's scores is 0 or has no digits "
        "left. Each head has a maximum of its own.",
        lambda case, t: mla(t, torch.float32, m=lambda scores: scores.amax().expand(len(scores), 1)),
    )
    return by_guess(evidence, [*guesses, no_max, from_0, of_all]) or _lse_alone(evidence)


def _lse_alone(evidence):
    """Every out right, so the weights are: the error is in what is added to m."""
    failing = [one for one in evidence.failing() if one.comparisons]
    if not failing or len(failing) < len(evidence.failing()) or not all(o.comparisons["out"].passed for o in failing):
        return None
    one = max(failing, key=lambda one: one.comparisons["lse"].max_error)
    return Diagnosis(
        "lse_alone",
        f"Every out is right, and lse is off by up to {one.comparisons['lse'].max_error:.3g} (case {one.case.name!r}). "
        "lse is m + log(l), to the digits of float32: a constant such as ln 2 written as 0.6931 has too few.",
    )


def absorbed_way(case, ledger):
    """Refuses right values that came from keys or values of the heads, by multiply-adds and by memory."""
    heads, num_keys, dim, dim_v, rope, latent = case.sizes.values()
    most = 2 * heads * (latent * (dim + dim_v) + num_keys * (2 * latent + rope))
    start = f"Every value is right, but in the case {case.name!r} ({heads} heads, {num_keys} keys)"
    if ledger["left"]:
        return Diagnosis(
            "left_torch",
            f"{start} {ledger['left']:,} numbers left torch for a numpy array or a list. The contract asks for torch's "
            "operators, whose multiply-adds are counted.",
        )
    made = ledger["multiply_adds"] + ledger["multiplied"]
    if made > most:
        return Diagnosis(
            "not_absorbed",
            f"{start} the products have {made:,} multiply-adds, and the contract allows "
            f"{most:,}: twice those of the absorbed form. Were keys or values of the heads formed, or a product made "
            "more than once?",
        )
    limit = 8 * (heads + num_keys) * (latent + rope) + 8 * heads * (num_keys + dim + dim_v)
    limit += heads * latent * max(dim, dim_v)

    def say(held):
        return (
            f"{start} the answer held {held:,} numbers at one time beside its inputs; the contract allows {limit:,}. "
            "What grows with num_heads * num_keys * head_dim is too much."
        )

    return too_much_held(ledger, limit, say, python_bytes=_OBJECTS_OF_PYTHON)
