"""Weights of four bits: a matrix of which `linear` reads a quarter of the bytes.

May import: errors, ops.w4a16, reference.w4a16, model.weights, torch.
"""

from dataclasses import dataclass

import torch

from ..errors import UnsupportedError
from ..ops import w4a16
from ..reference import w4a16 as reference
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
    UnsupportedError  rows that are no whole number of groups
    """
    if weight.shape[1] % group:
        raise UnsupportedError(f"the rows have {weight.shape[1]} weights, no whole number of groups of {group}.")
    levels, scales, zeros = reference.quantise(weight, group)
    return Packed(w4a16.pack(levels), scales, zeros, tuple(weight.shape))


def quantise(weights, group=None):
    """The same Weights with the matrices of every layer packed; embedding, head, norms and biases stay.

    group : 32, 64, 128, or None: the largest of them that divides every row
    """
    matrices = {name: x for name, x in weights.tensors.items() if name.split(".", 2)[-1] in MATRICES}
    if group is None:
        group = next((size for size in (128, 64) if not any(x.shape[1] % size for x in matrices.values())), 32)
    packed = {name: pack(matrix, group) for name, matrix in matrices.items()}
    return Weights(weights.config, weights.tensors | packed)
