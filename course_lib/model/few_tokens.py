"""A layer for one to eight new tokens in five launches, and the head in one: norm, product and what follows it are one
kernel.

A step of few tokens reads the weights and little else. Each launch waits for the one before, and memory with it: fewer
launches, each of which asks for its first weights before it waits, keep the memory busy for more of the time.

May import: model.packed, ops.decode_linear, torch.
"""

import torch

from ..ops import decode_linear
from ..ops.decode_linear import MAX_TOKENS
from .packed import Packed

MATRICES = {"qkv": True, "out": False, "up": True, "down": False}  # whether the kernel begins with a norm


def fits(model, num_tokens):
    """Whether `num_tokens` new tokens of `model` can run so: few of them, halves, no gradients, weights not packed."""
    if not model.kernels.few_tokens or num_tokens > MAX_TOKENS:
        return False
    if model.dtype == torch.float32 or torch.is_grad_enabled() or model.config.head_dim % 2:
        return False
    layer = model.weights.layers[0]
    norms = {name: _kind(model) if has_norm else None for name, has_norm in MATRICES.items()}
    return all(_fits(num_tokens, layer[f"{name}.weight"], norm) for name, norm in norms.items())


def project(model, layer, x, positions, k_cache, v_cache, slots):
    """Queries (num_tokens, num_heads, head_dim) of the residual stream x; keys and values are put into their slots."""
    config = model.config
    turned = {"positions": positions, "cos_sin": model.cos_sin} if config.architecture == "llama" else {}
    weights = layer["norm_1.weight"], layer["qkv.weight"]
    options = _norm(model, layer, "norm_1") | {"bias": layer.get("qkv.bias"), "num_heads": config.num_heads} | turned
    return decode_linear.norm_qkv(x, *weights, k_cache, v_cache, slots, **options)


def widen(model, layer, x):
    """What the MLP's second product takes, (num_tokens, intermediate_size), of the residual stream x."""
    activation = "gelu" if model.config.architecture == "gpt2" else "swiglu"
    options = _norm(model, layer, "norm_2") | {"bias": layer.get("up.bias"), "activation": activation}
    return decode_linear.norm_linear(x, layer["norm_2.weight"], layer["up.weight"], **options)


def add(layer, name, x, residual):
    """residual += x weight^T + bias, in place."""
    options = {"bias": layer.get(f"{name}.bias"), "residual": residual, "out": residual}
    return decode_linear.linear(x, layer[f"{name}.weight"], **options)


def product(layer, name, x, *, with_bias):
    """x weight^T, a part of a sum over ranks, (num_tokens, hidden_size); with its bias on one rank of them."""
    bias = layer.get(f"{name}.bias") if with_bias else None
    return decode_linear.linear(x, layer[f"{name}.weight"], bias=bias)


def fits_head(model, num_tokens):
    """Whether the last norm and the head of a step for which `fits` is true are one launch as well."""
    return _fits(num_tokens, model.weights.head, _kind(model))


def head(model, x):
    """Logits (num_tokens, vocab_size) of the residual stream x: the last norm and the head."""
    weights = model.weights.tensors
    return decode_linear.norm_linear(x, weights["norm.weight"], model.weights.head, **_norm(model, weights, "norm"))


def _fits(num_tokens, weight, norm):
    return not isinstance(weight, Packed) and decode_linear.fits(num_tokens, weight, norm)


def _kind(model):
    return "layer" if model.config.architecture == "gpt2" else "rms"


def _norm(model, layer, name):
    return {"norm": _kind(model), "norm_bias": layer.get(f"{name}.bias"), "eps": model.config.norm_eps}
