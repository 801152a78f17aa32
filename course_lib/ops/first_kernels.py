"""Launchers of vector, reduction and row_softmax: validate shapes, pick grid and block, call either twin.

May import: errors, cuda, triton, triton_kernels, torch, the Launch of the softmax family. Grid and block are written
here and nowhere else.
"""

from dataclasses import dataclass

import torch

from ..errors import ShapeError, UnsupportedError
from .softmax import Launch, _require, row_bytes

BLOCK = 128  # threads of a block
WARPS_PER_BLOCK = 4  # rows of one block in reduction/03
_ADD = {"01_add": "add_kernel", "02_tail": "add_tail_kernel"}
_ROW_SUM = {
    "01_shared_tree": "row_sum_tree_kernel",
    "02_warp_shuffle": "row_sum_shuffle_kernel",
    "03_warp_rows": "row_sum_warp_kernel",
}


@dataclass(frozen=True)
class Launches:
    """Several launches, one after the other, that make one result: the face of a single Launch."""

    launches: tuple[Launch, ...]
    outputs: tuple[torch.Tensor, ...]

    def run(self):
        for launch in self.launches:
            launch.run()

    def traffic(self):
        """(bytes read, bytes written) in global memory by all launches, as counted on the CPU."""
        counted = [launch.traffic() for launch in self.launches]
        return sum(read for read, _ in counted), sum(written for _, written in counted)


def add(x, y, *, variant="02_tail", language="cuda", block=BLOCK):
    """x + y, one launch; see `plan_add`."""
    return _ran(plan_add(x, y, variant=variant, language=language, block=block))


def row_sum(x, *, variant="02_warp_shuffle", language="cuda"):
    """Sum of every row, one launch; see `plan_row_sum`."""
    return _ran(plan_row_sum(x, variant=variant, language=language))


def row_softmax(x, *, variant="02_fused", language="cuda"):
    """Softmax of every row, one launch or three; see `plan_row_softmax`."""
    return _ran(plan_row_softmax(x, variant=variant, language=language))


def plan_add(x, y, *, variant="02_tail", language="cuda", block=BLOCK):
    """The launch that adds two vectors, not yet run.

    Parameters
    ----------
    x, y : tensors, (num_elements,), float32, contiguous
    variant : "01_add" (num_elements a multiple of `block`) or "02_tail" (any)
    language : "cuda" or "triton"
    block : int, elements of one block or program; a power of two in Triton

    Raises
    ------
    ShapeError        not one-dimensional contiguous float32 of one length, or a length that 01_add does not take
    UnsupportedError  no such variant or language
    """
    _known(variant, _ADD, language)
    _require(x, "x", 1, torch.float32)
    _require(y, "y", 1, torch.float32)
    if x.shape != y.shape:
        raise ShapeError(f"x has {x.numel()} elements and y {y.numel()}; both must have the same length.")
    if variant == "01_add" and x.numel() % block:
        raise ShapeError(f"x has {x.numel()} elements; 01_add takes a multiple of {block}. 02_tail takes any length.")
    out, grid = torch.empty_like(x), (-(-x.numel() // block),)
    arguments = (x, y, out) if variant == "01_add" else (x, y, out, x.numel())
    if language == "triton":
        return _triton(f"vector/{variant}", grid, arguments, {"BLOCK": block}, (out,))
    return _cuda(f"vector/{variant}.cu", _ADD[variant], grid, block, arguments, (out,), defines={})


def plan_row_sum(x, *, variant="02_warp_shuffle", language="cuda"):
    """The launch that sums every row, not yet run.

    Parameters
    ----------
    x : tensor, (num_rows, num_cols), float32, contiguous
    variant : "01_shared_tree", "02_warp_shuffle" (a block a row) or "03_warp_rows" (a warp a row)
    language : "cuda" or "triton", whose one function stands for all three

    Raises
    ------
    ShapeError        `x` is not 2-D, contiguous float32 with at least one row and one column
    UnsupportedError  no such variant or language
    """
    _known(variant, _ROW_SUM, language)
    _require(x, "x", 2, torch.float32)
    num_rows, num_cols = x.shape
    out = x.new_empty(num_rows)
    arguments = (x, out, num_rows, num_cols)
    if language == "triton":
        constants = {"BLOCK_N": min(1024, _tile(num_cols))}
        return _triton(f"reduction/{variant}", (num_rows,), arguments, constants, (out,))
    rows_per_block = WARPS_PER_BLOCK if variant == "03_warp_rows" else 1
    defines = {} if variant == "03_warp_rows" else {"BLOCK": BLOCK}
    grid = (-(-num_rows // rows_per_block),)
    return _cuda(f"reduction/{variant}.cu", _ROW_SUM[variant], grid, BLOCK, arguments, (out,), defines=defines)


def plan_row_softmax(x, *, variant="02_fused", language="cuda"):
    """The launch, or the three launches, that make the softmax of every row, not yet run.

    Parameters
    ----------
    x : tensor, (num_rows, num_cols), float32, contiguous, finite
    variant : "01_unfused" (three launches) or "02_fused" (one; a row must fit in the shared memory of a block)
    language : "cuda" or "triton"

    Raises
    ------
    ShapeError        `x` is not 2-D, contiguous float32 with at least one row and one column
    UnsupportedError  no such variant or language
    LaunchError       (at the launch) a row of 02_fused does not fit in shared memory
    """
    _known(variant, ("01_unfused", "02_fused"), language)
    _require(x, "x", 2, torch.float32)
    out = torch.empty_like(x)
    if variant == "02_fused":
        steps = {"fused_softmax_kernel": (x, out)}
    else:
        m, l, weights = x.new_empty(len(x)), x.new_empty(len(x)), torch.empty_like(x)
        steps = {
            "row_max_kernel": (x, m),
            "row_exp_sum_kernel": (x, m, weights, l),
            "row_divide_kernel": (weights, l, out),
        }
    launches = tuple(_row_softmax_step(variant, name, tensors, x.shape, language) for name, tensors in steps.items())
    return launches[0] if variant == "02_fused" else Launches(launches, (out,))


def _row_softmax_step(variant, name, tensors, shape, language):
    """One launch of the family: `tensors`, then the sizes."""
    num_rows, num_cols = shape
    written = tensors[2:] if name == "row_exp_sum_kernel" else tensors[-1:]
    arguments, grid = (*tensors, num_rows, num_cols), (num_rows,)
    if language == "triton":
        step = "" if variant == "02_fused" else "/" + name.removesuffix("_kernel")
        return _triton(f"row_softmax/{variant}{step}", grid, arguments, {"BLOCK_N": _tile(num_cols)}, written)
    shared_bytes = row_bytes(num_cols) if variant == "02_fused" else 0
    file = f"row_softmax/{variant}.cu"
    return _cuda(file, name, grid, BLOCK, arguments, written, defines={"BLOCK": BLOCK}, shared_bytes=shared_bytes)


def _cuda(file, name, grid, block, arguments, outputs, *, defines, shared_bytes=0):
    from .. import cuda

    kernel = cuda.load(file, name, defines=defines)
    return Launch("cuda", kernel, grid, block, arguments, {}, outputs, shared_bytes)


def _triton(stem, grid, arguments, constants, outputs):
    from ..triton_kernels import load

    return Launch("triton", load(stem), grid, 0, arguments, constants, outputs)


def _tile(num_cols):
    """The smallest power of two that holds a row, at least 16."""
    return 1 << max(num_cols - 1, 15).bit_length()


def _known(variant, variants, language):
    if variant not in variants:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(variants)}.")
    if language not in ("cuda", "triton"):
        raise UnsupportedError(f'language={language!r} is unknown; choose "cuda" or "triton".')


def _ran(launch):
    launch.run()
    return launch.outputs[0]
