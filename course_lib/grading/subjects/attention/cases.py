"""Inputs for exercises about attention: q, k and v whose *scaled* scores follow a distribution of exercise/inputs.py.

The last column of q is 1 / softmax_scale and that of k holds the wanted scores; the other columns add noise. So the
scores are what the case's name says as long as the answer multiplies by softmax_scale, and only then. Scores N(0, 1)
come from the noise of all columns, so that the last one counts, too. Equal scores below -1e9 come from every column.

May import: spec, inputs, torch.
"""

import torch

from ...exercise import inputs

FAR = 2.0**15  # q = FAR and k = -FAR: scores of -head_dim * 2^30 * softmax_scale, below -1e9, exact in half precision
_FLAT = ("zeros", "ones", "step")  # scores without noise, for probes


def qkv(case, gen, q_shape, kv_shape):
    """Tensors for one case.

    Parameters
    ----------
    case : Case; `values` names the distribution of the scaled scores along the keys, options["v"] what v holds:
        "normal" (the default), "key_numbers" (row j is j + 1), "ones", "halves" (see `values_of`),
        options["scale"] the softmax_scale (see `scale_of`)
    gen : torch.Generator
    q_shape : (..., head_dim)
    kv_shape : (..., seq_len_kv, head_dim)

    Returns
    -------
    {"q", "k", "v"}, in the dtype of the case
    """
    head_dim, num_keys = kv_shape[-1], kv_shape[-2]
    q, k = (inputs.normal(shape, "float32", gen) for shape in (q_shape, kv_shape))
    if case.values in _FLAT:
        q = torch.zeros_like(q)
    if case.values != "zeros" and not (case.values == "normal" and head_dim > 1):
        q[..., -1] = 1.0 / scale_of(case, head_dim)
        k[..., -1] = inputs.scores(case.values, (num_keys,), "float32", gen, at=case.options.get("at", 0))
    if case.values == "below_1e9":
        q.fill_(FAR)
        k.fill_(-FAR)
    v = values_of(case.options.get("v", "normal"), kv_shape, gen)
    return {name: tensor.to(getattr(torch, case.dtype)) for name, tensor in (("q", q), ("k", k), ("v", v))}


def unread_lse(case, shape, name="lse"):
    """{name: mask} of an lse that is not compared: equal scores below -1e9 may be rounded as numbers of that size."""
    return {name: torch.ones(shape, dtype=torch.bool)} if case.values == "below_1e9" else {}


def scale_of(case, head_dim):
    """The softmax_scale of a case: options["scale"], else head_dim**-0.5."""
    return case.options.get("scale", head_dim**-0.5)


def values_of(kind, shape, gen):
    """v of `shape` (..., num_keys, head_dim).

    "halves": 1 for the first half of the keys in even columns, 1 for the second half in odd ones, 0 elsewhere, so that
    the result holds the weight of either half.
    """
    num_keys, head_dim = shape[-2:]
    if kind == "normal":
        return inputs.normal(shape, "float32", gen)
    if kind == "ones":
        return torch.ones(shape)
    if kind == "key_numbers":
        return torch.arange(1.0, num_keys + 1.0)[:, None].expand(shape).clone()
    if kind == "halves":
        second = (torch.arange(num_keys) >= num_keys // 2)[:, None]
        odd = (torch.arange(head_dim) % 2 == 1)[None, :]
        return (second == odd).float().expand(shape).clone()
    raise KeyError(f"unknown v {kind!r}; known are normal, ones, key_numbers, halves")
