"""Launchers of the matmul family: validate shapes, pick grid and block, call the CUDA kernel.

May import: errors, cuda, torch, the Launch of the softmax family. Grid and block are written here and nowhere else.
"""

import torch

from ..errors import ShapeError, UnsupportedError
from .softmax import Launch, _require

TILE = 16  # rows and columns of a tile of 03
_TILES = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16}
# variant -> (macros, rows and columns of the result of one block, threads of a block)
VARIANTS = {
    "01_naive": ({}, (32, 8), (32, 8)),
    "02_coalesced": ({}, (8, 32), (32, 8)),
    "03_shared_tile": ({"TILE": TILE}, (TILE, TILE), (TILE, TILE)),
    "04_register_tile": ({**_TILES, "THREAD_M": 4, "THREAD_N": 4}, (64, 64), 256),
    "05_vectorised": (_TILES, (64, 64), 256),
    "07_mma": ({}, (64, 64), 128),
}


def matmul(a, b, *, variant="07_mma"):
    """a times b, one launch; see `plan_matmul`."""
    launch = plan_matmul(a, b, variant=variant)
    launch.run()
    return launch.outputs[0]


def plan_matmul(a, b, *, variant="07_mma"):
    """The launch that multiplies two matrices, not yet run.

    Parameters
    ----------
    a : tensor, (size_m, size_k), contiguous; float32, for 07_mma float16
    b : tensor, (size_k, size_n), like `a`
    variant : str, a key of VARIANTS

    Returns
    -------
    launch : Launch; its output is (size_m, size_n), dtype of `a`

    Raises
    ------
    ShapeError        not two contiguous matrices of the dtype that fit each other, or not 16-byte aligned (05, 07)
    UnsupportedError  no such variant

    Notes
    -----
    Cost      2 * size_m * size_n * size_k FLOP; summed in float32
    """
    if variant not in VARIANTS:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(VARIANTS)}.")
    for name, matrix in (("a", a), ("b", b)):
        _require(matrix, name, 2, torch.float16 if variant == "07_mma" else torch.float32)
        if variant in ("05_vectorised", "07_mma") and matrix.data_ptr() % 16:
            raise ShapeError(f"{name} starts at an address that is no multiple of 16 bytes; pass {name}.clone().")
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"a has {a.shape[1]} columns and b {b.shape[0]} rows; the two must be equal.")
    from .. import cuda

    defines, (rows, cols), block = VARIANTS[variant]
    (size_m, size_k), size_n = a.shape, b.shape[1]
    across, down = -(-size_n // cols), -(-size_m // rows)
    grid = (down, across) if variant == "01_naive" else (across, down)
    out = a.new_empty(size_m, size_n)
    kernel = cuda.load(f"matmul/{variant}.cu", defines=defines)
    return Launch("cuda", kernel, grid, block, (a, b, out, size_m, size_n, size_k), {}, (out,))
