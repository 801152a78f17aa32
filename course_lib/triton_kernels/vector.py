"""Triton twins of kernels_cu/vector/: a program adds a whole tile of BLOCK numbers.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def add_kernel(
    x_ptr,  # (num_elements,) float
    y_ptr,  # like x
    out_ptr,  # like x
    BLOCK: tl.constexpr,  # numbers that one program adds
):
    """01_add: num_elements is a multiple of BLOCK. Grid (num_elements / BLOCK,)."""
    # region: work
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # (BLOCK,)
    x = tl.load(x_ptr + i)  # (BLOCK,)
    y = tl.load(y_ptr + i)  # (BLOCK,)
    tl.store(out_ptr + i, x + y)
    # endregion


@triton.jit
def add_tail_kernel(
    x_ptr,  # (num_elements,) float
    y_ptr,  # like x
    out_ptr,  # like x
    num_elements,
    BLOCK: tl.constexpr,  # numbers that one program adds
):
    """02_tail: any num_elements, the last tile is masked. Grid (ceil(num_elements / BLOCK),)."""
    # region: work
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # (BLOCK,)
    mask = i < num_elements  # (BLOCK,) which places exist
    x = tl.load(x_ptr + i, mask=mask)
    y = tl.load(y_ptr + i, mask=mask)
    tl.store(out_ptr + i, x + y, mask=mask)
    # endregion
