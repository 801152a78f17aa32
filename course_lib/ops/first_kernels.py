"""Launchers of vector, reduction and row_softmax: validate shapes, pick grid and block, call either twin.

May import: errors, cuda.steps, ops._foundation, torch. Grid and block are written here and nowhere else.
"""

import torch

from ..cuda.steps import names
from ..errors import ShapeError, UnsupportedError
from ._foundation.checks import require_step, require_tensor
from ._foundation.launch import Launches, cuda_launch, ran, triton_launch
from ._foundation.sizes import ceil_div, power_of_two, row_bytes
from ._foundation.typed import typed

BLOCK = 128  # threads of a block
WARPS_PER_BLOCK = 4  # rows of one block in reduction/03
VECTOR_VARIANTS = names("vector", without=("who",))
REDUCTION_VARIANTS = names("reduction", without=("tree_steps", "rows_in_turn"))
ROW_SOFTMAX_VARIANTS = names("row_softmax")


def add(x, y, *, variant="02_tail", language="cuda", block=BLOCK):
    """x + y, one launch; see `plan_add`."""
    return ran(plan_add(x, y, variant=variant, language=language, block=block))


def row_sum(x, *, variant="02_warp_shuffle", language="cuda"):
    """Sum of every row, one launch; see `plan_row_sum`."""
    return ran(plan_row_sum(x, variant=variant, language=language))


def row_softmax(x, *, variant="02_fused", language="cuda"):
    """Softmax of every row, one launch or three; see `plan_row_softmax`."""
    return ran(plan_row_softmax(x, variant=variant, language=language))


@typed
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
    require_step("vector", variant, VECTOR_VARIANTS, language)
    require_tensor(x, "x", 1, torch.float32)
    require_tensor(y, "y", 1, torch.float32)
    if x.shape != y.shape:
        raise ShapeError(f"x has {x.numel()} elements and y {y.numel()}; both must have the same length.")
    if language == "triton" and block & (block - 1):
        raise UnsupportedError(f"block={block}; a Triton program has a power of two.")
    if variant == "01_add" and x.numel() % block:
        raise ShapeError(f"x has {x.numel()} elements; 01_add takes a multiple of {block}. 02_tail takes any length.")
    out, grid = torch.empty_like(x), (ceil_div(x.numel(), block),)
    arguments = (x, y, out) if variant == "01_add" else (x, y, out, x.numel())
    if language == "triton":
        return triton_launch(f"vector/{variant}", grid, arguments, {"BLOCK": block}, (out,))
    return cuda_launch(f"vector/{variant}", grid, block, arguments, (out,))


@typed
def plan_row_sum(x, *, variant="02_warp_shuffle", language="cuda"):
    """The launch that sums every row, not yet run.

    Parameters
    ----------
    x : tensor, (num_rows, num_cols), float32, contiguous
    variant : "01_shared_tree", "02_warp_shuffle" (a block a row) or "03_warp_rows" (a warp a row)
    language : "cuda" or "triton", which has one function for all three

    Raises
    ------
    ShapeError        `x` is not 2-D, contiguous float32 with at least one row and one column
    UnsupportedError  no such variant or language
    """
    require_step("reduction", variant, REDUCTION_VARIANTS, language)
    require_tensor(x, "x", 2, torch.float32)
    num_rows, num_cols = x.shape
    out = x.new_empty(num_rows)
    arguments = (x, out, num_rows, num_cols)
    if language == "triton":
        constants = {"BLOCK_N": min(1024, power_of_two(num_cols))}
        return triton_launch(f"reduction/{variant}", (num_rows,), arguments, constants, (out,))
    grid = (ceil_div(num_rows, WARPS_PER_BLOCK if variant == "03_warp_rows" else 1),)
    return cuda_launch(f"reduction/{variant}", grid, BLOCK, arguments, (out,), defines={"BLOCK": BLOCK})


@typed
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
    require_step("row_softmax", variant, ROW_SOFTMAX_VARIANTS, language)
    require_tensor(x, "x", 2, torch.float32)
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
        constants = {"BLOCK_N": power_of_two(num_cols)}
        return triton_launch(f"row_softmax/{variant}", grid, arguments, constants, written, kernel=name)
    return cuda_launch(
        f"row_softmax/{variant}", grid, BLOCK, arguments, written, kernel=name, defines={"BLOCK": BLOCK},
        shared_bytes=row_bytes(num_cols) if variant == "02_fused" else 0,
    )  # fmt: skip
