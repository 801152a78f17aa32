"""Launchers of chapter 01: a copy, a transpose, and recordings of a single request of a warp.

May import: errors, cuda, ops._foundation, torch. Grid and block are written here and nowhere else.
"""

import torch

from ..cuda.steps import names
from ..errors import ShapeError, UnsupportedError
from ._foundation.launch import cuda_launch, ran
from ._foundation.sizes import ceil_div

BLOCK = 256  # threads of a block of the copy
PER_THREAD = 8  # numbers of a thread of the copy, as its kernels say
TILE = 32
WARP_SIZE = 32
WORDS = 2048  # that a recorded load may reach, as 11_shared_read says
VARIANTS = tuple(f"{family}/{name}" for family in ("copy", "transpose") for name in names(family))


def plan(x, *, variant):
    """The launch that copies or transposes `x`, with a fresh output, not yet run.

    Parameters
    ----------
    x : tensor, (num_rows, num_cols) for a transpose, any shape for a copy; float32, contiguous
    variant : one of VARIANTS

    Returns
    -------
    launch : Launch; ``launch.run()`` executes it, ``launch.profile()`` counts its traffic

    Raises
    ------
    ShapeError        wrong dtype, dimensions or layout, or no number at all
    UnsupportedError  no such variant
    """
    if variant not in VARIANTS:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(VARIANTS)}.")
    if x.dtype != torch.float32 or not x.is_contiguous() or x.numel() == 0:
        raise ShapeError(f"x is {x.dtype}, {tuple(x.shape)}; these kernels take one or more contiguous float32 numbers")
    if variant.startswith("copy/"):
        out = torch.empty_like(x)
        return cuda_launch(variant, (ceil_div(x.numel(), BLOCK * PER_THREAD),), BLOCK, (x, out, x.numel()), (out,))
    if x.ndim != 2:
        raise ShapeError(f"x has {x.ndim} dimensions {tuple(x.shape)}; a transpose takes 2.")
    num_rows, num_cols = x.shape
    out = x.new_empty(num_cols, num_rows)
    grid = (ceil_div(num_cols, TILE), ceil_div(num_rows, TILE))
    return cuda_launch(variant, grid, (TILE, TILE), (x, out, num_rows, num_cols), (out,))


def transpose(x, *, variant="transpose/03_conflict_free"):
    """`x` turned round, one launch. x (num_rows, num_cols) float32 -> (num_cols, num_rows)."""
    return ran(plan(x, variant=variant))


def record_global(places):
    """One load of a warp from global memory, run on the SIMT machine.

    x holds its own indices, so that what a lane has read says where it read.

    Parameters
    ----------
    places : 32 ints >= 0, the float that each lane shall read

    Returns
    -------
    (tuple of the 32 places that were read, sectors that the load touched)
    """
    return _record("access/10_global_read.cu", places, "global_load", "sectors")


def record_shared(places):
    """The same from shared memory: (the 32 places that were read, wavefronts that the load took)."""
    return _record("access/11_shared_read.cu", places, "shared_load", "wavefronts")


def _record(path, places, traffic, count):
    from .. import cuda

    if len(places) != WARP_SIZE or min(places) < 0 or max(places) >= WORDS:
        raise ShapeError(f"places holds {len(places)} numbers; give 32, one for each lane, from 0 to {WORDS - 1}.")
    x = torch.arange(WORDS, dtype=torch.float32, device="cpu")
    index = torch.tensor(places, dtype=torch.int32, device="cpu")
    out = torch.empty(WARP_SIZE, device="cpu")
    kernel = cuda.load(path)
    report = kernel.profile(1, WARP_SIZE, x, index, out, outputs=(out,))
    line = next(n for n, text in enumerate(kernel.source.splitlines(), kernel.first_line) if "// recorded" in text)
    return tuple(int(place) for place in out.tolist()), getattr(getattr(report.lines[line], traffic), count)
