"""Weights of four bits: a matrix of which `linear` reads a quarter of the bytes.

May import: errors, expect, ops.w4a16, reference.w4a16, model.checked, model.weights, torch.
"""

from dataclasses import dataclass

import torch

from .. import expect
from ..errors import ModelError, UnsupportedError
from ..ops import w4a16
from ..reference import w4a16 as reference
from .checked import FLOATS, require_tensor
from .weights import Weights

MATRICES = ("qkv.weight", "out.weight", "up.weight", "down.weight")


@dataclass(frozen=True)
class Packed:
    """A matrix (size_n, size_k) as `ops.w4a16.gemv` reads it.

    Attributes
    ----------
    words, scales, zeros : tensors, as `packed`, `scales` and `zeros` of `ops.w4a16.gemv`
    shape : (size_n, size_k)
    """

    words: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor
    shape: tuple

    @property
    def num_bytes(self):
        return sum(x.numel() * x.element_size() for x in (self.words, self.scales, self.zeros))

    def dense(self):
        """The matrix in the dtype of its scales."""
        levels, group = reference.unpack(self.words, self.shape[1]), self.shape[1] // len(self.scales)
        scales, zeros = (x.float().T[..., None] for x in (self.scales, self.zeros))
        return ((levels.unflatten(1, (-1, group)) - zeros) * scales).flatten(1).to(self.scales.dtype)


def pack(weight, group=128):
    """The Packed nearest to a matrix (size_n, size_k): each group of a row in 15 steps from its least to its largest.

    Raises
    ------
    UnsupportedError  another group; rows that are no whole number of them
    ModelError        no matrix of finite numbers
    """
    require_tensor("weight", weight, 2, FLOATS, "a matrix (size_n, size_k) of floats")
    if type(group) is not int or group not in w4a16.GROUPS:
        raise UnsupportedError(f"group is {expect.shown(group)}; choose 32, 64 or 128 weights.")
    if not weight.numel() or not bool(torch.isfinite(weight).all()):
        raise ModelError(f"weight is {tuple(weight.shape)} or holds NaN or an infinity; expected finite numbers.")
    if weight.shape[1] % group:
        raise UnsupportedError(f"the rows have {weight.shape[1]} weights, no whole number of groups of {group}.")
    levels, scales, zeros = reference.quantise(weight, group)
    return Packed(w4a16.pack(levels), scales, zeros, tuple(weight.shape))


def quantise(weights, group=None):
    """The same Weights with the matrices of every layer packed; embedding, head, norms and biases stay.

    group : 32, 64, 128, or None: the largest of them that divides every row
    """
    expect.kind("weights", weights, Weights, error=ModelError)
    matrices = {name: x for name, x in weights.tensors.items() if name.split(".", 2)[-1] in MATRICES}
    if group is None:
        group = next((size for size in (128, 64) if not any(x.shape[1] % size for x in matrices.values())), 32)
    packed = {name: pack(matrix, group) for name, matrix in matrices.items()}
    return Weights(weights.config, weights.tensors | packed)
