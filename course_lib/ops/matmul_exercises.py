"""Launchers of kernels_cu/matmul_exercises, the kernels that the learner of chapter 04 writes.

May import: errors, cuda, torch, the Launch of the softmax family. Grid and block are written here and nowhere else.
"""

import torch

from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_tensor as _require
from ._foundation.launch import Launch

# variant -> (dtype, rows and columns of the result of a block, its threads, what m, n and k must be multiples of)
_FIXED = {
    "01_tile_with_tails": (torch.float32, (8, 32), (32, 8), (1, 1, 1)),
    "02_padded_rows": (torch.float32, (32, 32), (32, 8), (1, 1, 4)),
    "03_fragments": (torch.float16, (16, 8), (32,), (16, 8, 16)),
}
VARIANTS = tuple(_FIXED)


def plan(a, b, *, variant):
    """The launch that multiplies two matrices, not yet run.

    Parameters
    ----------
    a : tensor, (size_m, size_k), contiguous; float32, for 03_fragments float16
    b : tensor, (size_k, size_n), like `a`; for 02_padded_rows (size_n, size_k), and the result is a b^T
    variant : one of VARIANTS

    Returns
    -------
    launch : Launch; its output is (size_m, size_n) float32

    Raises
    ------
    ShapeError        not two contiguous matrices of the dtype that fit each other, or sizes that are no such multiples
    UnsupportedError  no such variant
    """
    if variant not in VARIANTS:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(VARIANTS)}.")
    dtype, (rows, cols), block, multiples = _FIXED[variant]
    for name, matrix in (("a", a), ("b", b)):
        _require(matrix, name, 2, dtype)
    size_m, size_k = a.shape
    b_k, size_n = b.shape[::-1] if variant == "02_padded_rows" else b.shape
    if b_k != size_k:
        raise ShapeError(f"a is {tuple(a.shape)} and b {tuple(b.shape)}; {variant} wants the same size_k in both.")
    sizes = {"size_m": size_m, "size_n": size_n, "size_k": size_k}
    for (name, size), multiple in zip(sizes.items(), multiples, strict=True):
        if size % multiple:
            raise ShapeError(f"{name} is {size}; {variant} takes multiples of {multiple}.")
    from .. import cuda

    out = a.new_empty(size_m, size_n, dtype=torch.float32)
    wanted = (size_n, size_k) if variant == "03_fragments" else tuple(sizes.values())
    kernel = cuda.load(f"matmul_exercises/{variant}.cu")
    grid = (-(-size_n // cols), -(-size_m // rows))
    return Launch("cuda", kernel, grid, block, (a, b, out, *wanted), {}, (out,))


def matmul(a, b, *, variant):
    """a times b, one launch; see `plan`."""
    launch = plan(a, b, variant=variant)
    launch.run()
    return launch.outputs[0]
