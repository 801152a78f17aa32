"""Sizes and types that launchers compute again and again.

May import: torch.
"""

import torch

ELEMENTS = {torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}  # dtype -> -DELEMENT
HEAD_DIMS = (64, 128)  # of every kernel on tensor cores
CHUNK = 8  # elements of 16 bits in 16 bytes: the rows of such a kernel start at multiples of so many


def ceil_div(a, b):
    return -(-a // b)


def power_of_two(size, least=16):
    """The smallest power of two that is at least `size` and at least `least`: a side of a Triton tile."""
    return max(least, 1 << (size - 1).bit_length())


def row_bytes(num_floats):
    """Dynamic shared memory for a row of float32: whole 16-byte words, since ptxas reads the end of a row in such."""
    return 16 * ceil_div(num_floats, 4)


def attention_outputs(q):
    """(out like `q` but contiguous, lse float32 without the last dimension), not initialised."""
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:-1], dtype=torch.float32)


def steps_of(x, *, single=0):
    """Elements from one entry of each dimension but the last to the next; `single` where there is only one."""
    return [stride if size > 1 else single for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True)]


def heads_in_turns(q, k, fitting_bytes):
    """Heads whose blocks run side by side: as many as have their K and V in `fitting_bytes`, in turns of equal size."""
    kv_bytes = 2 * k.shape[2] * k.shape[3] * k.element_size()
    fitting = max(1, fitting_bytes // kv_bytes) * (q.shape[1] // k.shape[1])
    num_heads = q.shape[0] * q.shape[1]
    return ceil_div(num_heads, ceil_div(num_heads, fitting))
