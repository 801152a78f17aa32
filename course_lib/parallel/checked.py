"""What this room asks of its arguments: counts, by the names that all of its functions share, and dimensions.

May import: errors, expect, torch.
"""

import functools
import inspect

import torch

from .. import expect
from ..errors import ShapeError, WorldError

MOST_RANKS, MOST_MICRO = 1 << 16, 1 << 20  # far above any that fit: orders and tables are lists
_PLACES = {"rank": "num_ranks", "source": "num_ranks", "stage": "num_stages"}  # from 0 to below the other, if given
_WORLD = {"num_ranks": MOST_RANKS, "num_stages": MOST_RANKS, "num_micro": MOST_MICRO, "num_replicas": MOST_RANKS}
_SIZES = {"num_heads", "num_kv_heads", "head_dim", "itemsize", "num_experts", "top_k", "hidden", "hidden_size"}
_SIZES |= {"vocab_size", "page_size", "num_pages"}
_COUNTS = {"num_tokens", "num_bytes", "num_logits", "micro_bytes"}


def counted(function):
    """Decorate a function: WorldError or ShapeError, with a sentence, for a count that is none or out of its range."""
    signature = inspect.signature(function)
    names = tuple(name for name in signature.parameters if name in {*_PLACES, *_WORLD, *_SIZES, *_COUNTS})

    @functools.wraps(function)
    def checked(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        for name in names:
            if name in given:
                given[name] = _checked(name, given)
        return function(*bound.args, **bound.kwargs)

    return checked


def require_dim(x, dim):
    """The number of a dimension of a tensor, from 0 on."""
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.device.type not in ("cpu", "cuda"):
        raise ShapeError(f"x is {expect.shown(x)}; expected a torch tensor in plain memory of CPU or CUDA.")
    if x.ndim == 0:
        raise ShapeError("x is a single number, without a dimension to cut.")
    return expect.whole("dim", dim, -x.ndim, x.ndim - 1, error=ShapeError) % x.ndim


def require_alike(parts):
    """Raise where these are no tensors of one shape, dtype and device."""
    if not isinstance(parts, list | tuple) or not parts or not all(isinstance(x, torch.Tensor) for x in parts):
        raise ShapeError(f"parts is {expect.shown(parts)}; expected a list of tensors, one from each rank.")
    found = {(tuple(x.shape), x.dtype, x.device) for x in parts}
    if len(found) > 1:
        said = ", ".join(sorted(f"{dtype} {shape} on {device}" for shape, dtype, device in found)[:3])
        raise ShapeError(f"the parts of the ranks are {said}; expected one shape, dtype and device.")


def require_parts(name, value, num_parts, what):
    """Raise where `num_parts` does not divide a number that is cut into equal parts."""
    if value % num_parts:
        raise ShapeError(f"{name} is {value}, no multiple of {num_parts} {what}.")


def _checked(name, given):
    value = given[name]
    if name in _PLACES:
        most = given.get(_PLACES[name], MOST_RANKS)
        most = most - 1 if isinstance(most, int) and most > 0 else None
        return expect.whole(name, value, 0, most, error=WorldError)
    if name in _WORLD:
        return expect.whole(name, value, 1, _WORLD[name], error=WorldError)
    return expect.whole(name, value, 1 if name in _SIZES else 0, 1 << 62, error=ShapeError)
